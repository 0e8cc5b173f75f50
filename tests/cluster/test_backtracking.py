"""Regions and result partitions under a living driver: who runs again when executors go, and what they were to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from rekindle.local.stored import lose_partition
from rekindle.runtime.layout import parse_manifest_name
from tests.cluster import api
from tests.cluster.api import Application, Object, until
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.cluster.marks import beside
from tests.cluster.test_lost_driver import stored

pytestmark = [pytest.mark.timeout(600), beside]

SECONDS = 30


def versions(subject: Subject) -> dict[str, list[str]]:
    """The partitions of each stage that were made again, `0#2` for the second version of partition 0."""
    store, layout = subject.store(), subject.layout()
    assert store is not None
    assert layout is not None
    made = {name: map(parse_manifest_name, store.names(layout.manifests(name))) for name in store.names(layout.stages)}
    return {
        name: [f"{partition}#{version}" for partition, version in sorted(filter(None, some)) if version > 1]
        for name, some in made.items()
    }


def run(application: Callable[..., Application], claim_template: Object, kind: str) -> tuple[Subject, Object]:
    """A -> B -> {C, D}: while C runs, and D has finished, the executors are lost and so is B[0]. The report."""
    app = application(
        f"diamond-{kind}",
        "diamond.py",
        kind,
        str(SECONDS),
        executor={"instances": 2, "cores": 2},
        recovery={"storage": {"claimTemplate": claim_template}, "volumes": VOLUMES},
    ).apply()
    subject = Subject(app)
    until("B is stored", lambda: stored(app, "b") == 2, 240, tell=app.tell)
    store, executors = subject.store(), [pod["metadata"]["name"] for pod in app.executors()]
    assert store is not None
    until("D is stored", lambda: stored(app, "d") == 2, tell=app.tell)
    assert stored(app, "c") == 0, "C has not taken its time"
    assert lose_partition(store, "b", 0)
    api.kill(app.namespace, *executors)
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert report["drivers"] == 1
    return subject, report


@pytest.mark.requirement("S2-30", "S7-2", "S7-4", "S7-5", "S7-7", "S7-14")
def test_a_partition_that_cannot_be_read_is_made_again_with_what_was_to_read_it(application, claim_template):
    """B[0] is made again from A[0]. C[0], which was to read it, runs again; so would the finished D[0], but B[0] comes
    out with the digest that it had. A, and the other half of all, do not. (The jobs of E-1 and E-2.)
    """
    subject, report = run(application, claim_template, "kept")
    assert {name: some for name, some in versions(subject).items() if some} == {"b": ["0#2"], "c": ["0#2"]}
    assert [one["restarted"] for one in report["recoveries"]] == [{"b": 1, "c": 1}]


@pytest.mark.requirement("S7-5", "S7-6", "S7-7")
def test_what_comes_out_differently_is_made_again_by_all_who_read_it(application, claim_template):
    """Rows of B are at places by chance: one that was in B[1] may be in B[0] the second time. So all of B and of the
    finished D is made again, C, of which nothing is stored, reads that, and no row is lost or there twice: the sums say
    so. (The job of E-4, and a case of E-2.)
    """
    subject, report = run(application, claim_template, "random")
    again = {name: {one.partition("#")[0] for one in some} for name, some in versions(subject).items()}
    assert (again.get("a", set()), again["b"], again["d"]) == (set(), {"0", "1"}, {"0", "1"})
    restarted = Counter[str]()
    for one in report["recoveries"]:
        restarted.update(one["restarted"])
    assert restarted["a"] == 0
    assert restarted["b"] >= 2
    assert restarted["d"] >= 2
    assert restarted["c"] >= 1
