"""A run of chaos: pipelines one after the other, faults two at a time, and a look at what came of each."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from tests.cluster.chaos import oracle
from tests.cluster.chaos.faults import Fault, deck, pairs
from tests.cluster.chaos.subject import Subject
from tests.kind.processes import Failed

_PAUSE = (1.0, 6.0)
"""Seconds between two pairs of faults."""

_FAULT_SECONDS, _END_SECONDS, _EVERY = 480.0, 420.0, 1.0
_TRIES = 20
FEWEST, _MOST_DECKS = 40, 1000

Begin = Callable[[str, int], Subject]
"""Has a pipeline of that kind begun, the first, second … of its kind."""


class Chaos:
    """One run.

    Attributes:
        done: how many faults of each kind were done.
        ended: pipelines that have ended well, with what the oracle counted.
    """

    def __init__(self, kinds: tuple[str, ...], begin: Begin, seed: int, log: Path) -> None:
        self.dice, self._kinds, self._begin = random.Random(seed), kinds, begin
        self.done, self.ended = Counter[str](), dict[str, dict[str, int]]()
        self._log, self._began = log, time.monotonic()
        self._subjects: dict[str, Subject] = {}
        self._count = Counter[str]()
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"seed {seed}\n")

    def run(self, minutes: float = 0.0) -> None:
        """Forty faults, and more until so many minutes are over; then until all pipelines have ended."""
        for kind in self._kinds:
            self._start(kind)
        with ThreadPoolExecutor(2, "fault") as pool:
            for both in self._pairs(minutes):
                self._strike(pool, both)
        self._say("no more faults")
        self._until("all pipelines have ended", lambda: self._look(restart=False), _END_SECONDS)

    def _pairs(self, minutes: float) -> Iterator[tuple[Fault, ...]]:
        yield from pairs(deck(self.dice))
        for both in pairs([fault for _ in range(_MOST_DECKS) for fault in deck(self.dice)]):
            if self.done.total() >= FEWEST and time.monotonic() - self._began >= 60 * minutes:
                return
            yield both

    def _strike(self, pool: ThreadPoolExecutor, both: tuple[Fault, ...]) -> None:
        """Two faults at once, and what comes of it for a while."""
        at_work = [pool.submit(self._do, fault, random.Random(self.dice.random())) for fault in both]
        self._watch(at_work)
        for one in at_work:
            one.result()
        pause = time.monotonic() + self.dice.uniform(*_PAUSE)
        while time.monotonic() < pause:
            self._look(restart=True)
            time.sleep(_EVERY)

    def _watch(self, at_work: list[Future[None]]) -> None:
        _, late = wait(at_work, timeout=_FAULT_SECONDS)
        assert not late, "a fault takes too long"

    def _do(self, fault: Fault, dice: random.Random) -> None:
        """As soon as there is something to do it to; not for ever."""
        for _ in range(_TRIES):
            what = None
            try:
                subjects = [one for one in self._subjects.values() if one.look() != "COMPLETED"]
                what = fault.do(subjects, dice) if subjects else None
            except (Failed, AssertionError, OSError) as error:
                if fault.alone:  # a part of the cluster may not be back
                    raise
                self._say(f"{fault.name}: not done, what it was to hit went meanwhile: {str(error)[:200]}")
            if what is not None:
                self.done[fault.name] += 1
                self._say(what)
                return
            time.sleep(2.0)
        self._say(f"{fault.name}: there was nothing to do it to")

    def _look(self, *, restart: bool) -> bool:
        """Check pipelines that have ended, and have others begun in their place; whether none is left."""
        for kind, subject in list(self._subjects.items()):
            try:
                state = subject.look()
                if state == "COMPLETED":
                    self._finish(kind, subject)
                    if restart:
                        self._start(kind)
            except Failed as error:  # kubectl's
                self._say(f"not looked at {subject}: {str(error)[:200]}")
                continue
            assert state != "FAILED", f"{subject} has failed after: {subject.harmed}\n{subject.app.tell()}"
        return not self._subjects

    def _finish(self, kind: str, subject: Subject) -> None:
        self.ended[str(subject)] = oracle.check(subject)
        subject.app.delete()
        self._say(f"{subject} has ended well: {self.ended[str(subject)]}")
        del self._subjects[kind]

    def _start(self, kind: str) -> None:
        self._count[kind] += 1
        self._subjects[kind] = self._begin(kind, self._count[kind])
        self._say(f"{self._subjects[kind]} begins")

    def _until(self, what: str, seen: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not seen():
            if time.monotonic() > deadline:
                left = "\n".join(subject.app.tell() for subject in self._subjects.values())
                raise AssertionError(f"not within {seconds:g} s: {what}\n{left}")
            time.sleep(_EVERY)

    def _say(self, what: str) -> None:
        line = f"{time.monotonic() - self._began:7.1f} s  {what}"
        print(line, flush=True)
        with self._log.open("a") as file:
            file.write(line + "\n")
