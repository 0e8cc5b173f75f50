"""The `nodeAware` detector: finds a sick node, by comparing its tasks with the same job vertex's tasks elsewhere.

The detector of FLIP-168 waits until most tasks of a job vertex have finished, so it sees nothing where a slow
node holds more than a quarter of them, and it takes a task with much input for a slow one. This one asks a
question about nodes: do the attempts here take longer than their work explains?

What is compared is the logarithm of time per byte read (of plain time, where bytes are not known), which turns
"so many times slower" into a distance. A node is sick when the mean distance of its attempts from the median
elsewhere is more than `tolerated_factor`, by a margin that chance exceeds in a share of `false_alarm_rate` of
the job vertices at most: Student's margin for the spread seen elsewhere, for as many comparisons as are made.
So few tasks need a clear difference and many tasks a small one.

- An attempt that runs has taken *at least* as long as it has run. On the node in question that counts as its
  time, which errs on the quiet side; elsewhere it counts once it is above the median, else not at all.
- Two comparisons are made for each node: of all its attempts, and of those that run, for a node may have turned
  sick just now. Those that still run are the slowest of their stage even where all is well, so the second is held
  to the margin for as many comparisons as there are attempts.
- The first attempts on a node start cold (classes are loaded, files fetched). They are compared with first
  attempts elsewhere; where there are none, `cold_start` is taken off their time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from statistics import NormalDist, fmean, median

from rekindle.core.events import SlowTasksFound
from rekindle.core.execution import Execution
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import NO_NODE, ExecutionAttemptID
from rekindle.core.options import NodeAwareOptions
from rekindle.core.slow_tasks import GraphView, Slow

_SPREAD_BY_BYTES = 0.25
_SPREAD_BY_TIME = 0.8
_WEIGHT_BY_BYTES = 20
_WEIGHT_BY_TIME = 8
"""The usual spread counts like so many attempts that were seen."""

_LEAST_SHARE_OF_TYPICAL_INPUT = 0.1


@dataclass(frozen=True, slots=True)
class NodeAwareSlowTaskDetector:
    """Slow is what runs on a node whose attempts take longer than their input explains."""

    options: NodeAwareOptions = NodeAwareOptions()  # noqa: RUF009 (it is frozen)

    def find_slow(self, graph: GraphView, now: float) -> SlowTasksFound:
        vertices = graph.execution_job_vertices()
        warm_from = _warm_from(task for vertex in vertices for task in vertex.tasks)
        found: list[Slow] = []
        for vertex in vertices:
            if not vertex.is_finished:
                found += self._slow_of(vertex.job_vertex.name, vertex.tasks, warm_from, now)
        return SlowTasksFound(tuple(found))

    def least_seconds(self, vertex: ExecutionJobVertex, *, outnumbered: bool = False) -> float:
        """Before an attempt has run for so long no verdict blames it, as long as no more attempts finish.

        `vertex` has none that run. Those that it gets read no less than the median of what has finished here on known
        nodes, in whole bytes. 0 where that does not do to say when.

        Args:
            outnumbered: it may get as many as have finished on known nodes, or more. Where sizes differ more than
                tenfold a verdict may then come sooner than is said here.
        """
        finished = [one for task in vertex.tasks for one in task.executions if one.finished_at is not None]
        told = [one.input_bytes for one in finished]
        warm_from = _warm_from(vertex.tasks)

        def least(share: float) -> float:
            comparison = Comparison.of(vertex.tasks, warm_from, 0.0, self.options, share)
            return comparison.least_seconds() * max(1.0, share)

        if not any(told) and len({*told}) == 1:
            return 0.0 if outnumbered else least(_LEAST_SHARE_OF_TYPICAL_INPUT)
        known = [size for size in told if size is not None]
        placed = sorted(one.input_bytes or 0 for one in finished if _is_timed(one, 0.0))
        typical = median(placed) if placed else 0.0
        if len(known) < len(told) or not typical:
            return 0.0
        # The more the others read, the more of these count as having read no more than the floor. Once that is the
        # median of these, an attempt can read no less, and may take longer again; at their maximum size is nothing.
        floors = [placed[len(placed) // 4], placed[3 * len(placed) // 4], placed[-1]] if outnumbered else []
        shares = {_LEAST_SHARE_OF_TYPICAL_INPUT, 1.0}
        shares |= {max(_LEAST_SHARE_OF_TYPICAL_INPUT, floor / typical) for floor in floors}
        return min(map(least, shares)) * min(1.0, int(median(known)) / typical)

    def _slow_of(
        self, vertex: str, tasks: Sequence[ExecutionVertex], warm_from: dict[str, float], now: float
    ) -> list[Slow]:
        comparison = Comparison.of(tasks, warm_from, now, self.options)
        sick = {node: verdict for node in comparison.nodes() if (verdict := comparison.verdict(node))}
        if not sick:
            return []
        found: list[Slow] = []
        for task in tasks:
            slow: dict[str, list[ExecutionAttemptID]] = {}
            for one in () if task.is_finished else task.executions:
                if one.node in sick and self._counts(one, now):
                    slow.setdefault(one.node, []).append(one.attempt_id)
            found += [(task.id, tuple(slow[node]), sick[node].evidence(node, vertex)) for node in sorted(slow)]
        return found

    def _counts(self, execution: Execution, now: float) -> bool:
        return execution.state.is_running and execution.execution_time(now) >= self.options.lower_bound


@dataclass(frozen=True, slots=True)
class Sample:
    """One attempt. `distance` is the logarithm of its seconds per unit of work."""

    node: str
    seconds: float
    work: float
    distance: float
    running: bool
    cold: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sick node: `factor` times as slow, where up to `margin` times may be chance."""

    factor: float
    margin: float
    attempts: int
    elsewhere: int
    by_bytes: bool
    false_alarm_rate: float

    def evidence(self, node: str, vertex: str) -> str:
        """In words."""
        unit = "per byte" if self.by_bytes else "(the bytes they read are not known)"
        return (
            f"{node} is slow: {self.attempts} of its attempts at {vertex} take {self.factor:.1f} times as long {unit} "
            f"as {self.elsewhere} elsewhere; up to {self.margin:.1f} times is taken for chance "
            f"(false alarms: at most {self.false_alarm_rate:g} a stage)"
        )


@dataclass(frozen=True, slots=True)
class Ranking:
    """Attempts in the order of their distance, so that the median without those of one node is found by halving.

    Attributes:
        finished: [place -> how many of the attempts before it have finished], one more than there are attempts.
        places: [node -> the places of its attempts that have finished, of those that run]
    """

    samples: tuple[Sample, ...]
    finished: tuple[int, ...]
    places: Mapping[str, tuple[Sequence[int], Sequence[int]]]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Ranking:
        ranked = tuple(sorted(samples, key=attrgetter("distance")))
        places: dict[str, tuple[list[int], list[int]]] = {}
        for place, one in enumerate(ranked):
            places.setdefault(one.node, ([], []))[one.running].append(place)
        return cls(ranked, tuple(accumulate((not one.running for one in ranked), initial=0)), places)

    def of_node(self, node: str) -> Iterator[Sample]:
        """The attempts on a node."""
        for places in self.places.get(node, ()):
            yield from (self.samples[place] for place in places)

    def finished_without(self, node: str) -> int:
        """How many attempts have finished elsewhere."""
        return self.finished[-1] - len(self.places.get(node, ((), ()))[0])

    def median_without(self, node: str) -> float | None:
        """The median distance elsewhere, of what has finished and of what has run for longer than that already."""
        own_finished, own_running = self.places.get(node, ((), ()))

        def finished_before(place: int) -> int:
            return self.finished[place] - bisect_left(own_finished, place)

        def running_before(place: int) -> int:
            return place - self.finished[place] - bisect_left(own_running, place)

        middle = self._median(finished_before)
        if middle is None:
            return None
        above = bisect_right(self.samples, middle, key=attrgetter("distance"))
        sooner = running_before(above)
        return self._median(lambda place: finished_before(place) + max(0, running_before(place) - sooner))

    def _median(self, counted_before: Callable[[int], int]) -> float | None:
        """The median distance of the attempts that are counted; `counted_before` says how many are before a place."""
        count = counted_before(len(self.samples))
        if not count:
            return None
        places = range(len(self.samples))
        lower, upper = (
            self.samples[bisect_right(places, rank, key=lambda place: counted_before(place + 1))].distance
            for rank in ((count - 1) // 2, count // 2)
        )
        return (lower + upper) / 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """The attempts of one job vertex, each node against the others.

    Attributes:
        rankings: [whether they started cold -> those attempts]
    """

    rankings: Mapping[bool, Ranking]
    by_bytes: bool
    options: NodeAwareOptions

    @classmethod
    def of(
        cls,
        tasks: Sequence[ExecutionVertex],
        warm_from: dict[str, float],
        now: float,
        options: NodeAwareOptions,
        least_share: float = _LEAST_SHARE_OF_TYPICAL_INPUT,
    ) -> Comparison:
        timed = [one for task in tasks for one in task.executions if _is_timed(one, now)]
        known = [one.input_bytes for one in timed if one.input_bytes is not None]
        typical = median(known) if 2 * len(known) > len(timed) else 0.0
        samples = [_sample(one, _work(one.input_bytes, typical, least_share), warm_from, now) for one in timed]
        rankings = {cold: Ranking.of(one for one in samples if one.cold is cold) for cold in (False, True)}
        return cls(rankings, typical > 0, options)

    def nodes(self) -> list[str]:
        """Where attempts run that may be slow."""
        return sorted({one.node for one in self._samples() if one.running and one.seconds >= self.options.lower_bound})

    def verdict(self, node: str) -> Verdict | None:
        """None when the node may be as good as the others."""
        finished = sum(ranking.finished_without(node) for ranking in self.rankings.values())
        if not finished:
            return None
        typical = {cold: ranking.median_without(node) for cold, ranking in self.rankings.items()}
        here = [one for ranking in self.rankings.values() for one in ranking.of_node(node)]
        distances = [(one, far) for one in here if (far := self._far(one, typical)) is not None]
        every = [(one, far) for one, far in distances if not one.running or far > 0]
        running = [(one, far) for one, far in every if one.running and one.seconds >= self.options.lower_bound]
        if not running:
            return None
        attempts = sum(len(ranking.samples) for ranking in self.rankings.values())
        nodes = len({node for ranking in self.rankings.values() for node in ranking.places})
        for some, comparisons in ((every, nodes), (running, attempts)):
            mean = fmean(far for _, far in some)
            if mean <= math.log(self.options.tolerated_factor):
                continue  # within any margin: most nodes end here, before all the others are looked at
            margin = self._margin(self._spread(node, typical), len(some), finished, comparisons)
            if mean > margin:
                rate, elsewhere = self.options.false_alarm_rate, attempts - len(here)
                return Verdict(math.exp(mean), math.exp(margin), len(some), elsewhere, self.by_bytes, rate)
        return None

    def least_seconds(self) -> float:
        """What an attempt with a typical input must take to be beyond what is tolerated, where all have finished.

        0 where a node's attempts are so by themselves. What runs elsewhere can only raise the median there.
        """
        most, least = math.log(self.options.tolerated_factor), math.inf
        for node in {node for ranking in self.rankings.values() for node in ranking.places} | {""}:
            typical = {cold: ranking.median_without(node) for cold, ranking in self.rankings.items()}
            here = [one for ranking in self.rankings.values() for one in ranking.of_node(node)]
            far = [far for one in here if (far := self._far(one, typical)) is not None]
            if far and fmean(far) > most:
                return 0.0
            least = min([least, *(math.exp(most + middle) for middle in typical.values() if middle is not None)])
        return least

    def _samples(self) -> Iterator[Sample]:
        return chain.from_iterable(ranking.samples for ranking in self.rankings.values())

    def _far(self, one: Sample, typical: dict[bool, float | None]) -> float | None:
        """How far an attempt is from what is typical elsewhere; None when that cannot be said."""
        like, other = typical[one.cold], typical[not one.cold]
        if like is not None:
            return one.distance - like
        if other is None:
            return None
        if not one.cold:
            return one.distance - other  # the others' first attempts: slower than warm ones, so this is cautious
        left = one.seconds - self.options.cold_start
        return math.log(left / one.work) - other if left > 0 else None

    def _spread(self, node: str, typical: dict[bool, float | None]) -> float:
        """Of distances elsewhere: what is usual, corrected by what is seen. The median, so one sick node more
        does not hide this one."""
        usual, weight = self._usual()
        finished = (one for one in self._samples() if one.node != node and not one.running)
        far = [abs(one.distance - middle) for one in finished if (middle := typical[one.cold]) is not None]
        seen = 1.4826 * median(far) if len(far) > 2 else usual
        return math.sqrt((weight * usual**2 + len(far) * seen**2) / (weight + len(far)))

    def _usual(self) -> tuple[float, int]:
        """The spread of distances that is expected before any was seen, and how much that counts."""
        return (_SPREAD_BY_BYTES, _WEIGHT_BY_BYTES) if self.by_bytes else (_SPREAD_BY_TIME, _WEIGHT_BY_TIME)

    def _margin(self, spread: float, here: int, elsewhere: int, comparisons: int) -> float:
        tail = self.options.false_alarm_rate / 2 / comparisons
        error = spread * math.sqrt(1 / here + 1 / elsewhere)
        return math.log(self.options.tolerated_factor) + student(tail, self._usual()[1] + elsewhere) * error


def student(tail: float, freedom: float) -> float:
    """The value that Student's t with `freedom` degrees exceeds with probability `tail` (Cornish and Fisher)."""
    z = -NormalDist().inv_cdf(tail)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _is_timed(execution: Execution, now: float) -> bool:
    counts = execution.state.is_running or execution.finished_at is not None
    return counts and execution.node not in (None, *NO_NODE) and execution.execution_time(now) > 0


def _sample(execution: Execution, work: float, warm_from: dict[str, float], now: float) -> Sample:
    node, seconds = execution.node or "", execution.execution_time(now)
    cold = (execution.deployed_at or 0.0) < warm_from.get(node, math.inf)
    return Sample(node, seconds, work, math.log(seconds / work), execution.state.is_running, cold)


def _work(input_bytes: int | None, typical: float, least_share: float) -> float:
    """In units of a typical attempt's input. What reads next to nothing has something to do all the same."""
    if input_bytes is None or typical <= 0:
        return 1.0
    return max(input_bytes / typical, least_share)


def _warm_from(tasks: Iterable[ExecutionVertex]) -> dict[str, float]:
    """When the first attempt on each node finished: what started there before started cold."""
    first: dict[str, float] = {}
    for task in tasks:
        for one in task.executions:
            if one.finished_at is not None and one.node is not None:
                first[one.node] = min(one.finished_at, first.get(one.node, math.inf))
    return first
