"""Loops over lists in memory: what they end with, whenever a driver is lost, and who else writes to their log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.streams import LoopStream
from rekindle.pipeline.loops.trace import root
from rekindle.runtime.errors import Fenced, PipelineFailed, PipelineMisuse, StoreRefused
from rekindle.runtime.loops.activation_log import Activation, ActivationLog
from rekindle.runtime.loops.batches import Batch
from rekindle.runtime.loops.loop_run import LoopRun
from rekindle.runtime.loops.progress import LoopProgress, ProgressOfLoops, ScopeProgress
from rekindle.runtime.store import Store


@dataclass(frozen=True)
class Table:
    """Rows of whole numbers, in place of a DataFrame."""

    names: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...] = ()

    def dicts(self) -> list[dict[str, int]]:
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]

    def made(self, made: Callable[[dict[str, int]], dict[str, int] | None]) -> Table:
        """Of each row another one, or none."""
        return table(self.names, [new for row in self.dicts() if (new := made(row)) is not None])


def table(names: Sequence[str], rows: Sequence[dict[str, int]]) -> Table:
    return Table(tuple(names), tuple(tuple(row[name] for name in names) for row in rows))


class Tables:
    """As `Frames`."""

    def is_frame(self, made: Any) -> bool:
        return isinstance(made, Table)

    def columns(self, frame: Table) -> list[tuple[str, str]]:
        return [(name, "bigint") for name in frame.names]

    def empty(self, schema: str) -> Table:
        return Table(tuple(word.split()[0] for word in schema.split(",")))

    def like(self, frame: Table) -> Table:
        return Table(frame.names)

    def in_order(self, frame: Table, names: Sequence[str]) -> Table:
        return table(names, frame.dicts())

    def union(self, frames: Sequence[Table]) -> Table:
        return table(frames[0].names, [row for frame in frames for row in frame.dicts()])

    def overlaid(self, keys: Sequence[str], frames: Sequence[Table]) -> Table:
        found = {tuple(row[key] for key in keys): row for frame in frames for row in frame.dicts()}
        return table([*keys, *(name for name in frames[0].names if name not in keys)], list(found.values()))

    def with_keys(self, frame: Table, keys: Sequence[str], names: Sequence[str], said: str) -> Table:
        return self.in_order(frame, names)

    def within(self, frame: Table) -> Table:
        return frame


class Killed(BaseException):
    """The driver is gone."""


class Batches:
    """As `BatchStore`, in the store."""

    def __init__(self, store: Store, driver: str) -> None:
        self.store, self.driver, self.written = store, driver, 0

    def write(self, what: str, frame: Table, distribution: Any = None) -> Batch:
        self.written += 1
        name = f"{what}-{self.driver}-{self.written}"
        assert self.store.put_if_absent(f"batches/{name}", json.dumps([frame.names, frame.rows]).encode())
        return Batch(name, len(frame.rows), "", (), 1)

    def read(self, batch: Batch) -> Table:
        data = self.store.get(f"batches/{batch.name}")
        assert data is not None, f"{batch.name} was removed, and is read"
        names, rows = json.loads(data)
        return Table(tuple(names), tuple(map(tuple, rows)))

    def read_all(self, batches: Sequence[Batch]) -> Table:
        return Tables().union(list(map(self.read, batches)))

    def names(self) -> list[str]:
        return self.store.names("batches")

    def delete(self, name: str) -> None:
        self.store.delete(f"batches/{name}")


class Log(ActivationLog):
    """Dies at a record, before or behind it."""

    def __init__(self, store: Store, driver: str, at: int | None = None, *, behind: bool = False) -> None:
        super().__init__(store, "log", driver)
        self.at, self.behind, self.records = at, behind, 0

    def append(self, activation: Activation) -> None:
        self.records += 1
        if self.records == self.at and not self.behind:
            raise Killed
        super().append(activation)
        if self.records == self.at:
            raise Killed


def run(body: LoopBody, store: Store, first: Table, log: Log, **more: Any) -> list[tuple[int, ...]]:
    frames: Any = Tables()
    batches: Any = Batches(store, log._writer[-8:])
    given: Any = first
    made: Any = LoopRun(body, 1, frames, batches, log, {}, **more).run(given)
    return sorted(made.rows)


# -- bodies ----------------------------------------------------------------------------------------------


def fewest(batch: Table, state: Table) -> Table:
    """Rows whose `far` is less than is known of their `n`."""
    known = {row["n"]: row["far"] for row in state.dicts()}
    best: dict[int, int] = {}
    for row in batch.dicts():
        best[row["n"]] = min(row["far"], best.get(row["n"], row["far"]))
    return table(["n", "far"], [{"n": n, "far": far} for n, far in best.items() if far < known.get(n, far + 1)])


def neighbours(batch: Table) -> Table:
    """From n to n + 1 and to 2 n, below 30."""
    on = [{"n": n, "far": row["far"] + 1} for row in batch.dicts() for n in (row["n"] + 1, 2 * row["n"]) if n < 30]
    return table(batch.names, on)


SCHEMA = "far LONG, n LONG"


def paths(stream: LoopStream) -> Any:
    """With the state's columns in another order than the input's."""
    nearer = stream.transform(neighbours).union(stream).update(fewest, key="n", schema=SCHEMA)
    return nearer, nearer.at_end()


def stepped(where: Callable[[int], bool], step: Callable[[int], int]) -> Callable[[Table], Table]:
    return lambda batch: batch.made(
        lambda row: {"n": step(row["n"]), "far": row["far"] + 1} if where(row["n"]) else None
    )


def chosen(where: Callable[[int], bool]) -> Callable[[Table], Table]:
    return lambda batch: batch.made(lambda row: row if where(row["n"]) else None)


def halving(stream: LoopStream) -> Any:
    return stream.transform(stepped(lambda n: n % 2 == 0, lambda n: n // 2)), stream.transform(
        chosen(lambda n: n % 2 == 1)
    )


def collatz(stream: LoopStream) -> Any:
    odd = stream.iterate(halving)
    tripled = odd.transform(stepped(lambda n: n > 1, lambda n: 3 * n + 1))
    return tripled, odd.transform(chosen(lambda n: n == 1))


def beside(stream: LoopStream) -> Any:
    """A loop within that the feedback does not pass, and which is not done when the outer one is."""
    kept = stream.update(fewest, key="n", schema="n LONG, far LONG")
    down = stepped(lambda n: n > 0, lambda n: n - 1)
    inner = kept.iterate(
        lambda within: (within.transform(down), within.transform(chosen(lambda n: n == 0))), name="down"
    )
    return kept.transform(stepped(lambda n: n > 1, lambda n: n - 1), name="less"), kept.at_end().union(inner)


def twice(stream: LoopStream) -> Any:
    """One that goes on as it came, and comes out by two ways."""
    less = stream.transform(stepped(lambda n: n > 0, lambda n: n - 1))
    return less, less.union(stream.transform(chosen(lambda n: n == 2)))


BODIES = {"paths": paths, "collatz": collatz, "beside": beside, "twice": twice}
FIRST = {
    "paths": [(1, 0)],
    "collatz": [(n, 0) for n in (1, 2, 3, 6, 7)],
    "beside": [(3, 0), (2, 5)],
    "twice": [(3, 0), (1, 0)],
}


def shortest() -> dict[int, int]:
    far, frontier = {1: 0}, [1]
    while frontier:
        n = frontier.pop(0)
        for on in (n + 1, 2 * n):
            if on < 30 and on not in far:
                far[on] = far[n] + 1
                frontier.append(on)
    return far


def steps(n: int) -> int:
    return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)


def body_of(name: str, **more: Any) -> tuple[LoopBody, Table]:
    return root("loop", BODIES[name], [], own_feedback=False, **more), Table(("n", "far"), tuple(FIRST[name]))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


@pytest.mark.requirement("S8-8", "S10-2", "S10-15")
def test_loops_end_with_what_they_should(tmp_path):
    def ended(name: str) -> list[tuple[int, ...]]:
        body, first = body_of(name)
        store = Store.at(tmp_path / name).prepare()
        found = run(body, store, first, Log(store, "a"))
        assert len(store.names("batches")) <= len(found), "what nobody reads any more is gone"
        return found

    assert ended("paths") == sorted((far, n) for n, far in shortest().items())
    assert ended("collatz") == sorted((1, steps(n)) for n in (1, 2, 3, 6, 7))
    assert ended("beside") == sorted(all_that_comes_by())
    assert ended("twice") == sorted([(2, 1), (1, 2), (0, 3), (2, 1), (0, 1)])


def all_that_comes_by() -> list[tuple[int, int]]:
    """By hand: 3 goes down to 1 in steps, 2 comes in with 5; the inner loop takes all that was ever nearest."""
    kept: dict[int, int] = {}
    out, queue = list[tuple[int, int]](), [[(3, 0), (2, 5)]]
    while queue:
        changed = [(n, far) for n, far in queue.pop(0) if far < kept.get(n, far + 1)]
        kept.update(changed)
        out += [(0, far + n) for n, far in changed]
        on = [(n - 1, far + 1) for n, far in changed if n > 1]
        queue += [on] if on else []
    return [*out, *kept.items()]


@pytest.mark.requirement("S9-4", "S6-1")
@pytest.mark.parametrize("name", BODIES)
def test_whenever_a_driver_is_lost_the_next_one_ends_with_the_same(tmp_path, name):
    body, first = body_of(name)
    store = Store.at(tmp_path / "undisturbed").prepare()
    undisturbed = Log(store, "a")
    right = run(body, store, first, undisturbed)
    assert undisturbed.records > 4
    for at in range(1, undisturbed.records + 1):
        for behind in (False, True):
            store = Store.at(tmp_path / f"{at}-{behind}").prepare()
            with pytest.raises(Killed):
                run(body_of(name)[0], store, first, Log(store, "a", at, behind=behind))
            again = Log(store, "b", 2)  # and dies soon
            try:
                found = run(body_of(name)[0], store, first, again)
            except Killed:
                found = run(body_of(name)[0], store, first, Log(store, "c"))
            assert found == right, (at, behind)
            assert run(body_of(name)[0], store, first, Log(store, "d")) == right, "also when it has ended"


@pytest.mark.parametrize("capacity", [1, 2, 16])
@pytest.mark.parametrize("feedback_first", [False, True])
@pytest.mark.requirement("S9-5", "S9-7", "S9-8", "S9-10")
def test_what_does_not_fit_into_memory_is_spilled_and_nothing_is_lost(store, capacity, feedback_first):
    """The loop within puts out batch after batch before the one around takes any."""
    body = root("loop", collatz, [], own_feedback=False, feedback_first=feedback_first)
    frames, first = cast(Any, Tables()), cast(Any, Table(("n", "far"), tuple((n, 0) for n in range(1, 17))))
    batches: Any = Batches(store, "a")
    made = LoopRun(body, 1, frames, batches, Log(store, "a"), {}, capacity=capacity)
    found: Any = made.run(first)
    assert sorted(found.rows) == sorted((1, steps(n)) for n in range(1, 17))
    assert (made._network.loops["loop"].spilled > 0) is (capacity < 3)


class TestTwoDrivers:
    def test_one_that_was_thought_dead_is_told_so_and_what_counts_is_still_there(self, store):
        body, first = body_of("paths")
        old = Log(store, "old", 2)
        with pytest.raises(Killed):
            run(body, store, first, old)
        right = run(body_of("paths")[0], store, first, Log(store, "new"))
        with pytest.raises(Fenced):
            old.append(Activation("loop", "feedback", 1))
        assert run(body_of("paths")[0], store, first, Log(store, "next")) == right

    def test_one_that_writes_while_the_next_begins_is_read_to_its_end(self, store):
        """Nothing is removed before nobody else can write."""
        body, first = body_of("paths")

        class Late(Log):
            def _put(self, activation: Activation) -> bool:
                if activation == Activation() and not self.records:
                    self.records += 1
                    with pytest.raises(Killed):
                        run(body_of("paths")[0], store, first, Log(store, "old", 3))
                return super()._put(activation)

        found = run(body, store, first, Late(store, "new"))
        assert found == sorted((far, n) for n, far in shortest().items())

    def test_records_of_two_are_never_the_same(self, store):
        """Else a bucket would take the second for a repetition of the first."""
        a, b = ActivationLog(store, "log", "driver"), ActivationLog(store, "log", "driver")
        a.append(Activation())
        with pytest.raises(Fenced):
            b.append(Activation())
        assert store.names("log") == ["00000001.json"]


class TestRecords:
    @pytest.fixture
    def log(self, store: Store) -> Store:
        body, first = body_of("paths")
        run(body, store, first, Log(store, "a"))
        return store

    @pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"crc": 1}'])
    def test_one_that_is_damaged_is_named_and_nothing_is_removed(self, log, data):
        before = log.names("batches")
        log.delete("log/00000003.json")
        log.put_if_absent("log/00000003.json", data)
        with pytest.raises(StoreRefused, match=r"log/00000003.json cannot be read"):
            run(body_of("paths")[0], log, body_of("paths")[1], Log(log, "b"))
        assert log.names("batches") == before

    def test_one_that_is_gone_is_not_taken_for_the_end(self, log):
        log.delete("log/00000003.json")
        with pytest.raises(StoreRefused, match="later ones are there"):
            run(body_of("paths")[0], log, body_of("paths")[1], Log(log, "b"))

    def test_a_loop_that_begins_anew_reads_nothing_from_before(self, log):
        ActivationLog(log, "log", "b").begin_anew()
        body, first = body_of("paths")
        made = Log(log, "c")
        assert run(body, log, first, made) == sorted((far, n) for n, far in shortest().items())
        assert made.records > 4


def test_a_bound_counts_the_activations_of_all_drivers(store):
    body, first = body_of("paths", most_activations=3)
    with pytest.raises(PipelineFailed, match=r"after 3 activations \(most_activations\)"):
        run(body, store, first, Log(store, "a"))
    with pytest.raises(PipelineFailed, match="after 3 activations"):
        run(body_of("paths", most_activations=3)[0], store, first, Log(store, "b"))


def test_how_far_it_is_is_told_after_each_activation(store):
    told: list[LoopProgress] = []
    frames, first = cast(Any, Tables()), cast(Any, body_of("collatz")[1])
    batches: Any = Batches(store, "a")
    LoopRun(body_of("collatz")[0], 1, frames, batches, Log(store, "a"), {}, tell=told.append).run(first)
    assert [progress.ended for progress in told] == [*[False] * (len(told) - 1), True]
    totals = [sum(scope.activations for scope in progress.scopes) for progress in told]
    assert totals == [*range(1, len(told)), len(told) - 1]
    assert [(scope.loop, scope.level) for scope in told[0].scopes] == [("loop", 1), ("loop.halving", 2)]
    assert told[0].scopes[1].waiting == 1, "what came in waits at the loop within"
    assert all(scope.attempts > 0 and not scope.waiting for scope in told[-1].scopes)


def test_of_a_loop_that_tells_often_the_last_is_taken_now_and_then_and_its_end_at_once():
    progress = ProgressOfLoops()
    for stage, ended in (("a", False), ("b", False), ("a", True)):
        progress.tell(LoopProgress(stage, ended, ()))
    assert progress.news(10.0, 5.0) == [LoopProgress("a", True, ()), LoopProgress("b", False, ())]
    progress.tell(LoopProgress("b", False, ()))
    assert progress.news(14.9, 5.0) == []
    progress.tell(LoopProgress("b", False, (ScopeProgress("b", 1, 4, 0, 0, 0), ScopeProgress("b.c", 2, 3, 0, 0, 0))))
    assert (progress.activations("b"), progress.activations("nobody")) == (7, 0)
    progress.tell(LoopProgress("b", False, ()))
    assert progress.news(15.0, 5.0) == [LoopProgress("b", False, ())]
    progress.tell(LoopProgress("b", True, ()))
    assert progress.news(15.1, 5.0) == [LoopProgress("b", True, ())]


def test_columns_that_depend_on_the_rows_are_refused(store):
    def widened(batch: Table) -> Table:
        return batch if not batch.rows else table(["n", "more"], [{"n": n, "more": 1} for n, _ in batch.rows])

    body = root("loop", lambda stream: (stream.transform(widened), stream), [], own_feedback=False)
    said = "'widened' makes the columns n bigint, more bigint of a batch, and n bigint, far bigint of one without rows"
    with pytest.raises(PipelineMisuse, match=said):
        run(body, store, Table(("n", "far"), ((1, 1),)), Log(store, "a"))


def test_what_an_activation_brings_to_a_union_by_two_ways_is_one_batch(store):
    seen: list[int] = []

    def counted(batch: Table) -> Table:
        seen.append(len(batch.rows))
        return Table(batch.names)

    def body(stream: LoopStream) -> Any:
        left, right = stream.transform(neighbours), stream.transform(chosen(lambda n: True))
        return left.union(right).transform(counted), stream

    run(root("loop", body, [], own_feedback=False), store, Table(("n", "far"), ((1, 0),)), Log(store, "a"))
    assert seen == [0, 3]
