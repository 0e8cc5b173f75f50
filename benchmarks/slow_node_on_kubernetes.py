"""How long an application takes on Kubernetes when one of its nodes is sick, and who helps it how much.

    make cluster
    python benchmarks/slow_node_on_kubernetes.py --scenario a                       every contender once
    python benchmarks/slow_node_on_kubernetes.py --scenario b --rounds 5            in turns, medians and ranges
    python benchmarks/slow_node_on_kubernetes.py --scenario a --contenders oracle rekindle --seconds 30

Real Spark on the cluster of `make cluster`, with Rekindle from this source tree, which is built and installed first.
Three executors, one on each worker. Every worker is held to 0.6 CPU, and the sick one to a tenth of that. The driver
and the operator are on the other two. The clock runs in the driver, from the first job's start to its result; all
executors are there before.

    scenario  what is run, and when a node becomes sick
    a         many short tasks; from the start
    b         as many tasks as slots, a third of them on the sick node; from the start
    c         a join with a skewed key; never: who blocks a node is wrong
    d         many short tasks; half-way
    e         TPC-H's queries 1, 12 and 21 at scale factor 1, as often as fits; from the start
    f         a map stage and a reduce stage; between them, so that map output is on the sick node

    contender                    what it is
    healthy                      plain Spark, no node is sick
    healthy-rekindle             as rekindle, no node is sick: what it costs where nothing is slow
    healthy-rekindle-node-aware  the same with detector=nodeAware
    oracle                       plain Spark that never had the sick node: what all are compared with (c: healthy is)
    plain                        plain Spark
    spark-speculation            spark.speculation at its defaults, but minTaskRuntime=2s
    spark-speculation-0.75-1.5   the same with Rekindle's quantile and multiplier
    spark-speculation-defaults   spark.speculation and nothing else
    roll                         Spark's executor roll plugin, one executor every 15 s
    rekindle                     spec.speculation: enabled, baselineLowerBound=2s, detector=executionTime
    rekindle-node-aware          the same with detector=nodeAware
    rekindle-defaults            spec.speculation: enabled, and nothing else

The work of a task is a number of steps, so that a slow node takes longer for it. How many is found out once in a call:
as many as make a healthy run compute for --seconds. What starts cold, and a machine that is busy, comes on top.

Every answer is compared with that of the first run. Attempts, copies and wasted seconds are from Spark's event log,
blocks and drains from the operator's events. Results go to .build/bench/slow_node_on_kubernetes.json, what drivers and
operator logged to .build/bench/logs. Nothing is left behind: nodes have all their CPUs again, and no application and
no block is there, after an error or Ctrl-C too. Rekindle and a ConfigMap with the programs stay.

exit codes: 0 done; 1 a run had no answer or another one; 2 usage, or no cluster; 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench import interleaved
from benchmarks.data import tpch_data
from benchmarks.on_kubernetes.apps.work import steps_per_second
from benchmarks.on_kubernetes.beside_slow_node import PREFIX, Bench, run_once
from benchmarks.on_kubernetes.command_line import exit_code, positive, say, show
from benchmarks.on_kubernetes.contenders import (
    CONTENDERS,
    HOLD,
    SCENARIOS,
    SICK,
    TPCH,
    TPCH_SCALE,
    Contender,
    arguments,
    programs,
)
from benchmarks.on_kubernetes.installed import installed
from benchmarks.on_kubernetes.outcome import HEAD, Told, run_of, table, with_answer
from benchmarks.results import ResultsFile, Run
from tests.cluster import api
from tests.cluster.deployment import NAMESPACE, Images
from tests.kind.cluster import why_unhealthy
from tests.kind.kubectl import given_kubeconfig, kubectl
from tests.kind.processes import Failed
from tests.kind.storage import host_folder

_BUILD = Path(__file__).resolve().parents[1] / ".build" / "bench"
_ENDED = ("COMPLETED", "FAILED")


def why_not() -> str | None:
    """Why nothing can be measured here."""
    if given_kubeconfig() is not None:
        return "the nodes of the cluster of REKINDLE_TEST_KUBECONFIG cannot be slowed; unset it"
    if (problem := why_unhealthy()) is not None:
        return f"no Kubernetes: {problem}; `make cluster` makes one"
    if not kubectl("get", "crd", "sparkapplications.rekindle.dev", "--ignore-not-found").strip():
        return None
    there = json.loads(kubectl("get", "sparkapplications.rekindle.dev", "-A", "-o", "json"))["items"]
    busy = [name for one in there if (name := one["metadata"]["name"]) and not _is_over(one)]
    return f"the cluster is in use, by {', '.join(busy)}" if busy else None


def _is_over(application: dict[str, Any]) -> bool:
    state = ((application.get("status") or {}).get("applicationState") or {}).get("state")
    return state in _ENDED or application["metadata"]["name"].startswith(PREFIX)


def _lay_out_data() -> None:
    """TPC-H's tables where every node has them."""
    say(f"TPC-H's tables at scale factor {TPCH_SCALE:g}")
    shutil.copytree(tpch_data(TPCH_SCALE, _BUILD / "data"), host_folder() / TPCH, dirs_exist_ok=True)


def check_undisturbed(images: Images) -> None:
    """Raises Failed where somebody has installed another operator since."""
    template = "{.spec.template.spec.containers[0].image}"
    found = kubectl("get", "deployment", "rekindle", "-n", NAMESPACE, "-o", f"jsonpath={template}")
    if found.rpartition("/")[2] != images.operator:
        raise Failed(f"another operator was installed meanwhile: {found}, not {images.operator}")


def measure(options: argparse.Namespace, names: Sequence[str]) -> list[Run]:
    """All runs; each is saved, and told in a line, as soon as it is there."""
    scenario = SCENARIOS[options.scenario]
    rate = steps_per_second()
    words = arguments(scenario, options.seconds, rate)
    images = installed(*(["logLevel=DEBUG"] if options.debug else []))
    api.apply(programs())
    if scenario.data:
        _lay_out_data()
    bench = Bench(options.scenario, scenario, words, images.spark, options.deadline, options.folder / "logs", say)
    results, about = ResultsFile(options.folder / "slow_node_on_kubernetes.json"), _about(options, words, images)
    say(f"{options.scenario}: {scenario.title}; {scenario.program} {' '.join(words)}; {rate:,.0f} steps a second")
    found: list[Run] = []
    for number, name in interleaved(names, range(1, options.rounds + 1)):
        right = next((run.details["answer"] for run in found if run.error is None), None)
        found.append(with_answer(_one(bench, CONTENDERS[name], number), right))
        check_undisturbed(images)
        results.save(options.scenario, about, found)
        say(_line(found[-1]))
    return found


def _one(bench: Bench, contender: Contender, number: int) -> Run:
    """A run, also one without an answer."""
    say(f"round {number}, {contender.name}")
    try:
        told = run_once(bench, contender, number)
    except (Failed, AssertionError, TimeoutError) as error:
        say(f"  {error}")
        return Run(contender.name, number, error=str(error).partition("\n")[0])
    if contender.is_rekindle:
        _tell_of_operator(told)
    return run_of(contender, number, told)


def _tell_of_operator(told: Told) -> None:
    """What it did, in seconds since the first job's start."""
    for note in told.notes:
        say(f"  at {note.at - told.result['began']:+6.1f} s  {note.reason} ({note.about} {note.name}): {note.text}")


def _line(run: Run) -> str:
    if run.error is not None:
        return f"round {run.number}, {run.contender}: failed: {run.error}"
    figures = "; ".join(f"{title} {run.details[title]}" for title in HEAD if run.details[title] is not None)
    return f"round {run.number}, {run.contender}: {run.seconds:.1f} s; {figures}"


def _about(options: argparse.Namespace, words: list[str], images: Images) -> dict[str, Any]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "settings": {
            "rounds": options.rounds,
            "seconds": options.seconds,
            "program": words,
            "hold": HOLD,
            "sick": SICK,
        },
        "kubernetes": json.loads(kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"],
        "images": vars(images),
        **{package: version(package) for package in ("rekindle", "pyspark")},
    }


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--scenario", choices=list(SCENARIOS), required=True, help="one of those above")
    add("--rounds", type=positive, default=1, help="how often each contender runs (default: %(default)s)")
    add("--contenders", nargs="+", choices=list(CONTENDERS), metavar="NAME", help="only these (default: all)")
    add("--seconds", type=positive, default=60, help="a healthy run computes for so long (default: %(default)s)")
    add("--deadline", type=positive, default=1200, help="seconds after which a run failed (default: %(default)s)")
    add("--folder", type=Path, default=_BUILD, help="where results and logs go (default: .build/bench)")
    add("--markdown", type=Path, metavar="FILE", help="write the table there too")
    add("--debug", action="store_true", help="the operator logs each of its looks")
    return parser


def chosen(options: argparse.Namespace) -> list[str]:
    """The contenders, each once. Raises ValueError for one that the scenario does not have."""
    there = SCENARIOS[options.scenario].contenders()
    names = list(dict.fromkeys(options.contenders or there))
    if strange := [name for name in names if name not in there]:
        raise ValueError(f"in scenario {options.scenario} no node is sick: leave out {', '.join(strange)}")
    return names


def main() -> int:
    options = make_parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an error it has everything undone
    try:
        names = chosen(options)
        if (problem := why_not()) is not None:
            raise ValueError(problem)
    except (ValueError, Failed) as error:
        print(f"slow_node_on_kubernetes.py: no measurement: {error}", file=sys.stderr)
        return 2
    try:
        found = measure(options, names)
    except (KeyboardInterrupt, Failed) as error:
        return exit_code(error, "all is as it was")
    scenario = SCENARIOS[options.scenario]
    title = f"### {options.scenario}: {scenario.title}\n\n"
    return show(found, table(found, names, scenario.reference), options.markdown, title)


if __name__ == "__main__":
    sys.exit(main())
