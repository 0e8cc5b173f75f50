"""The exchanges with all job masters there are: one each time that blocks or executors change, and every few seconds.

Which application is a pipeline nobody knows but its driver: each that has `speculation.enabled`, or a store that
outlives its driver, is asked, and where nobody answers it is asked again, rarely. While a job master answers and keeps
tasks off blocked nodes itself, its executors are not drained, and its word is the evidence.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rekindle.api.application_status import ApplicationState
from rekindle.api.operator_exchange import MOST_CAUSE, ExchangeAnswer, ExchangeRequest, WireBlock, Wish, fitting
from rekindle.controller.blocks.keeper import BlockKeeper
from rekindle.controller.blocks.plan import ActiveBlock
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.exchange.client import ExchangeClient, NotKnown, NotServed, Unusable
from rekindle.controller.exchange.tokens import ExchangeTokens
from rekindle.controller.logs import looked_at
from rekindle.controller.metrics import Metrics
from rekindle.controller.reading import read_status, state_of
from rekindle.controller.recovery.known_jobs import KnownJobs
from rekindle.controller.resources import Key, key_of, uid_of
from rekindle.controller.speculation.acting import Acting
from rekindle.controller.speculation.followed import Followed, RunningDrivers, say
from rekindle.controller.speculation.plan import AskForBlock
from rekindle.controller.speculation.spark_wire import one_line
from rekindle.controller.store import ApplicationStore
from rekindle.controller.work_queue import WorkQueue, nth_pause

log = logging.getLogger(__name__)

_ROUND_SECONDS = 5.0
_UNANSWERED_PAUSES = (*(5.0,) * 12, 15.0, 30.0, 60.0)
"""A driver takes a while to come to its pipeline."""

_AT_ONCE = 50
"""More than looks of other kinds: where a network drops what is sent to the port, each takes seconds."""

_GONE_AFTER = 3
_CHANGE_PAUSE = 0.5
"""Seconds in which the changes of an application's pods become one exchange."""

_LEAST_SECONDS = 5.0
"""A node is not blocked for less: making and lifting the block would cost more than it brings."""

_CAUSE_BYTES = 300
_ABOUT = "exchange"


@dataclass
class _Talk:
    """With one driver. `unanswered`: how often in a row it gave no answer."""

    pod_uid: str
    has_answered: bool = False
    unanswered: int = 0
    excludes: bool = False
    is_refused: bool = False
    turn: int = 0
    told: ExchangeRequest | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is not known yet if a job master answers."""
        return not self.has_answered and not self.is_refused and self.unanswered < _GONE_AFTER

    @property
    def goes_on(self) -> bool:
        """Whether a job master answers."""
        return self.has_answered and self.unanswered < _GONE_AFTER


class Exchanges:
    """`drivers` knows whose driver is to be asked; `jobs` hears of what is told of jobs.

    Without `keeper` and `acting` the operator blocks no nodes, and job masters are asked for their jobs only.
    """

    def __init__(
        self,
        store: ApplicationStore,
        tokens: ExchangeTokens,
        drivers: RunningDrivers,
        events: EventRecorder,
        metrics: Metrics,
        jobs: KnownJobs,
        keeper: BlockKeeper | None = None,
        acting: Acting | None = None,
    ) -> None:
        self._store, self._tokens, self._keeper, self._acting = store, tokens, keeper, acting
        self._events, self._metrics, self._jobs, self._drivers = events, metrics, jobs, drivers
        self._queue: WorkQueue[Key] = WorkQueue(self._look, _AT_ONCE)
        self._talks: dict[Key, _Talk] = {}
        self._client: ExchangeClient | None = None
        if keeper is not None:
            keeper.listen(self._blocks_changed)

    def look(self, key: Key) -> None:
        """Its pods or its state have changed."""
        body, talk = self._store.get(key), self._talks.get(key)
        is_over = body is None or state_of(body) != ApplicationState.RUNNING.value
        if is_over or talk is None or talk.goes_on:
            self._queue.add_after(key, _CHANGE_PAUSE)

    def copies_itself(self, key: Key) -> bool:
        """Whether a job master answers that copies slow tasks, and keeps tasks off blocked nodes, itself; or may: its
        driver is asked in a moment, and what is drained is gone."""
        talk = self._talks.get(key)
        if talk is None or talk.is_open:
            return self._tokens.are_known
        return talk.goes_on and talk.excludes

    async def run(self) -> None:
        """Until cancelled."""
        self._client = ExchangeClient()
        try:
            for body in self._store:
                self.look(key_of(body))
            await self._queue.run()
        finally:
            await self._client.close()

    def _blocks_changed(self, active: Mapping[str, ActiveBlock]) -> None:
        for key, talk in self._talks.items():
            if talk.goes_on:
                self._queue.add(key)

    async def _look(self, key: Key) -> float | None:
        """One exchange."""
        followed = self._drivers.attend(key)
        token = self._token(followed) if followed is not None else None
        if followed is None or token is None or self._client is None:
            self._talks.pop(key, None)
            self._forget_job(key)
            return None
        looked_at.set((str(key), uid_of(followed.body)))
        talk = self._talk(key, uid_of(followed.driver))
        if not followed.host or not self._blocks_are_known:
            return _CHANGE_PAUSE
        request = self._request(talk, followed.nodes)
        try:
            answer = await self._client.tell(followed.host, token, request)
        except (NotServed, Unusable) as problem:
            return self._not_answered(followed, talk, problem)
        self._answered(followed, talk, answer)
        self._jobs.hear(key, uid_of(followed.driver), answer.job)
        await self._take_wishes(followed, talk, answer, frozenset(followed.nodes.values()))
        return _ROUND_SECONDS

    def _forget_job(self, key: Key) -> None:
        """Once no driver can follow: until then it says what the loss of the last one costs."""
        body = self._store.get(key)
        if body is None or read_status(body).application_state.state.is_terminal:
            self._jobs.forget(key)

    def _token(self, followed: Followed) -> str | None:
        return self._tokens.token(uid_of(followed.body), str(followed.driver["metadata"]["name"]))

    def _talk(self, key: Key, pod_uid: str) -> _Talk:
        talk = self._talks.get(key)
        if talk is None or talk.pod_uid != pod_uid:
            talk = self._talks[key] = _Talk(pod_uid)
        return talk

    @property
    def _blocks_are_known(self) -> bool:
        """Else a job master would take its blocks for ended."""
        return self._keeper is None or self._keeper.is_known

    @property
    def _active(self) -> Mapping[str, ActiveBlock]:
        """[node -> its block]"""
        return self._keeper.active if self._keeper is not None else {}

    def _request(self, talk: _Talk, nodes: dict[str, str]) -> ExchangeRequest:
        """Under the number of the last one where nothing has changed since, and under a later one otherwise."""
        blocks = [
            WireBlock(node=block.node, end=block.end, cause=block.cause[:MOST_CAUSE]) for block in self._active.values()
        ]
        last = talk.told
        request = fitting(blocks, nodes, last.number if last is not None else 0)
        if request != last:
            request = talk.told = request.model_copy(update={"number": time.time_ns()})
        return request

    def _answered(self, followed: Followed, talk: _Talk, answer: ExchangeAnswer) -> None:
        self._metrics.exchanges.labels("answered").inc()
        if not talk.goes_on:
            log.info("its job master answers, and keeps tasks off blocked nodes: %s", answer.excludes)
        talk.has_answered, talk.unanswered, talk.excludes = True, 0, answer.excludes
        followed.memory.told.pop(_ABOUT, None)

    def _not_answered(self, followed: Followed, talk: _Talk, problem: Exception) -> float:
        """What is not there is nothing to be told of."""
        self._metrics.exchanges.labels("not_served" if isinstance(problem, NotServed) else "unusable").inc()
        went_on, talk.unanswered = talk.goes_on, talk.unanswered + 1
        if went_on and not talk.goes_on:
            log.info("its job master answers no more: %s", problem)
        talk.is_refused = isinstance(problem, NotServed) and problem.is_refused
        if isinstance(problem, NotKnown) or (isinstance(problem, Unusable) and talk.has_answered):
            message = f"what its job master answers the operator cannot be used: {problem}"
            say(self._events, followed, _ABOUT, Said("Warning", "JobMasterUnanswered", message))
        log.debug("%s", problem)
        return nth_pause(_UNANSWERED_PAUSES, talk.unanswered)

    async def _take_wishes(
        self, followed: Followed, talk: _Talk, answer: ExchangeAnswer, nodes: frozenset[str]
    ) -> None:
        """As the operator's own evidence is taken, of nodes where the application has executors.

        Of those that are not blocked one at an exchange, by turns: how many may be counts what is stored, which is
        known a moment later. None, where the job master has not taken up yet which are: its block may have been lifted.
        """
        speculation = followed.settings.speculation
        if not speculation.enabled or speculation.block_slow_node_duration <= 0:
            return
        wishes, is_current = answer.wishes, talk.told is not None and answer.number == talk.told.number
        for wish in wishes:
            if wish.node not in nodes:
                message = f"{wish.node} is not blocked: no executor of the application is there"
                say(self._events, followed, "wish", Said("Warning", "NodeBlockRefused", message), once="no executor")
        here = [wish for wish in wishes if wish.node in nodes]
        if self._acting is None:
            self._refuse(followed, here)
            return
        renewed = [wish for wish in here if wish.node in self._active]
        new = [wish for wish in here if wish.node not in self._active and wish.seconds >= _LEAST_SECONDS]
        talk.turn += 1
        for wish in renewed + ([new[talk.turn % len(new)]] if new and is_current else []):
            await self._acting.take(followed, AskForBlock(wish.node, one_line(wish.cause, _CAUSE_BYTES), wish.seconds))

    def _refuse(self, followed: Followed, wishes: Sequence[Wish]) -> None:
        """The job master keeps its own tasks off, and nobody else's."""
        for wish in wishes:
            message = f"{wish.node} is not blocked: this operator blocks none (nodeBlocks.enabled, watchNodes)"
            say(self._events, followed, "blocks", Said("Warning", "NodeBlockRefused", message), once="no blocks")
