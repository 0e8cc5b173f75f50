"""A model of the driver: what the job master does with the core, on the model of Spark.

It sees late, twice, or not at all until later, writes what it saw to a journal before the core's answers are carried
out, and is killed and started again. It keeps the promises that the job master makes to the core, and no others:

- a stage's shuffle that Spark made again is told before the stage's last commit, not necessarily before the others;
- commits are the truth: one that was not seen before a driver was lost is seen by the next, unless its stage shuffles.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.execution import ExecutionState
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import JobGraph
from tests.unit.simulation.spark import Commit, InputMissing, Shuffle, Spark, Task

SLOW_AFTER = 20.0
Check = Callable[["Driver", ev.Event, list[act.Action]], None]


@dataclass
class Plan:
    """A stage as it was planned: on these versions of its inputs. Another number, another shuffle.

    `reads` has the versions of stored inputs and, of cached ones, the numbers of the frames it was planned with.
    """

    number: int
    versions: dict[str, tuple[int, ...]]
    reads: dict[str, tuple[int, ...]]


class Driver:
    """Runs a job on `spark` from round to round; `checks` are called after each event."""

    def __init__(
        self, draw: random.Random, spark: Spark, job_graph: JobGraph, options: Mapping[str, Any], *checks: Check
    ) -> None:
        self.draw, self.spark, self.job_graph, self._options, self._checks = draw, spark, job_graph, options, checks
        self.now = 0.0
        self.journal: list[tuple[ev.Event, float]] = []
        self.trace: list[str] = []
        self._plans_made = self._frames_made = 0
        self._begin()
        self._see(self._told())
        self._see(ev.JobSubmitted())
        self._settle()

    def _told(self) -> ev.OptionsGiven:
        speculative = tuple(vertex.name for vertex in self.job_graph.vertices if vertex.speculative)
        return ev.OptionsGiven(**self._options, speculative=speculative)

    def _begin(self) -> None:
        self.core = ExecutionGraph(self.job_graph, **self._options)
        self.plans: dict[str, Plan] = {}
        self._frames: dict[str, int] = {}
        self._pending: deque[ev.Event] = deque()
        self._digest_up_to: dict[str, int] = {}
        self._proven: dict[ExecutionVertexID, int] = {}

    # -- what happens ----------------------------------------------------------------------------------

    def round(self, seconds: float) -> None:
        """Time passes; what can be seen is seen, mostly; what should run is started."""
        self.now += seconds
        for task in self.spark.pass_time(self.now):
            self._failed(task, ev.FailureCause(ev.FailureKind.TASK, "its code raised"))
        for name in self.spark.stages:
            if self.draw.random() < 0.8:
                self._see_stage(name)
        self._see_slow()
        self._see(ev.Tick())
        self._settle()
        self._drive()
        self._settle()

    def node_lost(self, node: str) -> None:
        for task in self.spark.lose_node(node):
            self._failed(task, ev.FailureCause(ev.FailureKind.INFRASTRUCTURE, f"{node} is gone"))
        self._settle()

    def driver_lost(self, options: Mapping[str, Any]) -> None:
        """A new one, perhaps told other options, replays the journal, looks at what is committed, and goes on."""
        self.spark.lose_driver()
        self._options = options
        self.trace.append(f"{self.now:7.1f} -- a new driver")
        self._begin()
        for event, then in self.journal:
            self.core.handle(event, then)
        self._see(self._told())
        self._settle()
        for name in self.spark.stages:
            if not self._may_be_mixed(name):
                self._see_commits(name, of_this_driver=False)
        if self.draw.random() < 0.2:
            self._see(ev.RerunRequested(self.draw.choice(sorted(self.spark.stages)), "somebody doubts it"))
        self._see(ev.DriverLost("killed"))
        self._settle()

    def _failed(self, task: Task, cause: ev.FailureCause) -> None:
        self._deployed(task)
        self._see(ev.AttemptFailed(task.attempt, cause))
        if self.draw.random() < 0.1:
            self._see(ev.AttemptFailed(task.attempt, cause))

    # -- seeing ----------------------------------------------------------------------------------------

    def _see(self, event: ev.Event) -> None:
        self._pending.append(event)

    def _settle(self) -> None:
        """Hand over what was seen and carry out what is answered, until there is nothing left."""
        while self._pending:
            event = self._pending.popleft()
            self.journal.append((event, self.now))
            self.trace.append(f"{self.now:7.1f} {event}")
            answer = self.core.handle(event, self.now)
            self.trace += [f"          -> {action}" for action in answer]
            for check in self._checks:
                check(self, event, answer)
            for action in answer:
                self._do(action)

    def _see_stage(self, name: str) -> None:
        for task in self.spark.tasks:
            if task.attempt.vertex_id.vertex == name and self.draw.random() < 0.9:
                self._deployed(task)
        self._see_commits(name, of_this_driver=True)
        self._settle()
        self._see_shuffle(name)
        self._settle()

    def _deployed(self, task: Task) -> None:
        if not task.told:
            task.told = True
            self._see(ev.AttemptDeployed(task.attempt, task.node, task.started))

    def _fresh(self, name: str) -> dict[int, Commit]:
        """Commits of current versions that the core does not know."""
        found = {}
        for vertex in self.core.execution_vertices(name):
            commit = self.spark.store.get((name, vertex.id.subtask, vertex.version))
            if commit is not None and not vertex.is_finished:
                found[vertex.id.subtask] = commit
        return found

    def _see_commits(self, name: str, *, of_this_driver: bool) -> None:
        stage, fresh = self.spark.stages[name], self._fresh(name)
        if not fresh:
            return
        if of_this_driver and stage.shuffles and not self._is_promised(name) and self._is_mixed(name):
            self._map_lost(name, "its results read different map outputs")
            return
        if of_this_driver:
            for cached in self._cached_inputs(name):
                self._feed_finished(cached, None)
            if stage.shuffles:
                self._map_finished(name)
        for subtask, commit in fresh.items():
            output = ev.PartitionOutput(1, 1, f"{commit.rows:x}" if stage.comparable else None)
            for _ in range(2 if self.draw.random() < 0.1 else 1):
                self._see(ev.AttemptDeployed(self._winner(name, subtask, commit), "unknown", self.now))
                self._see(ev.AttemptFinished(self._winner(name, subtask, commit), self.now, output))

    def _winner(self, name: str, subtask: int, commit: Commit) -> ExecutionAttemptID:
        """Whoever committed; of what a lost driver's task committed, the oldest that may still finish."""
        executions = self.core.current_executions(ExecutionVertexID(name, subtask))
        if commit.writer == self.spark.writer and any(one.attempt_id == commit.attempt for one in executions):
            return commit.attempt
        return min((one.attempt_id for one in executions if not one.state.is_terminal), default=commit.attempt)

    def _is_mixed(self, name: str) -> bool:
        shuffle, tasks, suspects = self._shuffle(name), list[int](), self.core.suspects()
        for vertex in self.core.execution_vertices(name):
            commit = self.spark.store.get((name, vertex.id.subtask, vertex.version))
            if vertex.id in suspects:
                continue  # the digest of the map side has still to show whether it fits
            if vertex.id in self._proven:
                tasks.append(self._proven[vertex.id])
            elif commit is not None and commit.writer == self.spark.writer:
                tasks.append(commit.task)
        latest = max((one.task for one in shuffle.outputs if one), default=-1) if shuffle else -1
        return bool(tasks) and latest > min(tasks)

    def _may_be_mixed(self, name: str) -> bool:
        return self.spark.stages[name].shuffles and not self._is_promised(name)

    def _map_finished(self, name: str) -> None:
        shuffle = self._shuffle(name)
        whole = shuffle is not None and all(shuffle.outputs)
        self._digest_up_to[name] = max((one.task for one in shuffle.outputs if one), default=-1) if shuffle else -1
        digest = "-".join(str(one.rows) for one in shuffle.outputs if one) if shuffle and whole else None
        self._feed_finished(f"{name}.map", digest if self.spark.stages[name].comparable else None)

    def _feed_finished(self, name: str, digest: str | None) -> None:
        """What feeds a stage inside Spark is there once the stage has a result."""
        for execution in self.core.current_executions(ExecutionVertexID(name, 0)):
            if not execution.state.is_terminal:
                self._see(ev.AttemptDeployed(execution.attempt_id, "*", self.now))
                self._see(ev.AttemptFinished(execution.attempt_id, self.now, ev.PartitionOutput(0, 0, digest)))

    def _see_shuffle(self, name: str) -> None:
        """Spark made map outputs again, or will have to: told once for each time it is seen."""
        shuffle = self._shuffle(name)
        if shuffle is None or self.core.is_finished(name):
            return
        lost = shuffle.complete_once and None in shuffle.outputs
        if (shuffle.ran_again or lost) and not self._is_promised(name):
            shuffle.ran_again = False
            self._map_lost(name, "its map outputs were made again")

    def _is_promised(self, name: str) -> bool:
        return bool(self.job_graph.vertex(name).deterministic)

    def _map_lost(self, name: str, reason: str) -> None:
        self._see(ev.PartitionsLost((ResultPartitionID(f"{name}.map", 0),), reason))

    def _see_slow(self) -> None:
        slow = {
            task.attempt.vertex_id: (task.attempt.vertex_id, (task.attempt,), "it takes long")
            for task in self.spark.tasks
            if task.told and self.now - task.started > SLOW_AFTER
        }
        if slow:
            self._see(ev.SlowTasksFound(tuple(slow.values())))

    def _shuffle(self, name: str) -> Shuffle | None:
        plan = self.plans.get(name)
        return self.spark.shuffles.get((name, plan.number)) if plan else None

    # -- doing -----------------------------------------------------------------------------------------

    def _do(self, action: act.Action) -> None:
        match action:
            case act.Cancel(attempts=attempts):
                for attempt in attempts:
                    self._kill(lambda task, attempt=attempt: task.attempt == attempt)  # type: ignore[misc]
                    self._see(ev.AttemptCanceled(attempt))
            case act.Spare(vertices=vertices):
                fit = [one for one in vertices if one.vertex in self._digest_up_to]
                self._proven |= {one: self._digest_up_to[one.vertex] for one in fit}
            case act.Restart(vertices=vertices):
                for vertex in vertices:
                    self._proven.pop(vertex, None)
                touched = {vertex.vertex for vertex in vertices}
                self._frames = {name: frame for name, frame in self._frames.items() if name not in touched}
                for name in self.spark.stages:
                    if f"{name}.map" in touched and not self._is_promised(name):
                        self._retire(name)
                    elif name in touched or f"{name}.map" in touched:
                        self._kill(lambda task, name=name: task.attempt.vertex_id.vertex == name)  # type: ignore[misc]
            case act.Release(vertex=name):
                self._retire(name)

    def _kill(self, which: Callable[[Task], bool]) -> None:
        for task in self.spark.tasks:
            if which(task):
                self.spark.kill(task, self.now)

    def _retire(self, name: str) -> None:
        self.plans.pop(name, None)
        self._kill(lambda task: task.attempt.vertex_id.vertex == name)

    def _drive(self) -> None:
        """Start what the core has deployed and nothing works on."""
        for name in [stage.name for stage in self.spark.stages.values() if not stage.cached]:
            wanted = [
                execution
                for subtask in self.core.unfinished(name)
                for execution in self.core.current_executions(ExecutionVertexID(name, subtask))
                if execution.state in {ExecutionState.SCHEDULED, ExecutionState.RUNNING}
            ]
            stored, cached = self._stored_inputs(name), self._cached_inputs(name)
            if not wanted or not all(self.core.is_finished(one) for one in stored):
                continue
            versions = {one: tuple(v.version for v in self.core.execution_vertices(one)) for one in stored | cached}
            plan = self.plans.get(name)
            if plan is None or plan.versions != versions:
                self._retire(name)
                self._plans_made += 1
                frames = {one: (self._frame(one),) for one in sorted(cached)}
                plan = self.plans[name] = Plan(self._plans_made, versions, {**versions, **frames})
            running = {(task.attempt, task.version) for task in self.spark.tasks if task.killed_at > self.now}
            for execution in wanted:
                version = self.core.version(execution.attempt_id.vertex_id)
                if (execution.attempt_id, version) not in running:
                    self._start(execution.attempt_id, version, plan)

    def _stored_inputs(self, name: str) -> set[str]:
        """What a stage reads from the store, also through cached stages."""
        return {one for reader in {name} | self._cached_inputs(name) for one in self.spark.stages[reader].inputs} - {
            one.name for one in self.spark.stages.values() if one.cached
        }

    def _cached_inputs(self, name: str) -> set[str]:
        """The cached stages that it reads, also through each other."""
        direct = {one for one in self.spark.stages[name].inputs if self.spark.stages[one].cached}
        return direct.union(*(self._cached_inputs(one) for one in direct))

    def _frame(self, name: str) -> int:
        if name not in self._frames:
            self._frames_made += 1
            self._frames[name] = self._frames_made
        return self._frames[name]

    def _start(self, attempt: ExecutionAttemptID, version: int, plan: Plan) -> None:
        avoid = set(self.core.blocked_nodes(self.now))
        try:
            self.spark.start(attempt, version, plan.number, plan.reads, avoid, self.now)
        except InputMissing as missing:
            partition = ResultPartitionID(*missing.partition)
            cause = ev.FailureCause(ev.FailureKind.PARTITION, f"cannot read {partition}", partition)
            self._see(ev.AttemptDeployed(attempt, "n0", self.now))
            self._see(ev.AttemptFailed(attempt, cause))
