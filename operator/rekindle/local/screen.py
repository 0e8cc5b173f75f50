"""What the user sees of a run: a live table on a terminal, plain lines everywhere else."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rekindle.local.progress import Progress

_REFRESH_SECONDS = 0.25
_LINE_SECONDS = 5.0


class PlainScreen:
    """For pipes, files and CI: the driver's output on standard output, all else on standard error.

    Lines of the launcher begin with the seconds since its start.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._began, self._told_at, self._told = time.monotonic(), 0.0, ""

    def line(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", file=self._err, flush=True)

    def output(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def update(self, progress: Progress) -> None:
        """A line on the running stages, now and then, when it says something new."""
        now = time.monotonic()
        text = running_line(progress)
        if text and text != self._told and now - self._told_at >= _LINE_SECONDS:
            self._told, self._told_at = text, now
            self.line(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""


class LiveScreen:
    """For a terminal: a table that stays below the lines."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stderr=False, redirect_stdout=False)
        self._began, self._drawn = time.monotonic(), 0.0

    def line(self, text: str) -> None:
        self._console.print(Text(f"{time.monotonic() - self._began:7.1f} s  ", style="dim") + Text(text))

    def output(self, text: str) -> None:
        self._console.print(Text(text))

    def update(self, progress: Progress) -> None:
        """Draw the table again, if it is time."""
        now = time.monotonic()
        if now - self._drawn >= _REFRESH_SECONDS:
            self._drawn = now
            self._live.update(render(progress, now - self._began), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def make_screen() -> PlainScreen | LiveScreen:
    """The screen that fits where standard output and error go."""
    return LiveScreen() if sys.stdout.isatty() and sys.stderr.isatty() else PlainScreen()


def running_line(progress: Progress) -> str:
    """`delays 3/8, planes 0/4`: the stages that run."""
    running = [one for one in progress.stages if one.started and not one.finished]
    return ", ".join(f"{one.name} {one.done}/{one.partitions}" for one in running)


def render(progress: Progress, seconds: float) -> Group:
    """The table of stages under a line on the run."""
    head = [f"{seconds:.0f} s", f"driver {progress.drivers}" if progress.drivers else "driver starting"]
    if progress.recoveries:
        head.append(f"recoveries: {progress.recoveries}")
    if progress.blocked:
        head.append(f"blocked: {', '.join(progress.blocked)}")
    table = Table(box=None, padding=(0, 1), show_header=False)
    for stage in progress.stages:
        state = "✓" if stage.finished else "▸" if stage.started else " "
        copies = f"copies: {stage.copies}" if stage.copies else ""
        bar = ProgressBar(total=stage.partitions, completed=stage.done, width=24)
        table.add_row(state, stage.name, bar, f"{stage.done}/{stage.partitions}", copies)
    return Group(Text(" · ".join(head), style="bold"), table)
