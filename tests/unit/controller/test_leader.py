"""Two candidates and one Lease: never two leaders, whichever answer is late, lost or refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rekindle.controller.leader import LeaseElection
from rekindle.controller.resources import LEASE
from tests.unit.controller.api_server import ApiServer, What, served, until

pytestmark = pytest.mark.thorough

SECONDS = 0.3
STEADY = 1.6  # where nobody is to lose the Lease because this machine is busy
LEASES = "/leases(/l)?$"


def candidate(server: ApiServer, identity: str, seconds: float = SECONDS) -> LeaseElection:
    return LeaseElection(server.connect(), "system", "l", identity, seconds)


def spec(server: ApiServer):
    lease = server.get(LEASE, "system", "l")
    assert lease is not None
    return lease["spec"]


@asynccontextmanager
async def task(work) -> AsyncIterator[asyncio.Task]:
    running = asyncio.create_task(work)
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def asked(server: ApiServer, call: str, who: str = "") -> int:
    """How many such calls have come, of that candidate where they say whose they are."""
    return sum(1 for one in server.calls if one.kind == call and (f'"holderIdentity": "{who}"' in one.text or not who))


def test_of_two_candidates_one_leads_and_the_other_waits():
    async def case(server: ApiServer):
        a, b = candidate(server, "a", STEADY), candidate(server, "b", STEADY)
        await a.acquire()
        assert (spec(server)["holderIdentity"], spec(server)["leaseTransitions"]) == ("a", 1)
        async with task(a.keep()) as kept, task(b.acquire()) as waiting:
            await until(lambda: asked(server, "PUT", "a") >= 8)  # more than a duration
            assert (a.is_leader, b.is_leader) == (True, False)
            assert not kept.done()
            assert not waiting.done()
        assert spec(server)["leaseTransitions"] == 1

    served(case)


def test_of_two_that_begin_at_once_one_leads():
    async def case(server: ApiServer):
        a, b = candidate(server, "a", STEADY), candidate(server, "b", STEADY)
        both = server.fault("GET", LEASES, What.LATE, times=2)
        async with task(a.acquire()) as first, task(b.acquire()) as second:
            await until(lambda: both.hits == 2)
            both.release.set()
            await until(lambda: asked(server, "POST") == 2)
            await until(lambda: first.done() or second.done())
            await until(lambda: asked(server, "GET") >= 4)
            assert sorted([a.is_leader, b.is_leader]) == [False, True]

    served(case)


def test_of_two_that_find_a_free_lease_at_once_one_leads():
    async def case(server: ApiServer):
        server.make(LEASE, "system", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "", "leaseTransitions": 7}})
        a, b = candidate(server, "a", STEADY), candidate(server, "b", STEADY)
        both = server.fault("GET", LEASES, What.LATE, times=2)
        async with task(a.acquire()) as first, task(b.acquire()) as second:
            await until(lambda: both.hits == 2)
            both.release.set()
            await until(lambda: asked(server, "PUT") == 2)
            await until(lambda: first.done() or second.done())
            await until(lambda: asked(server, "GET") >= 4)
            assert sorted([a.is_leader, b.is_leader]) == [False, True]
            assert spec(server)["leaseTransitions"] == 8

    served(case)


@pytest.mark.parametrize("what", [500, 409, What.DROPPED, What.LATE])
def test_a_holder_that_cannot_renew_stops_before_another_begins(what):
    """409: a renewal that is always beaten; LATE: renewals that count, but nobody says so."""

    async def case(server: ApiServer):
        a, b = candidate(server, "a"), candidate(server, "b")
        order: list[str] = []

        async def keep():
            await a.keep()
            assert not a.is_leader
            order.append("a stops")

        async def acquire():
            await b.acquire()
            assert not a.is_leader
            order.append("b begins")

        await a.acquire()
        server.fault("PUT", LEASES, what, body='"a"', skip=1, times=1000)
        async with task(keep()) as kept, task(acquire()) as acquired:
            await asyncio.gather(kept, acquired)
        assert order == ["a stops", "b begins"]
        assert spec(server)["holderIdentity"] == "b"

    served(case)


def test_a_holder_that_cannot_even_read_stops_before_another_begins():
    async def case(server: ApiServer):
        a, b = candidate(server, "a"), candidate(server, "b")
        await a.acquire()
        async with task(a.keep()) as kept:
            await until(lambda: asked(server, "PUT", "a") >= 2)
            silent = server.fault("GET", LEASES, What.LATE, times=1)
            await until(lambda: silent.hits)
            async with task(b.acquire()) as acquired:
                await asyncio.wait((kept, acquired), return_when=asyncio.FIRST_COMPLETED)
                assert (kept.done(), a.is_leader, b.is_leader) == (True, False, False)
                await acquired

    served(case)


def test_an_answer_that_comes_when_another_leads_makes_no_leader():
    async def case(server: ApiServer):
        a, b = candidate(server, "a"), candidate(server, "b", STEADY)
        late = server.fault("POST", LEASES, What.LATE, body='"a"')
        async with task(a.acquire()) as first:
            await until(lambda: late.hits)
            await b.acquire()
            async with task(b.keep()):
                reads = asked(server, "GET")
                late.release.set()
                await until(lambda: first.done() or asked(server, "GET") >= reads + 8)
                assert (a.is_leader, b.is_leader) == (False, True)
                assert not first.done()

    served(case)


@pytest.mark.parametrize("what", [What.LOST, 500, 429])
def test_one_renewal_without_a_good_answer_does_not_end_the_term(what):
    """LOST: the renewal counts, the answer is lost, and the client library sends the PUT again."""

    async def case(server: ApiServer):
        a = candidate(server, "a", STEADY)
        await a.acquire()
        fault = server.fault("PUT", LEASES, what, body='"a"')
        async with task(a.keep()) as kept:
            await until(lambda: kept.done() or (fault.hits and asked(server, "PUT", "a") >= 4))
            assert fault.hits
            assert not kept.done()
            assert a.is_leader

    served(case)


def test_a_first_hold_whose_answer_is_lost_is_found_to_be_ours():
    async def case(server: ApiServer):
        a = candidate(server, "a")
        server.fault("POST", LEASES, What.LOST)
        await a.acquire()
        assert spec(server)["holderIdentity"] == "a"
        assert spec(server)["leaseTransitions"] == 1

    served(case)


def test_a_lease_that_a_person_gives_to_another_is_left_to_it():
    async def case(server: ApiServer):
        a = candidate(server, "a")
        await a.acquire()
        async with task(a.keep()) as kept:
            server.change(LEASE, "system", "l", {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
            await kept
        assert not a.is_leader
        await a.release()
        assert spec(server)["holderIdentity"] == "thief"

    served(case)


def test_a_thief_between_reading_and_writing_is_noticed():
    async def case(server: ApiServer):
        a = candidate(server, "a")
        await a.acquire()
        between = server.fault("GET", LEASES, What.LATE)
        async with task(a.keep()) as kept:
            await until(lambda: between.hits)
            server.change(LEASE, "system", "l", {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}})
            between.release.set()
            await kept
        assert not a.is_leader
        assert spec(server)["holderIdentity"] == "thief"

    served(case)


def test_a_lease_that_is_given_back_is_taken_at_once():
    """By another whose own clock would have it wait for an hour."""

    async def case(server: ApiServer):
        a, b = candidate(server, "a", 3600.0), candidate(server, "b")
        await a.acquire()
        async with task(b.acquire()) as waiting:
            await until(lambda: asked(server, "GET") >= 3)
            assert not waiting.done()
            await a.release()
            assert not a.is_leader
            assert '"holderIdentity": ""' in next(call.text for call in server.calls if call.kind == "PUT")
            await waiting
        assert b.is_leader
        await a.release()
        assert spec(server)["holderIdentity"] == "b"

    served(case)


def test_a_lease_that_another_has_by_now_is_not_given_back():
    async def case(server: ApiServer):
        a = candidate(server, "a")
        await a.acquire()
        server.change(LEASE, "system", "l", {"spec": {"holderIdentity": "b"}})
        await a.release()
        assert spec(server)["holderIdentity"] == "b"

    served(case)


def test_giving_back_waits_for_no_server_for_ever():
    async def case(server: ApiServer):
        a = candidate(server, "a")
        await a.acquire()
        server.fault("GET", LEASES, What.LATE)
        await a.release()
        assert not a.is_leader
        assert spec(server)["holderIdentity"] == "a"

    served(case)


def test_a_candidate_outlives_a_server_that_answers_with_errors():
    async def case(server: ApiServer):
        a = candidate(server, "a", 0.1)
        for status in (500, 403, 429):
            server.fault("GET", LEASES, status)
        server.fault("POST", LEASES, 403)
        await a.acquire()
        assert spec(server)["holderIdentity"] == "a"

    served(case)


def test_a_holder_that_is_gone_is_followed_after_the_duration_that_it_wrote():
    """Not after the follower's own, and by renewals that were seen, not by the clock of who wrote them."""

    async def case(server: ApiServer):
        long_ago = "2001-01-01T00:00:00.000000Z"
        theirs = {"holderIdentity": "gone", "leaseDurationSeconds": 1, "renewTime": long_ago}
        server.make(LEASE, "system", {"metadata": {"name": "l"}, "spec": theirs})
        b = candidate(server, "b", 0.1)
        async with task(b.acquire()) as waiting:
            await until(lambda: asked(server, "GET") >= 8)
            assert not waiting.done()
            server.change(LEASE, "system", "l", {"spec": {"renewTime": "2001-01-01T00:00:01.000000Z"}})
            before = asked(server, "GET")
            await waiting
            assert asked(server, "GET") - before >= 8

    served(case)
