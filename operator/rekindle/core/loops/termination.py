"""How operators end where there are loops: the termination protocol of FLIP-15, part III.

When the sources have ended, work may still go round in loops, and nobody sees all of it. So a baton is passed. It goes
in order with the data, and each operator adds whether it is busy. The head of a loop sends it round and sees it come
back: if no data came before it and nobody was busy, nothing is left in the loop. Otherwise the head tries again. No
clock takes part (`S10-3`).

The walk through nested loops, which FLIP-15 leaves open:

1. The outermost loop tries first. Its attempt goes through the loops within it. The head of each, when the attempt has
   been round its loop, says so in the completed level and adds whether data went through it since it was visited last;
   only then does what leaves that loop count outside of it.
2. Such a pass has been round an inner loop when it enters a further one that is nested in it. It waits at that one's
   entry until the attempt has been round there as well, so that it never leaves a loop before all of it was visited.
3. When the outermost scope is complete its operators end, in the order of the graph. Where that reaches the entry of a
   loop within it, that scope is the outermost one that has not ended. It tries in its turn, and so on inwards.
4. When it is complete its operators end, and so do those behind it.

An operator is a value: what arrives is given to it one at a time, and it answers with what it is from then on and what
it broadcasts. All that goes to one operator on one channel arrives in order; between channels there is none.

A scope has one head and one entry. Any other operator may be one of several subtasks: each is an operator here, with
channels of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from rekindle.core.loops.termination_attempt import TerminationAttempt

O_co = TypeVar("O_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Step(Generic[O_co]):
    """What an operator is from now on, and what it broadcasts to all that read from it, in order."""

    operator: O_co
    emit: tuple[TerminationAttempt, ...] = ()
