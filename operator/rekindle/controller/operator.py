"""The operator's process: probes and metrics at all times, and work in terms of office, one a hold of the Lease."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable

from rekindle.controller.kube import Kube
from rekindle.controller.leader import LeaseElection
from rekindle.controller.metrics import Metrics
from rekindle.controller.probes import serve
from rekindle.controller.settings import OperatorSettings
from rekindle.controller.term import Term

log = logging.getLogger(__name__)

_STANDSTILL = 120.0


class Operator:
    """One process; `run` it once."""

    def __init__(self, settings: OperatorSettings, kube: Kube, take_signals: Callable[[], None] = lambda: None) -> None:
        """`take_signals` sets the process's signal handlers."""
        self._settings, self._kube, self._take_signals = settings, kube, take_signals
        self.metrics = Metrics()
        self._election = LeaseElection(
            kube, settings.operator_namespace, settings.lease_name, settings.identity, settings.lease_seconds
        )
        self._term: Term | None = None

    async def run(self) -> None:
        """Until cancelled, or until a part of a term fails. OSError where the port of the probes is taken."""
        runner = await serve(self._settings.port, self._not_alive, self._not_ready, self.metrics)
        try:
            while True:
                await self._election.acquire()
                await self._serve_a_term()
                log.warning("the Lease %s is lost: the work stops here, and waits for it", self._settings.lease_name)
        finally:
            await self._election.release()
            await runner.cleanup()

    async def _serve_a_term(self) -> None:
        """Work until the Lease is lost."""
        self._term = Term(self._settings, self._kube, self.metrics, self._take_signals)
        self.metrics.leader.set(1)
        work = asyncio.create_task(self._term.run())
        kept = asyncio.create_task(self._election.keep())
        try:
            await asyncio.wait((work, kept), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            self._term = None
            self.metrics.leader.set(0)
            for task in (work, kept):
                task.cancel()
            patience = self._settings.lease_seconds / 3  # what the election leaves of the Lease
            _, left = await asyncio.wait((work, kept), timeout=patience)
            if left:  # two operators must not work at once: better none
                log.critical("the work did not end within %g s after the Lease was lost", patience)
                os._exit(1)

    def _not_alive(self) -> list[str]:
        stands = self._term.standstill(time.monotonic()) if self._term is not None else 0.0
        return [f"the work queue stands still for {stands:.0f} s"] if stands > _STANDSTILL else []

    def _not_ready(self) -> list[str]:
        """A standby is ready: to take over."""
        if not self._election.is_answered:
            return [f"the Lease {self._settings.lease_name} could not be asked for yet"]
        missing = self._term.not_listed() if self._term is not None else []
        return [f"{name} are not listed yet" for name in missing]


async def main(settings: OperatorSettings) -> None:
    """Run until SIGTERM or SIGINT. OSError where there is no cluster."""
    kube = await Kube.connect()
    loop = asyncio.get_running_loop()

    def take_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, work.cancel)

    work = asyncio.create_task(Operator(settings, kube, take_signals).run())
    take_signals()
    try:
        await work
    except asyncio.CancelledError:
        log.info("stopped by a signal")
    finally:
        await kube.close()
