"""A loop from its first batch to its end, in one thread of the driver.

An activation takes one batch at the entry of a loop, from outside or from what was fed back, and goes on with what is
made of it until all of that waits again: in a feedback channel, at the entry of a loop within, or in the output. Then
it is written to the activation log, and a driver that takes over goes on behind it. Nobody counts rounds: when nothing
is left to take, the operators find out by the termination protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.feedback import Data, InputPriority, Item, Side, next_side
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt
from rekindle.pipeline.distribution import Keyed
from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.operators import AtEnd, Transform, Union, Update
from rekindle.runtime.errors import PipelineFailed
from rekindle.runtime.failures import is_raised_by_a_task, said_by, user_error
from rekindle.runtime.loops.activation_log import Activation, ActivationLog, Put
from rekindle.runtime.loops.batches import Batch, BatchStore
from rekindle.runtime.loops.network import FEEDBACK, INPUT, OUT, Channel, Loop, Network, Node, feedback_name
from rekindle.runtime.loops.shapes import Shapes, check_columns
from rekindle.runtime.loops.states import State, States
from rekindle.runtime.storable import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logging.getLogger(__name__)

CAPACITY = 16
"""Batches of a feedback channel in memory."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows on their way: those of a DataFrame that is yet to be computed, or of a batch that is stored. Nothing is held
    of one that waits but its name."""

    frame: DataFrame | None = None
    batch: Batch | None = None


@dataclass
class _Made:
    """What the activation that is under way has made so far."""

    loop: str = ""
    side: str = ""
    put: list[Put] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    output: list[Batch] = field(default_factory=list)


class LoopRun:
    """Of a loop that is a stage.

    Args:
        partitions: of states.
        tables: [name of a stage -> its result].
        say: is told what is going on, in words.
    """

    def __init__(
        self,
        body: LoopBody,
        partitions: int,
        batches: BatchStore,
        activations: ActivationLog,
        tables: Mapping[str, DataFrame],
        *,
        priority: InputPriority = InputPriority.FEEDBACK_FIRST_UNDER_PRESSURE,
        say: Callable[[str], None] = log.info,
    ) -> None:
        self._body, self._partitions, self._batches, self._log = body, partitions, batches, activations
        self._tables, self._priority, self._say = tables, priority, say
        self._network = Network(body, CAPACITY)
        self._states = States()
        self._output: list[Batch] = []
        self._made = _Made()
        self._names = set[str]()  # of batches that are there
        self.activations = 0

    def run(self, first: DataFrame) -> DataFrame:
        """The loop's result. `first`: what goes in.

        Raises:
            PipelineFailed: names the loop, the operator and the activation.
            Fenced: another driver goes on with it.
        """
        shapes = Shapes(self._body, first, self._tables, self._batches.empty, self._called)
        ended = self._resume()
        if not ended:
            self._begin(first)
            while not self._network.out.protocol.terminated:
                self._next()
            self._finish()
        return self._batches.read_all(self._output) if self._output else shapes.output

    # -- beginning ---------------------------------------------------------------------------------------

    def _resume(self) -> bool:
        """What drivers before have made; whether the loop has ended."""
        waiting: dict[tuple[str, str], list[Batch]] = {}
        ended = self._taken_in = False
        for one in self._log.replay():
            self.activations += bool(one.loop)
            ended = ended or one.ended
            if one.loop == self._body.name and one.side == INPUT:
                self._taken_in = True
            elif one.loop:
                waiting[(one.loop, one.side)].pop(0)
            for put in one.put:
                waiting.setdefault((put.loop, put.side), []).append(put.batch)
            self._states.of.update(one.states)
            self._output += one.output
        for (name, side), batches in waiting.items():
            for batch in batches:
                rows = Rows(batch=batch)
                if side == FEEDBACK:
                    self._network.loops[name].put(Data(rows))
                else:
                    self._network.entries[name].inputs[0].items.append(Data(rows))
        if self.activations:
            self._say(f"loop {self._body.name} goes on after {self.activations} activations")
        self._names = set(self._batches.names())
        self._remove_leftovers({batch.name for batches in waiting.values() for batch in batches})
        return ended

    def _begin(self, first: DataFrame) -> None:
        (channel,) = self._network.source
        if not self._taken_in:
            channel.items.append(Data(Rows(first)))
        channel.items.append(TerminationAttempt.of_source())

    def _remove_leftovers(self, waiting: set[str]) -> None:
        """What was being written when a driver was lost, and what it came to no more to remove."""
        wanted = waiting | self._states.batches | {batch.name for batch in self._output}
        for name in self._names - wanted:
            self._batches.delete(name)
        self._names &= wanted

    # -- one step ----------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Deliver one item: first of all what is on its way, then what waits at an entry."""
        for node in self._network.nodes():
            if node.protocol.terminated or isinstance(node.protocol, EntryOperator):
                continue
            for channel in node.inputs:
                if channel.items:
                    self._deliver(node, channel.name, channel.items.popleft())
                    return
        self._close_activation()
        for node in self._network.entries.values():
            if self._at_entry(node):
                return
        raise AssertionError(f"loop {self._body.name}: nothing can happen, and it has not ended")

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
            self._take(node, loop, feedback_name(loop), loop.take(), FEEDBACK)
        else:
            assert channel is not None
            self._take(node, loop, channel.name, channel.items.popleft(), INPUT)
        return True

    def _take(self, node: Node, loop: Loop, channel: str, item: Item[Rows], side: str) -> None:
        if isinstance(item, TerminationAttempt):
            self._attempt(node, channel, item)
            return
        self._open_activation(loop, side)
        self._step(node, node.protocol.on_data(channel))
        self._send(node, item.value, side)

    def _deliver(self, node: Node, channel: str, item: Item[Rows]) -> None:
        if isinstance(item, TerminationAttempt):
            self._attempt(node, channel, item)
            return
        self._step(node, node.protocol.on_data(channel))
        rows = item.value
        if node.name == OUT:
            self._made.output += [batch for batch in [self._stored("output", rows).batch] if batch and batch.rows]
        elif node.operator is None:
            assert node.loop is not None
            self._feed_back(node.loop, rows)
        else:
            self._operate(node, rows)

    def _attempt(self, node: Node, channel: str, attempt: TerminationAttempt) -> None:
        loop = node.loop
        is_head = loop is not None and node is self._network.heads[loop.body.name]
        status = loop.channel.status if is_head and loop is not None else OperatorStatus.IDLE
        self._step(node, node.protocol.on_attempt(channel, attempt, status))

    def _step(self, node: Node, step: Step[Any]) -> None:
        ends = step.operator.terminated and not node.protocol.terminated
        node.protocol = step.operator
        if ends and isinstance(node.operator, AtEnd):
            self._put_out_state(node, node.operator)
        loop = node.loop
        is_head = loop is not None and node is self._network.heads[loop.body.name]
        for attempt in step.emit:
            if is_head and loop is not None:
                loop.put(attempt)
            for channel in [] if is_head else node.outputs:
                channel.items.append(attempt)

    # -- rows --------------------------------------------------------------------------------------------

    def _operate(self, node: Node, rows: Rows) -> None:
        match node.operator:
            case Transform(tables=tables):
                given = (self._tables[name] for name in tables)
                self._send(node, Rows(self._called(node.operator, self._frame(rows), *given)))
            case Union():
                self._send(node, rows)
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
        """Wait at the entry of a loop within."""
        stored, loop = self._stored("input", rows), channel.to.loop
        assert stored.batch is not None
        assert loop is not None
        if stored.batch.rows:
            channel.items.append(Data(stored))
            self._made.put.append(Put(loop.body.name, INPUT, stored.batch))

    def _feed_back(self, loop: Loop, rows: Rows) -> None:
        stored = self._stored("feedback", rows)
        assert stored.batch is not None
        if stored.batch.rows:
            loop.put(Data(stored))
            self._made.put.append(Put(loop.body.name, FEEDBACK, stored.batch))

    def _update(self, node: Node, update: Update, rows: Rows) -> None:
        state = self._states.of.get(node.name, State(update.keys))
        tables = (self._tables[name] for name in update.tables)
        kept = state.read(self._batches, update.schema)
        changed = self._called(update, self._frame(rows), kept, *tables)
        check_columns(update, changed.schema, kept.schema)
        batch = self._write(node, self._with_keys(update, changed, kept), Keyed(update.keys, self._partitions))
        if not batch.rows:
            return
        state = state.changed(batch)
        if state.is_worth_merging:
            merged = state.read(self._batches, update.schema)
            state = State(update.keys, self._write(node, merged, Keyed(update.keys, self._partitions)))
        self._states.of[node.name] = state
        self._made.states.add(node.name)
        self._send(node, Rows(batch=batch))

    def _with_keys(self, update: Update, changed: DataFrame, state: DataFrame) -> DataFrame:
        """Columns in the state's order. A key that is null is equal to none, and its row could never be replaced: the
        task that meets one fails."""
        from pyspark.sql import functions

        def chosen(name: str) -> Column:
            found = column(changed, name)
            if name not in update.keys:
                return found
            said = f"{self._where}: update {update.name!r} returns a row whose key {name!r} is null"
            kind = state.schema[name].dataType
            return functions.coalesce(found, functions.raise_error(functions.lit(said)).cast(kind)).alias(name)

        return changed.select(*map(chosen, state.columns))

    def _frame(self, rows: Rows) -> DataFrame:
        if rows.frame is not None:
            return rows.frame
        assert rows.batch is not None
        return self._batches.read(rows.batch)

    def _put_out_state(self, node: Node, at_end: AtEnd) -> None:
        """Its readers end behind it, so they see these rows."""
        (update,) = at_end.inputs
        state = self._states.of.get(f"{self._body.name}/{update.name}")
        if state is None or not isinstance(update, Update):
            return
        for channel in node.outputs:
            channel.items.append(Data(Rows(state.read(self._batches, update.schema))))

    def _stored(self, what: str, rows: Rows) -> Rows:
        if rows.batch is not None:
            return rows
        return Rows(batch=self._written(what, self._frame(rows)))

    def _write(self, node: Node, frame: DataFrame, distribution: Keyed) -> Batch:
        return self._written(node.name, frame, distribution)

    def _written(self, what: str, frame: DataFrame, distribution: Keyed | None = None) -> Batch:
        """An error of a user's function in a task is told with the activation; what may be an executor's loss is left
        to whoever plans the stage."""
        try:
            batch = self._batches.write(what.replace("/", "."), frame, distribution)
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
        from pyspark.sql import DataFrame

        try:
            made = operator.fn(*frames)
        except Exception as error:
            raise user_error(self._body.name, error, where=f"{self._where} of {operator.name!r}") from error
        if not isinstance(made, DataFrame):
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

    def _open_activation(self, loop: Loop, side: str) -> None:
        self.activations += 1
        self._made = _Made(loop.body.name, side)
        for one in self._body.loops():
            bound = one.most_activations
            if bound is not None and self.activations > bound:
                raise PipelineFailed(
                    f"loop {one.name} has not ended after {bound} activations (most_activations)",
                    remedy="see what its feedback has in the end, and let the body drop what changes nothing; or raise "
                    "the bound",
                    stage=self._body.name,
                )

    def _close_activation(self) -> None:
        """What was made is the loop's from here on, and what nobody reads any more goes."""
        if not self._made.loop:
            return  # what is put out when the loop has ended belongs to its end
        made, self._made = self._made, _Made()
        self._note(made, ended=False)

    def _finish(self) -> None:
        made, self._made = self._made, _Made()
        self._note(made, ended=True)
        self._say(f"loop {self._body.name} has ended after {self.activations} activations")

    def _note(self, made: _Made, *, ended: bool) -> None:
        states = {name: self._states.of[name] for name in sorted(made.states)}
        self._log.append(Activation(made.loop, made.side, tuple(made.put), states, tuple(made.output), ended))
        self._output += made.output
        waiting = {
            item.value.batch.name
            for loop in self._network.loops.values()
            for item in (*loop.channel.memory, *loop.disk)
            if isinstance(item, Data)
        }
        waiting |= {
            item.value.batch.name
            for entry in self._network.entries.values()
            for channel in entry.inputs
            for item in channel.items
            if isinstance(item, Data) and item.value.batch is not None
        }
        self._remove_leftovers(waiting)
