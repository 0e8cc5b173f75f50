"""The job of an application as a picture: what each stage reads, and what there is of each of its partitions; below
it, how far its sources and sinks are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rekindle.api.application_status import ApplicationState, ApplicationStatus
from rekindle.controller.reading import read_status
from rekindle.controller.recovery.planning import job_of
from rekindle.controller.resources import Object
from rekindle.core.inventory import Alike, JobInventory, Reached
from rekindle.core.job_graph import JobGraph
from rekindle.core.ranges import ranges_of, shown, subtasks_of
from rekindle.remote.connector_tables import show_connectors
from rekindle.remote.tables import recovery_line

_CELLS = 40
_MOST_RANGES = 6
_NOT_TOLD = (
    "nobody has told of its job: it is no pipeline, its driver does not run yet, or the operator does not reach it "
    "(docs/operator.md); `rekindle status` shows how it came to where it is"
)
_TOO_LARGE = "its job is too large for a picture; `rekindle status` has a table of its stages"


class Partition(Enum):
    """What there is of one, the most urgent first: a cell that stands for several shows that."""

    AGAIN = ("×", "run again", "red")
    RUNNING = ("▒", "in progress", "yellow")
    WAITING = ("░", "waiting", "dim")
    STORED = ("█", "stored", "green")
    HELD = ("▓", "held by executors", "cyan")
    RELEASED = ("·", "released", "dim")

    @property
    def symbol(self) -> str:
        return self.value[0]

    @property
    def word(self) -> str:
        return self.value[1]

    @property
    def style(self) -> str:
        return self.value[2]


def show_job(console: Console, body: Object) -> None:
    """Stage by stage, producers first, with the last recovery above, and sources and sinks below; a sentence where
    nobody has told of a job."""
    metadata, status = body["metadata"], read_status(body)
    state = status.application_state.state.value or "NEW"
    _say(console, f"{metadata['namespace']}/{metadata['name']}: {state}, attempt {status.attempt}")
    if recovery := recovery_line(status.recovery.last):
        _say(console, f"recovery of {recovery}")
    _show_picture(console, status)
    show_connectors(console, status)


def _show_picture(console: Console, status: ApplicationStatus) -> None:
    job = job_of(status.recovery)
    if job is None:
        _say(console, _TOO_LARGE if status.recovery.stages else _NOT_TOLD)
        return
    is_running = status.application_state.state is ApplicationState.RUNNING
    if not is_running:
        _say(console, "no driver runs; this is left of what the last one told:")
    graph, inventory = job.job_graph(), job.inventory()
    seen = {name: _partitions(graph, inventory, name, is_running=is_running) for name in graph.order}
    console.print()
    console.print(_table(graph, seen))
    console.print()
    present = {one for partitions in seen.values() for one in partitions}
    console.print(Text("   ").join(Text(f"{one.symbol} {one.word}", one.style) for one in Partition if one in present))


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _partitions(graph: JobGraph, inventory: JobInventory, name: str, *, is_running: bool) -> list[Partition]:
    """Of each subtask of a job vertex. What executors held, and what they did, goes with their driver."""
    in_executors = Partition.HELD if is_running else Partition.WAITING
    made = Partition.STORED if graph.is_stored(name) else in_executors
    found = [Partition.WAITING] * graph.vertex(name).parallelism
    for group in inventory.groups.get(name, ()):
        what = _partition(group.alike, made, is_released=name in inventory.released)
        if what in (Partition.RUNNING, Partition.AGAIN) and not is_running:
            what = Partition.WAITING
        for subtask in subtasks_of(group.subtasks):
            found[subtask] = what
    return found


def _partition(alike: Alike, made: Partition, *, is_released: bool) -> Partition:
    if alike.reached is Reached.FINISHED:
        return Partition.RELEASED if is_released or alike.missing else made
    if alike.version > 1 or alike.missing:
        return Partition.AGAIN
    return Partition.RUNNING if alike.reached is Reached.DEPLOYED else Partition.WAITING


def _table(graph: JobGraph, seen: Mapping[str, Sequence[Partition]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("STAGE", "READS", "PARTITIONS"):
        table.add_column(column, no_wrap=column == "PARTITIONS", overflow="fold")
    table.add_column("")
    for name in graph.order:
        reads = ", ".join(dict.fromkeys(edge.producer for edge in graph.inputs(name))) or "(source)"
        table.add_row(Text(name), Text(reads), _bar(seen[name]), _words(seen[name]))
    return table


def _bar(partitions: Sequence[Partition]) -> Text:
    """A cell for each, or for as many neighbours as make forty cells."""
    urgent, size = list(Partition), len(partitions)
    cells = min(_CELLS, size)
    bar = Text()
    for cell in range(cells):
        some = partitions[cell * size // cells : (cell + 1) * size // cells]
        what = min(some, key=urgent.index)
        bar.append(what.symbol, what.style)
    return bar


def _words(partitions: Sequence[Partition]) -> Text:
    """`5 stored, 2 in progress, 1 run again (3)`"""
    counts = Counter(partitions)
    if len(counts) == 1:
        return Text(f"all {len(partitions)} {partitions[0].word}" if len(partitions) > 1 else partitions[0].word)
    told = []
    for one in (Partition.STORED, Partition.HELD, Partition.RUNNING, Partition.AGAIN, Partition.WAITING):
        if counts[one]:
            which = f" ({_which(partitions, one)})" if one is Partition.AGAIN else ""
            told.append(f"{counts[one]} {one.word}{which}")
    if counts[Partition.RELEASED]:
        told.append(f"{counts[Partition.RELEASED]} {Partition.RELEASED.word}")
    return Text(", ".join(told))


def _which(partitions: Sequence[Partition], what: Partition) -> str:
    ranges = ranges_of(subtask for subtask, one in enumerate(partitions) if one is what)
    return shown(ranges[:_MOST_RANGES]) + (",…" if len(ranges) > _MOST_RANGES else "")
