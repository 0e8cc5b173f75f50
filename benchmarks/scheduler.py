"""The core beside Flink's scheduler: the same procedures on the same job, in turns.

    python benchmarks/scheduler.py                  both, 10,000 x 10,000 tasks, five rounds; twelve minutes
    python benchmarks/scheduler.py --linear         ours alone at 1,000, 10,000 and 100,000 tasks; four minutes

Flink comes from Maven with its own benchmark classes (`flink-runtime` and its tests), which `flink/` calls; that
needs Maven and a JDK. Each procedure runs in a new process each round, first cold and then over and over.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import Spread, markdown

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / ".build" / "bench" / "flink"
CLASS_PATH_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
PROCESS_SECONDS, MAVEN_SECONDS = 600.0, 900.0


@dataclass(frozen=True)
class Procedure:
    """`name` is known to both sides; `times` it is called in one process."""

    name: str
    title: str
    times: int


PROCEDURES = (
    Procedure("restart", "tasks to restart, a producer failed", 200),
    Procedure("detect", "a look for slow tasks, 80 % finished", 200),
    Procedure("detect-slow", "the same, and all others are slow", 200),
    Procedure("release", "all consumers finish, partitions are released", 11),
    Procedure("build", "build the execution graph", 11),
    Procedure("restart-all", "restart all tasks", 3),
)


class Failed(Exception):
    """A peer that cannot be measured; the message says why and what to do."""


@dataclass
class Measured:
    """Of one side and procedure: milliseconds of the first call of each process, and the usual one of the later."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    named: set[int] = field(default_factory=set)

    def add(self, lines: Sequence[str]) -> None:
        calls = [(int(nanoseconds) / 1e6, int(named)) for nanoseconds, named in (line.split() for line in lines)]
        later = [milliseconds for milliseconds, _ in calls[1:]]
        self.cold.append(calls[0][0])
        self.warm.append(median(later[len(later) // 2 :]))
        self.named.update(named for _, named in calls)


def run(command: Sequence[str]) -> list[str]:
    """What a process printed. Raises Failed with its last words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{command[0]} took more than {PROCESS_SECONDS:.0f} s and was ended") from error
    lines = done.stdout.splitlines()
    if done.returncode:
        raise Failed(f"{' '.join(command[-4:])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return lines


def ours(procedure: str, parallelism: int, times: int) -> list[str]:
    return run([sys.executable, str(HERE / "procedures.py"), procedure, str(parallelism), str(times)])


def flink(class_path: str) -> Callable[[str, int, int], list[str]]:
    def theirs(procedure: str, parallelism: int, times: int) -> list[str]:
        java = ["java", "-Xmx4g", "-cp", class_path, "rekindle.FlinkPeer"]
        return run([*java, procedure, str(parallelism), str(times)])

    return theirs


def build_flink() -> str:
    """The class path of Flink's benchmarks and what calls them. Made once for each content."""
    sources = [HERE / "flink" / "pom.xml", *sorted((HERE / "flink").rglob("*.java"))]
    content = hashlib.sha256(b"".join(one.read_bytes() for one in sources)).hexdigest()[:16]
    place = BUILD / content
    classes, listed = place / "classes", place / "class-path.txt"
    if not (place / "done").exists():
        missing = [tool for tool in ("mvn", "javac") if shutil.which(tool) is None]
        if missing:
            raise Failed(f"{' and '.join(missing)} not found: install Maven and a JDK of 17 or newer, or say --linear")
        print("Flink's scheduler and its tests, from Maven (a minute the first time)", flush=True)
        shutil.rmtree(BUILD, ignore_errors=True)
        classes.mkdir(parents=True)
        pom, output = str(HERE / "flink" / "pom.xml"), f"-Dmdep.outputFile={listed}"
        command = ["mvn", "-q", "-B", "-f", pom, CLASS_PATH_GOAL, output]
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_SECONDS, check=False)
        if done.returncode:
            raise Failed(f"Maven ended with {done.returncode}:\n{done.stdout[-2000:]}")
        run(["javac", "-cp", listed.read_text(), "-d", str(classes), *map(str, sources[1:])])
        (place / "done").touch()
    return f"{classes}:{listed.read_text()}"


def compare(rounds: int, parallelism: int) -> Iterator[tuple[Procedure, dict[str, Measured]]]:
    """Each procedure on both sides; who goes first changes from round to round."""
    sides = {"flink": flink(build_flink()), "ours": ours}
    found = {procedure: {side: Measured() for side in sides} for procedure in PROCEDURES}
    for number in range(rounds):
        for procedure, measured in found.items():
            for side in sorted(sides, reverse=bool(number % 2)):
                measured[side].add(sides[side](procedure.name, parallelism, procedure.times))
            said = ", ".join(f"{side} {one.cold[-1]:.1f} / {one.warm[-1]:.2f} ms" for side, one in measured.items())
            print(f"   round {number + 1}  {procedure.title}: {said}", flush=True)
    for procedure, measured in found.items():
        if measured["flink"].named != measured["ours"].named:
            raise Failed(f"{procedure.title}: the answers differ: {measured}")
        yield procedure, measured


def spread(values: Sequence[float]) -> str:
    found = Spread(median(values), min(values), max(values), len(values))
    if found.median >= 20:
        return str(found)
    return f"{found.median:.2f} ({found.low:.2f} – {found.high:.2f})"


def comparison_table(rounds: int, parallelism: int) -> str:
    head = ("milliseconds", "Flink, cold", "Flink, warm", "Rekindle, cold", "Rekindle, warm", "Flink warm takes, times")
    rows = []
    for procedure, measured in compare(rounds, parallelism):
        theirs, mine = measured["flink"], measured["ours"]
        cells = (spread(theirs.cold), spread(theirs.warm), spread(mine.cold), spread(mine.warm))
        rows.append((procedure.title, *cells, median(theirs.warm) / median(mine.warm)))
    return markdown(head, rows)


def linear_table(sizes: Sequence[int]) -> str:
    """Microseconds for each task of a vertex, at several sizes, and bytes."""
    rows = []
    for procedure in PROCEDURES:
        cells = []
        for size in sizes:
            measured = Measured()
            measured.add(ours(procedure.name, size, 5))
            cells.append(measured.warm[0] * 1000 / size)
        rows.append((procedure.title, *cells))
        print(f"   {procedure.title}", flush=True)
    memory = [ours("memory", size, 1)[0].split()[0] for size in sizes]  # traced, so it takes a while
    return markdown(
        ("microseconds for each task, warm", *(f"{size:,} x {size:,}" for size in sizes)),
        [*rows, ("bytes held for each task", *memory)],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each procedure (default: %(default)s)")
    parser.add_argument("--parallelism", type=int, default=10_000, help="tasks of each vertex (default: %(default)s)")
    parser.add_argument("--linear", action="store_true", help="ours alone, at three sizes")
    options = parser.parse_args()
    try:
        if options.linear:
            print(f"\n{linear_table((1_000, 10_000, 100_000))}")
        else:
            print(f"\n{comparison_table(options.rounds, options.parallelism)}")
    except Failed as error:
        print(f"scheduler.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
