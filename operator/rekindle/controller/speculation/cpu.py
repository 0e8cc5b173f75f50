"""What the pods of one driver's executors use, for each task that they run; asked for only where it may decide.

An executor that is left with one task uses less than one that runs four. So figures are for each task, by the tasks
that ran when they were asked for.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.controller.speculation.spark_rest import Task
from rekindle.core.witness import Case, CpuUse, Statement, statement, typical_cores

_PERIOD = 15.0
"""Seconds in which a metrics server has nothing new."""

AskForUses: TypeAlias = Callable[[], Awaitable[Mapping[str, CpuUse]]]
"""Gives [executor -> what its pod used], by our clock; empty where that is not known."""


async def nobody_tells() -> Mapping[str, CpuUse]:
    """No figures."""
    return {}


@dataclass(frozen=True, slots=True)
class Suspect:
    """A slow task, and what is held against its node."""

    task: Task
    case: Case

    def node(self, nodes: Mapping[str, str]) -> str | None:
        """None where it is not known; `nodes`: [executor -> node]."""
        return nodes.get(self.task.executor)


class CpuWitness:
    """Keeps the last figures of one driver. All times are by the driver's clock."""

    def __init__(self, ask: AskForUses) -> None:
        self._ask = ask
        self._asked_at = -math.inf
        self._uses: dict[str, CpuUse] = {}

    async def statements(
        self,
        suspects: Sequence[Suspect],
        running: Callable[[], Awaitable[Iterable[Task]]],
        nodes: Mapping[str, str],
        now: float,
        driver_clock: float,
    ) -> list[Statement]:
        """What is to be said of each suspect.

        `running` gives the tasks of all stages, `nodes`: [executor -> node]; the driver's clock is `driver_clock`
        seconds ahead of ours. Of a suspect whose node is not known nothing is asked.
        """
        needed = any(one.case.needs_witness for one in suspects if one.node(nodes))
        if needed and not 0 <= now - self._asked_at < _PERIOD:
            self._asked_at = now
            uses = await self._ask()
            tasks = Counter(task.executor for task in await running()) if uses else Counter[str]()
            self._uses = {
                executor: CpuUse(use.cores / tasks[executor], use.start + driver_clock, use.end + driver_clock)
                for executor, use in uses.items()
                if executor in tasks
            }
        typical = {node: self._typical_beside(node, nodes, now) for node in {one.node(nodes) for one in suspects}}
        return [
            statement(
                self._uses.get(one.task.executor),
                one.task.launched_at,
                typical[one.node(nodes)],
                now,
                one.case.tolerated_factor,
            )
            for one in suspects
        ]

    def _typical_beside(self, node: str | None, nodes: Mapping[str, str], now: float) -> float:
        """Cores of a task elsewhere: pods on the same node are no measure."""
        others = (use for executor, use in self._uses.items() if nodes.get(executor) not in (None, node))
        return typical_cores(others, now)
