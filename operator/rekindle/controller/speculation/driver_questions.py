"""What one driver is asked about one application, page by page."""

import asyncio
import logging

from rekindle.controller.speculation.spark_rest import (
    Address,
    DriverUnanswered,
    SparkRest,
    StageKey,
    Stages,
    Task,
    TaskStatus,
)

log = logging.getLogger(__name__)

_PAGE = 2000
MOST_ASKED_FOR = 20_000
"""Tasks of a stage that are asked for: of more, the others change no median by much."""

_COUNT_SECONDS = 5.0


class DriverQuestions:
    """All raise DriverUnanswered, but `ended`."""

    def __init__(self, rest: SparkRest, address: Address, application_id: str) -> None:
        self._rest, self._address, self._application_id = rest, address, application_id

    async def stages(self) -> Stages:
        """Those that are active."""
        return await self._rest.stages(self._address, self._application_id)

    async def tasks(self, key: StageKey, tasks: int, status: TaskStatus) -> list[Task]:
        """Of the stage `key`, which has so many tasks."""
        found: list[Task] = []
        most = min(MOST_ASKED_FOR, 2 * tasks + _PAGE)
        while len(found) < most:
            page = await self._rest.tasks(
                self._address, self._application_id, key, status, offset=len(found), length=_PAGE
            )
            found += page
            if len(page) < _PAGE:
                break
        return list({(task.index, task.attempt): task for task in found if task.index < tasks}.values())

    async def ended(self, key: StageKey, tasks: int) -> list[Task]:
        """Nothing where the driver does not tell: the count of races is not worth a look for what is slow."""
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                return [*await self.tasks(key, tasks, "success"), *await self.tasks(key, tasks, "killed")]
        except (DriverUnanswered, TimeoutError) as problem:
            log.debug("races of stage %s are not counted: %s", key, problem)
            return []
