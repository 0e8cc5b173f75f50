"""Commands with a deadline, progress with elapsed seconds, and the folder where what took long is kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_BEGAN = time.monotonic()
_SHOWN_LINES = 25


class Failed(Exception):
    """Something that the cluster needs did not work; the message says what, and shows what it said."""


def cache() -> Path:
    """Where builds are kept, and their logs; safe to remove while no cluster is up."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle" / "kind"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def alone() -> Iterator[None]:
    """One process at a time makes or removes; what an ended one left half made in the cache is removed."""
    with open(cache() / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that makes or removes the cluster")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for unfinished in cache().glob("tmp*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        yield


def say(text: str) -> None:
    print(f"kind {time.monotonic() - _BEGAN:5.0f} s  {text}", flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what begins, and what it took if that was long."""
    say(text)
    began = time.monotonic()
    yield
    if (seconds := time.monotonic() - began) > 10:
        say(f"{text}: done in {seconds:.0f} s")


def run(
    command: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text: str | None = None,
) -> str:
    """Its standard output. `text` is its input, `env` is added to this process's."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=text or "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
    except FileNotFoundError as missing:
        raise Failed(f"{words[0]} is not there: {missing}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"not done within {timeout:.0f} s: {' '.join(words)}") from None
    if done.returncode:
        raise Failed(f"exit code {done.returncode}: {' '.join(words)}\n{last_lines(done.stdout + done.stderr)}")
    return done.stdout


def run_logged(
    name: str,
    command: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> None:
    """Run a long step with its output in a log of the cache; its last lines are shown when it fails."""
    path = log_of(name)
    with open(path, "wb") as log:
        try:
            done = subprocess.run(
                [str(word) for word in command],
                stdin=stdin,
                stdout=log,
                stderr=log,
                timeout=timeout,
                cwd=cwd,
                env={**os.environ, **(env or {})},
            )
            ended = f"exit code {done.returncode}" if done.returncode else None
        except FileNotFoundError as missing:
            ended = str(missing)
        except subprocess.TimeoutExpired:
            ended = f"not done within {timeout:.0f} s"
    if ended:
        raise Failed(f"{name}: {ended}; the end of {path}:\n{last_lines(path.read_text(errors='replace'))}")


def log_of(name: str) -> Path:
    folder = cache() / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.log"


def last_lines(text: str, count: int = _SHOWN_LINES) -> str:
    return "\n".join(f"  | {line}" for line in text.rstrip().splitlines()[-count:])


def wait_until(what: str, seen: Callable[[], object], *, seconds: float, every: float = 0.2) -> float:
    """The seconds it took until `seen` returned something true; `Failed` when it did not in time."""
    began = time.monotonic()
    while not seen():
        if time.monotonic() - began > seconds:
            raise Failed(f"not seen within {seconds:.0f} s: {what}")
        time.sleep(every)
    return time.monotonic() - began
