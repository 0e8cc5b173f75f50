"""Work of a fixed amount: steps, not seconds, so that a slow node takes longer for it."""

from __future__ import annotations

import time

_MODULUS = (1 << 31) - 1
_TRIED_STEPS, _TRIES = 2_000_000, 3


def burn(steps: int, seed: int) -> int:
    """So many steps of a generator of numbers, from 1 to 2^31 - 2."""
    value = seed % (_MODULUS - 1) + 1
    for _ in range(steps):
        value = value * 48271 % _MODULUS
    return value


def steps_per_second() -> float:
    """How many steps this Python takes in a second of CPU time: the most of three tries."""
    return max(_rate() for _ in range(_TRIES))


def _rate() -> float:
    began = time.process_time()
    burn(_TRIED_STEPS, 1)
    return _TRIED_STEPS / (time.process_time() - began)
