"""Subtasks as ranges: what is alike of a stage of 100,000 is told in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

Ranges = tuple[tuple[int, int], ...]
"""Subtasks from the first to the last of each pair, ascending."""


def ranges_of(subtasks: Iterable[int]) -> Ranges:
    """As few as there can be; one that is there twice counts once."""
    return runs_of(sorted(set(subtasks)))


def subtasks_of(ranges: Ranges) -> Iterator[int]:
    """Each of them, in the order of the ranges."""
    return chain.from_iterable(range(first, last + 1) for first, last in ranges)


def runs_of(numbers: Iterable[int]) -> Ranges:
    """Any numbers in their order: (first, last) of each run of numbers that follow each other."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return tuple((first, last) for first, last in found)


def count(ranges: Ranges) -> int:
    """How many subtasks these are."""
    return sum(last - first + 1 for first, last in ranges)


def shown(ranges: Ranges) -> str:
    """`0-3,7`"""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def check_ranges(vertex: str, size: int, ranges: Iterable[tuple[int, int]]) -> None:
    """Raises ValueError unless these, in any order, are subtasks of a job vertex with so many, each at most once."""
    after = 0
    for first, last in sorted(ranges):
        if not after <= first <= last < size:
            raise ValueError(f"subtasks {first} to {last} of {vertex}, which has {size}: not of it, or there twice")
        after = last + 1
