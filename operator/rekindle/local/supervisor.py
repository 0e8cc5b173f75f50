"""The launcher's loop: one driver at a time, started again when it was lost, watched until the run ends.

Everything happens in the one thread that calls `run`: it polls the driver, follows the journal, lets the
chaos act and updates the screen. Ctrl-C sets a flag; the loop asks the driver to stop, and insists.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from rekindle.api.settings import DRIVER_ATTEMPT, DRIVER_ERROR, DRIVER_TAKEOVER
from rekindle.local import failure
from rekindle.local.driver import Driver, make_python, read_error
from rekindle.local.java import base_environment
from rekindle.local.restarts import FAILED, INTERRUPTED, USAGE, Ended, decide
from rekindle.local.submission import Submission, driver_environment
from rekindle.local.watchdog import Watchdog

_POLL = 0.1
_ASK_SECONDS = 20.0  # after SIGINT: running tasks are cancelled and the journal is closed
_INSIST_SECONDS = 5.0  # after SIGTERM


class Screen(Protocol):
    """Where the run tells what happens."""

    def line(self, text: str) -> None:
        """A line of the launcher."""

    def output(self, text: str) -> None:
        """A line that the driver printed; called by another thread."""


class Companion(Protocol):
    """Something that goes along with the run: progress, chaos."""

    def step(self, now: float, driver: Driver) -> None:
        """Called several times a second while a driver runs; `now` is seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where drivers are submitted to."""

    master_url: str
    folder: Path
    driver_java_options: str
    conf: dict[str, str] = field(default_factory=dict)
    properties: Path | None = None
    """A properties file that drivers need there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended; `message` is for the user, empty when all is well.

    `seconds` is from the first driver's start to the last one's end.
    """

    code: int
    message: str
    drivers: int
    seconds: float


class Supervisor:
    """Runs one application to its end."""

    def __init__(
        self,
        submission: Submission,
        target: Target,
        watchdog: Watchdog,
        screen: Screen,
        companions: tuple[Companion, ...] = (),
        *,
        takeover: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`takeover`: the store's last driver is proven gone already."""
        self._submission, self._target, self._watchdog = submission, target, watchdog
        self._screen, self._companions, self._clock = screen, companions, clock
        self._takeover, self._stop_requests, self._began = takeover, 0, time.monotonic()
        self.drivers = 0

    def run(self) -> Outcome:
        """Start drivers until one ends the run."""
        self._began = time.monotonic()
        with self._signals():
            while True:
                code, error = self._run_driver()
                if self._stop_requests:
                    return self._ended(INTERRUPTED, "stopped; the next run goes on from what is stored")
                decision = decide(self._submission.restart_policy, code, self.drivers - 1)
                if isinstance(decision, Ended):
                    return self._outcome(decision, error)
                self._screen.line(f"{decision.reason}; starting driver {self.drivers + 1}")
                if not self._pause(decision.delay):
                    return self._ended(INTERRUPTED, "stopped while waiting to restart the driver")

    def _run_driver(self) -> tuple[int, dict[str, Any] | None]:
        """One driver from start to end: its exit code and the error it left. It is proven gone afterwards."""
        self.drivers += 1
        error_file = self._target.folder / f"driver-{self.drivers}.error.json"
        driver = self._start_driver(error_file)
        try:
            self._watch(driver)
        finally:
            driver.close()
        code = driver.poll()
        assert code is not None
        error = read_error(error_file)
        if error and code == 0:
            self._screen.line(f"a pipeline failed, and the program ended well all the same: {error.get('message')}")
        return (int(error["exitCode"]) if error and code > 0 and "exitCode" in error else code), error

    def _start_driver(self, error_file: Path) -> Driver:
        temporary = self._target.folder / "driver"
        for part in ("local", "tmp"):
            (temporary / part).mkdir(parents=True, exist_ok=True)
        conf = {
            **self._target.conf,
            DRIVER_ATTEMPT: str(self.drivers),
            DRIVER_TAKEOVER: str(self._takeover or self.drivers > 1).lower(),
            DRIVER_ERROR: str(error_file),
            "spark.pyspark.driver.python": str(make_python(temporary / "python", self._file("err"))),
        }
        target = self._target
        return Driver(
            self._submission.command(target.master_url, target.driver_java_options, conf, target.properties),
            driver_environment(self._submission, base_environment(temporary / "tmp"), temporary),
            self._submission.folder,
            self._file("log"),
            self._watchdog,
            self._screen.output,
        )

    def _watch(self, driver: Driver) -> None:
        asked = 0
        insist_at = kill_at = float("inf")
        while driver.poll() is None:
            now = time.monotonic()
            if self._stop_requests > asked:
                asked = self._stop_requests
                if asked > 1:
                    return  # the second Ctrl-C: `close` kills
                self._screen.line("stopping (Ctrl-C again to kill)")
                driver.interrupt()
                insist_at, kill_at = now + _ASK_SECONDS, now + _ASK_SECONDS + _INSIST_SECONDS
            if now > kill_at:
                return
            if now > insist_at:
                driver.terminate()
                insist_at = float("inf")
            for companion in self._companions:
                companion.step(self._clock(), driver)
            time.sleep(_POLL)

    def _outcome(self, decision: Ended, error: dict[str, Any] | None) -> Outcome:
        if decision.code == 0:
            return self._ended(0, "")
        if error is not None:
            return self._ended(decision.code, failure.from_record(error))
        words = failure.from_logs(_read(self._file("err")), _read(self._file("log")))
        wrong = failure.pipeline_error(words)
        if decision.code == FAILED and wrong is not None:
            return self._ended(USAGE, wrong)
        return self._ended(decision.code, f"{decision.reason}\n{words}".rstrip())

    def _ended(self, code: int, message: str) -> Outcome:
        return Outcome(code, message, self.drivers, time.monotonic() - self._began)

    def _pause(self, seconds: float) -> bool:
        """Wait; False when asked to stop."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._stop_requests:
            time.sleep(_POLL)
        return not self._stop_requests

    def _file(self, kind: str) -> Path:
        """A file of the current driver: `log` of its JVM, `err` of its program."""
        return self._target.folder / f"driver-{self.drivers}.{kind}"

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP ask the run to stop."""

        def ask(number: int, frame: FrameType | None) -> None:
            self._stop_requests += 1

        asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, ask) for number in asked}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
