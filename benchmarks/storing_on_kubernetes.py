"""What it costs on Kubernetes to store a pipeline's results when nothing fails, on a volume, on several, in a bucket.

    make cluster
    python benchmarks/storing_on_kubernetes.py                                    every contender once
    python benchmarks/storing_on_kubernetes.py --rounds 5                         in turns, medians and ranges
    python benchmarks/storing_on_kubernetes.py --contenders hand-bucket bucket --scale 2

Real Spark on the cluster of `make cluster`, with Rekindle from this source tree, which is built and installed first.
The job is that of no-fault (benchmarks/run.py): profits by nation and year of TPC-H's lines, a pipeline that stores
nearly all rows three times, on three executors of one core. Every node has TPC-H's tables, and a folder for answers.

    contender    what it is                                                            stores
    plain        plain Spark, one lazy plan                                            nothing but the answer
    hand-volume  by hand, the same partitions: write.parquet and read.parquet          on a volume that all mount
    volume       Rekindle, spec.recovery.storage.claimTemplate                         on a volume
    volumes      the same with recovery.volumes: 3                                     on three, and a journal's
    hand-bucket  as hand-volume, by s3a:// and Spark's default committer, which there  in a bucket
                 moves a file by copying it
    bucket       Rekindle, recovery.store                                              in a bucket

seconds: in the driver, from when its executors are there and have done a small job to when the answer is written.
core-seconds: of the whole machine meanwhile, whoever used them; that is the S3 server too, and others' work if there is
any. Every answer is compared with the right one, as DuckDB has it; another one is an error and no figure.

The volumes of `make cluster`, the tables and the answers are in memory (tmpfs), on the one machine that is all nodes:
so nothing of a disk's or a network's price is in the figures. An S3 server that is new for each run keeps its files on
its node's own disk, through that machine's cache. The pods' JVMs have their second compiler, which they go without in
the tests.

Results go to .build/bench/storing_on_kubernetes.json. Nothing is left behind but Rekindle, a ConfigMap, the
S3 server's program beside the volumes, and the tables in .build/bench/data.

exit codes: 0 done; 1 a run did not end well or had a wrong answer; 2 usage, or no cluster; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench import interleaved
from benchmarks.data import tpch_data
from benchmarks.on_kubernetes.command_line import exit_code, positive, say, show
from benchmarks.on_kubernetes.installed import installed
from benchmarks.results import ResultsFile, Run, comparison, ratio
from benchmarks.tpch.oracle import difference
from benchmarks.tpch.pipeline import PARTITIONS
from rekindle.controller.resources import Object
from tests.cluster import api, bucket
from tests.cluster.api import SPREAD, Application, items, until
from tests.cluster.deployment import JOBS
from tests.kind import storage
from tests.kind.cluster import why_unhealthy
from tests.kind.kubectl import given_kubeconfig
from tests.kind.processes import Failed
from tests.tools.bucket import missing

_FOLDER = Path(__file__).resolve().parents[1] / ".build" / "bench"
_HERE = Path(__file__).parent
_PROGRAM = _HERE / "on_kubernetes" / "pipelines" / "storing.py"
_SOURCES = (
    _PROGRAM,
    _HERE / "job.py",
    *sorted((_HERE / "tpch").glob("*.py")),
    *sorted((_HERE / "sources").glob("*.py")),
)
_PROGRAMS, _NAME, _ROOT = "storing-programs", "storing", "/app"
_MINE, _TABLES, _ANSWERS, _ANSWER = f"/{_NAME}", "tables", "answers", "profits"
_EXECUTORS = 3
_GONE_SECONDS = 120.0


@dataclass(frozen=True)
class Contender:
    """Who does the job.

    Attributes:
        how: what the program is told: `plain`, `hand` or `rekindle`.
        place: where results are stored: `volume`, `bucket`, or nowhere.
        volumes: over how many they are spread.
    """

    name: str
    how: str
    place: str = ""
    volumes: int = 1


CONTENDERS = {
    one.name: one
    for one in (
        Contender("plain", "plain"),
        Contender("hand-volume", "hand", "volume"),
        Contender("volume", "rekindle", "volume"),
        Contender("volumes", "rekindle", "volume", volumes=3),
        Contender("hand-bucket", "hand", "bucket"),
        Contender("bucket", "rekindle", "bucket"),
    )
}


def programs() -> Object:
    """The ConfigMap with what the driver's program imports of this project, a key for each file."""
    data = {_key(path): path.read_text(encoding="utf-8") for path in _SOURCES}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _PROGRAMS, "namespace": JOBS}, "data": data}


def _path(source: Path) -> str:
    """Of a file below a root of Python's."""
    return str(source.relative_to(_HERE.parent))


def _key(source: Path) -> str:
    return _path(source).replace("/", ".")


def manifest(contender: Contender, image: str) -> Object:
    """The application, which is tried once."""
    pod, stored = _pod(contender), _stored(contender)
    spec = {
        "type": "Python",
        "sparkVersion": version("pyspark"),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "mainApplicationFile": f"local://{_ROOT}/{_path(_PROGRAM)}",
        "arguments": [contender.how],
        "restartPolicy": {"type": "Never"},
        # Spark on Kubernetes takes no notice of the first, by which benchmarks/job.py knows how many are to come
        "sparkConf": {"spark.cores.max": str(_EXECUTORS), "spark.sql.shuffle.partitions": str(PARTITIONS)},
        "driver": {**pod, "serviceAccount": "spark"},
        "executor": {**pod, "instances": _EXECUTORS, "affinity": SPREAD},
        **stored,
        "volumes": [_programs_volume(), _folder_volume(), *stored.get("volumes", ())],
    }
    metadata = {"name": f"{_NAME}-{contender.name}", "namespace": JOBS}
    return {"apiVersion": "rekindle.dev/v1beta2", "kind": "SparkApplication", "metadata": metadata, "spec": spec}


def _pod(contender: Contender) -> Object:
    """Of driver and executors."""
    environment = {
        "PYTHONPATH": _ROOT,
        "TPCH_DATA": f"{_MINE}/{_TABLES}",
        "TPCH_OUT": f"{_MINE}/{_ANSWERS}/{_ANSWER}",
        "JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC",
    }
    mounts = [{"name": _PROGRAMS, "mountPath": _ROOT, "readOnly": True}, {"name": _NAME, "mountPath": _MINE}]
    return {
        "cores": 1,
        "memory": "1g",
        "coreRequest": "100m",
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": [*mounts, *(bucket.MOUNTS if contender.place == "bucket" else ())],
    }


def _stored(contender: Contender) -> Object:
    """Of the spec: where results are stored, whoever stores them."""
    if contender.place == "bucket":
        return bucket.application(_NAME)
    if contender.place == "volume":
        claim = {"storageClassName": storage.CLASS, "resources": {"requests": {"storage": "1Gi"}}}
        return {"recovery": {"storage": {"claimTemplate": claim}, "volumes": contender.volumes}}
    return {}


def _programs_volume() -> Object:
    """Every file is where it lies in this checkout."""
    files = [{"key": _key(path), "path": _path(path)} for path in _SOURCES]
    return {"name": _PROGRAMS, "configMap": {"name": _PROGRAMS, "items": files}}


def _folder_volume() -> Object:
    return {"name": _NAME, "hostPath": {"path": f"{storage.IN_NODE}/{_NAME}", "type": "Directory"}}


@contextmanager
def _laid_out(scale: float) -> Iterator[Path]:
    """The tables where every node has them, and a folder for answers; its path here. It is removed afterwards."""
    folder = storage.host_folder() / _NAME
    tables = tpch_data(scale, _FOLDER / "data")
    say(f"TPC-H's tables at scale factor {scale:g}")
    try:
        shutil.copytree(tables, folder / _TABLES, dirs_exist_ok=True)
        (folder / _ANSWERS).mkdir(exist_ok=True)
        (folder / _ANSWERS).chmod(0o777)  # pods run as another user
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_once(image: str, contender: Contender, number: int, folder: Path, deadline: float) -> Run:
    """A run, its answer looked at. AssertionError or Failed where it does not end well."""
    answer = folder / _ANSWERS / _ANSWER
    with bucket.server(image) if contender.place == "bucket" else nullcontext():
        app = Application(manifest(contender, image))
        _clear(app)
        try:
            shutil.rmtree(answer, ignore_errors=True)
            state = app.apply().wait_for("COMPLETED", "FAILED", seconds=deadline)
            if state != "COMPLETED":
                raise Failed(f"it is {state}: {app.tell()}")
            (took,) = app.said("took")
        finally:
            _clear(app)
    wrong = difference("profits", folder / _TABLES, 0, answer)
    return Run(contender.name, number, took["seconds"], took["core_seconds"], error=wrong)


def _clear(app: Application) -> None:
    """Nothing is left of it, and its volumes are empty."""
    app.delete()
    mine = f"rekindle.dev/application={app.name}"
    kinds = "pods,persistentvolumeclaims"
    until(f"the end of {kinds} of {app.name}", lambda: not items(kinds, JOBS, mine), _GONE_SECONDS)
    storage.recycle_volumes()


def measure(options: argparse.Namespace, names: Sequence[str]) -> list[Run]:
    """All runs; each is saved, and told in a line, as soon as it is there."""
    images = installed()
    api.apply(programs())
    found: list[Run] = []
    results = ResultsFile(options.folder / "storing_on_kubernetes.json")
    settings = {"contenders": list(names), "rounds": options.rounds, "scale": options.scale}
    about = {
        "cores": os.cpu_count(),
        "settings": settings,
        **{name: version(name) for name in ("rekindle", "pyspark")},
    }
    with _laid_out(options.scale) as folder:
        for number, name in interleaved(names, range(1, options.rounds + 1)):
            say(f"round {number}, {name}")
            found.append(_one(images.spark, CONTENDERS[name], number, folder, options.deadline))
            results.save("storing", about, found)
            run = found[-1]
            say(f"  {run.error or f'{run.seconds:.1f} s, {run.core_seconds:.0f} core-seconds'}")
    return found


def _one(image: str, contender: Contender, number: int, folder: Path, deadline: float) -> Run:
    """A run, also one without an answer."""
    try:
        return run_once(image, contender, number, folder, deadline)
    except (Failed, AssertionError, ValueError) as error:  # the last: its driver has not told what it took
        say(f"  {error}")
        return Run(contender.name, number, error=str(error).partition("\n")[0])


def table(found: Sequence[Run], names: Sequence[str]) -> str:
    """A line for each contender, with its time beside those that store nothing and that store there by hand."""

    def by_hand(name: str) -> float | None:
        place = CONTENDERS[name].place
        return ratio(found, name, f"hand-{place}") if place else None

    return comparison(found, names, {"times plain": lambda name: ratio(found, name, "plain"), "times by hand": by_hand})


def scale(text: str) -> float:
    """A number above zero. ValueError otherwise."""
    if not (number := float(text)) > 0:
        raise ValueError
    return number


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add(
        "--contenders",
        nargs="+",
        choices=list(CONTENDERS),
        default=list(CONTENDERS),
        metavar="NAME",
        help=f"of {', '.join(CONTENDERS)} (default: each)",
    )
    add("--rounds", type=positive, default=1, help="how often each contender runs (default: %(default)s)")
    add("--scale", type=scale, default=1.0, help="TPC-H's scale factor (default: %(default)s)")
    add("--deadline", type=positive, default=900, help="seconds after which a run failed (default: %(default)s)")
    add("--folder", type=Path, default=_FOLDER, help="where results go (default: .build/bench)")
    add("--markdown", type=Path, metavar="FILE", help="write the table there too")
    return parser


def why_not(names: Sequence[str]) -> str | None:
    """Why they cannot be measured here."""
    if given_kubeconfig() is not None:
        return "unset REKINDLE_TEST_KUBECONFIG"
    if any(CONTENDERS[name].place == "bucket" for name in names) and (problem := missing()) is not None:
        return problem
    return None if (problem := why_unhealthy()) is None else f"{problem}; `make cluster`"


def main() -> int:
    options = make_parser().parse_args()
    names = list(dict.fromkeys(options.contenders))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an error it has everything undone
    if (problem := why_not(names)) is not None:
        print(f"storing_on_kubernetes.py: no measurement: {problem}", file=sys.stderr)
        return 2
    try:
        found = measure(options, names)
    except (KeyboardInterrupt, Failed) as error:
        return exit_code(error, "the application is removed")
    return show(found, table(found, names), options.markdown)


if __name__ == "__main__":
    sys.exit(main())
