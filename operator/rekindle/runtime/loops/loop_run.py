"""A loop from its first batch to its end, in one thread of the driver.

An activation takes what waits at the entry of a loop, from outside or from what was fed back, as one batch, and goes on
with what is made of it until all of that waits again: in a feedback channel, at the entry of a loop within, or in the
output. Then it is written to the activation log, and a driver that takes over goes on behind it. Nobody counts rounds:
when nothing is left to take, the operators find out by the termination protocol.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.feedback import Data, InputPriority, Item, Side, next_side
from rekindle.core.loops.head_operator import HeadOperator
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt
from rekindle.pipeline.distribution import Keyed
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.operators import AtEnd, Entry, Transform, Union, Update
from rekindle.runtime.errors import PipelineFailed, RekindleError
from rekindle.runtime.failures import is_raised_by_a_task, is_sparks, said_by, user_error
from rekindle.runtime.loops.activation_log import Activation, ActivationLog, Put
from rekindle.runtime.loops.batches import Batch, BatchStore
from rekindle.runtime.loops.frames import Frames, names_of
from rekindle.runtime.loops.network import FEEDBACK, INPUT, OUT, Channel, Loop, Network, Node, feedback_name, taken
from rekindle.runtime.loops.progress import LoopProgress, ScopeProgress
from rekindle.runtime.loops.shapes import Shapes, check_alike, check_columns
from rekindle.runtime.loops.states import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

CAPACITY = 16
"""Batches of a feedback channel in memory."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows on their way: those of a DataFrame that is yet to be computed, or of a batch that is stored. Nothing is held
    of one that waits but its name. `is_last`: they are made of a state at the end."""

    frame: DataFrame | None = None
    batch: Batch | None = None
    is_last: bool = False


@dataclass
class _Made:
    """What the activation that is under way has made so far."""

    loop: str = ""
    side: str = ""
    took: int = 0
    put: list[Put] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    output: list[Batch] = field(default_factory=list)


class LoopRun:
    """Of a loop that is a stage.

    Args:
        partitions: of states.
        tables: [name of a stage -> its result].
        say: is told what is going on, in words.
        tell: is told how far it is, after each activation.
    """

    def __init__(
        self,
        body: LoopBody,
        partitions: int,
        frames: Frames,
        batches: BatchStore,
        activations: ActivationLog,
        tables: Mapping[str, DataFrame],
        *,
        capacity: int = CAPACITY,
        say: Callable[[str], None] = log.info,
        tell: Callable[[LoopProgress], None] = lambda progress: None,
    ) -> None:
        self._body, self._partitions, self._tables, self._say, self._tell = body, partitions, tables, say, tell
        self._frames, self._batches, self._log = frames, batches, activations
        first = InputPriority.FEEDBACK_FIRST
        self._priority = first if body.feedback_first else InputPriority.FEEDBACK_FIRST_UNDER_PRESSURE
        self._network, self._capacity = Network(body, capacity), capacity
        self._states: dict[str, State] = {}
        self._output: list[Batch] = []
        self._last: list[Batch] = []  # of the output, what is put out when the loop has ended
        self._made = _Made()
        self._names = set[str]()  # of batches that are there
        self._is_taken_in = False
        self._activations: Counter[str] = Counter()  # of each loop

    def run(self, first: DataFrame) -> DataFrame:
        """The loop's result. `first`: what goes in.

        Raises:
            PipelineFailed: names the loop, the operator and the activation.
            Fenced: another driver goes on with it.
        """
        has_ended = self._resume()
        if has_ended and self._output:
            return self._batches.read_all(self._output)
        self._shapes = Shapes(self._body, first, self._tables, self._frames, self._called)
        if not has_ended:
            self._begin(first)
            while not self._network.out.protocol.terminated:
                self._next()
            self._finish()
        return self._batches.read_all(self._output) if self._output else self._shapes.output

    # -- beginning ---------------------------------------------------------------------------------------

    def _resume(self) -> bool:
        """What drivers before have made; whether the loop has ended."""
        waiting: dict[tuple[str, str], list[Batch]] = {}
        has_ended = False
        for one in self._log.take_over():
            if one.loop:
                self._activations[one.loop] += 1
            has_ended = has_ended or one.ended
            if one.loop == self._body.name and one.side == INPUT:
                self._is_taken_in = True
            elif one.loop:
                del waiting[(one.loop, one.side)][: one.took]
            for put in one.put:
                waiting.setdefault((put.loop, put.side), []).append(put.batch)
            self._states.update(one.states)
            self._output += one.output
        for (name, side), batches in waiting.items():
            for batch in batches:
                if side == FEEDBACK:
                    self._network.loops[name].put(Data(Rows(batch=batch)))
                else:
                    self._network.entries[name].inputs[0].items.append(Data(Rows(batch=batch)))
        if self.activations:
            self._say(f"loop {self._body.name} goes on after {self.activations} activations")
        self._names = set(self._batches.names())
        self._remove_leftovers({batch.name for batches in waiting.values() for batch in batches})
        return has_ended

    def _begin(self, first: DataFrame) -> None:
        (channel,) = self._network.source
        if not self._is_taken_in:
            channel.items.append(Data(Rows(first)))
        channel.items.append(TerminationAttempt.of_source())

    def _remove_leftovers(self, waiting: set[str]) -> None:
        """What was being written when a driver was lost, and what nobody reads any more."""
        wanted = waiting | {batch.name for batch in (*self._output, *self._last)}
        wanted |= {batch.name for state in self._states.values() for batch in state.batches}
        for name in sorted(self._names - wanted):
            self._batches.delete(name)
        self._names &= wanted

    # -- one step ----------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Deliver something: first of all what is on its way, then what waits at an entry."""
        for node in self._network.nodes():
            if not node.protocol.terminated and not isinstance(node.protocol, EntryOperator) and self._at(node):
                return
        self._close_activation()
        for node in reversed(self._network.entries.values()):  # loops within first: there is more for those around then
            if self._at_entry(node):
                return
        raise AssertionError(f"loop {self._body.name}: nothing can happen, and it has not ended")

    def _at(self, node: Node) -> bool:
        """Deliver what is first on its way to an operator; whether there was any."""
        for channel in node.inputs:
            if not channel.items:
                continue
            if isinstance(node.operator, Union) and isinstance(channel.items[0], Data):
                self._unite(node)
            else:
                self._deliver(node, channel.name, channel.items.popleft())
            return True
        return False

    def _unite(self, node: Node) -> None:
        """Whatever an activation brings to a union is one batch: those before it have made all that they do of it."""
        found = list[Rows]()
        for channel in node.inputs:
            while channel.items and isinstance(item := channel.items[0], Data):
                channel.items.popleft()
                self._step(node, node.protocol.on_data(channel.name))
                found.append(item.value)
        if len(found) == 1:
            self._send(node, found[0])
        else:
            assert node.operator is not None
            names = names_of(self._shapes.columns(node.operator))
            frames = [self._frames.in_order(self._frame(rows), names) for rows in found]
            self._send(node, Rows(self._frames.union(frames), is_last=any(rows.is_last for rows in found)))

    def _at_entry(self, node: Node) -> bool:
        """Whether there was something to take."""
        loop = node.loop
        assert loop is not None
        channel = next((one for one in node.inputs if one.items), None)
        side = next_side(loop.channel, has_input=channel is not None, last=loop.last, priority=self._priority)
        if side is None:
            return False
        loop.last = side
        if side is Side.FEEDBACK:
            self._take(node, loop, feedback_name(loop), taken(loop, self._capacity), FEEDBACK)
        else:
            assert channel is not None
            self._take(node, loop, channel.name, taken(channel, self._capacity), INPUT)
        return True

    def _take(self, node: Node, loop: Loop, channel: str, items: Sequence[Item[Rows]], side: str) -> None:
        """An attempt to terminate, or batches."""
        (first, *_) = items
        if isinstance(first, TerminationAttempt):
            self._attempt(node, channel, first)
            return
        rows = [item.value for item in items if isinstance(item, Data)]
        self._open_activation(loop, side, len(rows))
        self._step(node, node.protocol.on_data(channel))
        self._send(node, self._as_it_came(loop, rows, side), side)

    def _as_it_came(self, loop: Loop, rows: Sequence[Rows], side: str) -> Rows:
        """As one batch. What is fed back has its columns in the order of what came in, where both are one stream."""
        entries = [one for one in loop.body.operators if isinstance(one, Entry)]
        entry = next(one for one in entries if (one.gives_input if side == INPUT else one.gives_feedback))
        shape, frames = self._shapes.columns(entry), [self._frame(one) for one in rows]
        if len(rows) == 1 and self._frames.columns(frames[0]) == shape:
            return Rows(frames[0], rows[0].batch)
        return Rows(self._frames.union([self._frames.in_order(frame, names_of(shape)) for frame in frames]))

    def _deliver(self, node: Node, channel: str, item: Item[Rows]) -> None:
        if isinstance(item, TerminationAttempt):
            self._attempt(node, channel, item)
            return
        self._step(node, node.protocol.on_data(channel))
        rows = item.value
        if node.name == OUT:
            self._put_out(rows)
        elif node.operator is None:
            assert node.loop is not None
            self._feed_back(node.loop, rows)
        else:
            self._operate(node, rows)

    def _attempt(self, node: Node, channel: str, attempt: TerminationAttempt) -> None:
        loop = self._of_head(node)
        status = loop.channel.status if loop is not None else OperatorStatus.IDLE
        self._step(node, node.protocol.on_attempt(channel, attempt, status))

    def _step(self, node: Node, step: Step[Any]) -> None:
        ends = step.operator.terminated and not node.protocol.terminated
        node.protocol = step.operator
        if ends and isinstance(node.operator, AtEnd):
            self._put_out_state(node, node.operator)
        loop = self._of_head(node)
        for attempt in step.emit:
            if loop is not None:
                loop.put(attempt)
            for channel in node.outputs:
                channel.items.append(attempt)

    def _of_head(self, node: Node) -> Loop | None:
        """The loop whose head it is."""
        loop = node.loop
        return loop if loop is not None and node is self._network.heads[loop.body.name] else None

    # -- rows --------------------------------------------------------------------------------------------

    def _operate(self, node: Node, rows: Rows) -> None:
        match node.operator:
            case Transform(tables=tables):
                made = self._called(node.operator, self._frame(rows), *(self._tables[name] for name in tables))
                shape = self._shapes.columns(node.operator)
                check_alike(node.operator, self._frames.columns(made), shape)
                made = self._frames.in_order(made, names_of(shape))
                self._send(node, Rows(made, is_last=rows.is_last))
            case Update() as update:
                self._update(node, update, rows)
            case AtEnd():
                pass  # it puts out its update's state, when it ends

    def _send(self, node: Node, rows: Rows, side: str = "") -> None:
        """To all that read it; stored before, where they are several, for they must see the same, and where one is in
        another scope (`S8-11`). `side`: of an entry, which of its queues it comes from."""
        readers = [channel for channel in node.outputs if not isinstance(channel.to.operator, AtEnd)]
        readers = [channel for channel in readers if not side or side in channel.sides]
        if len(readers) > 1 or any(channel.to.protocol.scope != node.protocol.scope for channel in readers):
            rows = self._stored(node.name, rows)
            assert rows.batch is not None
            if not rows.batch.rows:
                return
        for channel in readers:
            if isinstance(channel.to.protocol, EntryOperator):
                self._enter(channel, rows)
            else:
                channel.items.append(Data(rows))

    def _enter(self, channel: Channel, rows: Rows) -> None:
        """Wait at the entry of a loop within; what crosses the border of a scope is stored."""
        loop = channel.to.loop
        assert rows.batch is not None
        assert loop is not None
        channel.items.append(Data(Rows(batch=rows.batch)))
        self._made.put.append(Put(loop.body.name, INPUT, rows.batch))

    def _feed_back(self, loop: Loop, rows: Rows) -> None:
        batch = self._stored("feedback", rows).batch
        assert batch is not None
        if batch.rows:
            loop.put(Data(Rows(batch=batch)))
            self._made.put.append(Put(loop.body.name, FEEDBACK, batch))

    def _put_out(self, rows: Rows) -> None:
        batch = self._stored("output", rows).batch
        if batch is not None and batch.rows:
            (self._last if rows.is_last else self._made.output).append(batch)

    def _update(self, node: Node, update: Update, rows: Rows) -> None:
        state, shape = self._states.get(node.name, State(update.keys)), self._shapes.of(update)
        kept = state.read(self._batches, self._frames, shape)
        changed = self._called(update, self._frame(rows), kept, *(self._tables[name] for name in update.tables))
        columns = self._shapes.columns(update)
        check_columns(update, self._frames.columns(changed), columns)
        said = f"{self._where}: update {update.name!r} returns a row whose key '{{}}' is null"
        changed = self._frames.with_keys(changed, update.keys, names_of(columns), said)
        batch = self._written(node.name, changed, Keyed(update.keys, self._partitions))
        if not batch.rows:
            return
        state = state.changed(batch)
        if state.is_worth_merging:
            merged = state.read(self._batches, self._frames, shape)
            state = State(update.keys, self._written(node.name, merged, Keyed(update.keys, self._partitions)))
        self._states[node.name] = state
        self._made.states.add(node.name)
        self._send(node, Rows(batch=batch))

    def _put_out_state(self, node: Node, at_end: AtEnd) -> None:
        """Its readers end behind it, so they see these rows."""
        (update,) = at_end.inputs
        state = self._states.get(f"{self._body.name}/{update.name}")
        if state is not None:
            rows = Rows(state.read(self._batches, self._frames, self._shapes.of(update)), is_last=True)
            self._send(node, rows)

    def _frame(self, rows: Rows) -> DataFrame:
        if rows.frame is not None:
            return rows.frame
        assert rows.batch is not None
        return self._batches.read(rows.batch)

    def _stored(self, what: str, rows: Rows) -> Rows:
        if rows.batch is not None:
            return rows
        return Rows(batch=self._written(what, self._frame(rows)), is_last=rows.is_last)

    def _written(self, what: str, frame: DataFrame, distribution: Keyed | None = None) -> Batch:
        """An error of a user's function in a task is told with the activation; what may be an executor's loss is left
        to whoever plans the stage."""
        try:
            batch = self._batches.write(what.replace("/", "."), self._frames.within(frame), distribution)
        except Exception as error:
            if not is_raised_by_a_task(error):
                raise
            said, traceback = said_by(error)
            raise PipelineFailed(
                f"{self._where}, while {what} was written: {said}",
                remedy="mend the cause and run again: the next run goes on from the last activation",
                stage=self._body.name,
                traceback=traceback,
            ) from error
        self._names.add(batch.name)
        return batch

    def _called(self, operator: Transform | Update, *frames: DataFrame) -> DataFrame:
        """What its function makes. What Spark raises in it may be an executor's loss, and is left as it is."""
        try:
            made = operator.fn(*frames)
        except RekindleError:
            raise
        except Exception as error:
            if is_sparks(error) and not is_raised_by_a_task(error):
                raise
            raise user_error(self._body.name, error, where=f"{self._where} of {operator.name!r}") from error
        if not self._frames.is_frame(made):
            raise PipelineFailed(
                f"{self._where} of {operator.name!r}: its function returned {type(made).__name__}, not a DataFrame",
                remedy="return the DataFrame that is made of the batch (is a `return` missing?)",
                stage=self._body.name,
            )
        return made

    @property
    def _where(self) -> str:
        return f"loop {self._made.loop or self._body.name}, activation {self.activations}"

    # -- activations -------------------------------------------------------------------------------------

    def _open_activation(self, loop: Loop, side: str, took: int) -> None:
        self._activations[loop.body.name] += 1
        self._made = _Made(loop.body.name, side, took)
        bound = self._body.most_activations
        if bound is not None and self.activations > bound:
            raise PipelineFailed(
                f"loop {self._body.name} has not ended after {bound} activations (most_activations)",
                remedy="see what its feedback has in the end, and let the body drop what changes nothing; or raise the "
                "bound",
                stage=self._body.name,
            )

    def _close_activation(self) -> None:
        """What was made is the loop's from here on, and what nobody reads any more goes."""
        if self._made.loop:
            made, self._made = self._made, _Made()
            states = {name: self._states[name] for name in sorted(made.states)}
            put, output = tuple(made.put), tuple(made.output)
            self._log.append(Activation(made.loop, made.side, made.took, put, states, output))
            self._output += made.output
            self._remove_leftovers(self._waiting())
            self._tell(self.progress())

    def _finish(self) -> None:
        """What is put out at the end is part of it: a driver that is lost before has put none of it out."""
        self._close_activation()
        self._log.append(Activation(output=tuple(self._last), ended=True))
        self._output += self._last
        self._remove_leftovers(set())
        self._tell(self.progress(ended=True))
        self._say(f"loop {self._body.name} has ended after {self.activations} activations")

    @property
    def activations(self) -> int:
        """Of all loops, under all drivers."""
        return self._activations.total()

    def progress(self, *, ended: bool = False) -> LoopProgress:
        """How far it is, and each loop within it."""
        return LoopProgress(self._body.name, ended, tuple(map(self._scope, self._network.loops.values())))

    def _scope(self, loop: Loop) -> ScopeProgress:
        name, head = loop.body.name, self._network.heads[loop.body.name].protocol
        assert isinstance(head, HeadOperator)
        channels = self._network.entries[name].inputs
        items = [*loop.channel.memory, *loop.disk, *(item for channel in channels for item in channel.items)]
        waiting = sum(isinstance(item, Data) for item in items)
        level = loop.body.scope.level
        return ScopeProgress(name, level, self._activations[name], waiting, loop.spilled, head.attempt_id)

    def _waiting(self) -> set[str]:
        """Names of batches that wait."""
        loops, entries = self._network.loops.values(), self._network.entries.values()
        items = [item for loop in loops for item in (*loop.channel.memory, *loop.disk)]
        items += [item for entry in entries for channel in entry.inputs for item in channel.items]
        rows = [item.value for item in items if isinstance(item, Data)]
        return {one.batch.name for one in rows if one.batch is not None}
