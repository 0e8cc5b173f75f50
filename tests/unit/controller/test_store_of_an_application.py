"""`spec.recovery.storage`: the claims that are made, who mounts them, and what the driver is told."""

from typing import Any

import pytest
import yaml

from rekindle.controller.reading import read_spec
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.objects import attempt_objects
from tests.unit.controller.test_submission import OWNER
from tests.unit.controller.world import UID, manifest

STORE, CHANGED = "spark.rekindle.recovery.store", "spark.rekindle.recovery.changedStages"
TAKEOVER = "spark.rekindle.driver.takeover"
TEMPLATE = {"storageClassName": "nfs", "resources": {"requests": {"storage": "10Gi"}}}


def objects(attempt: int = 1, word: str = "", **recovery: Any) -> list[Any]:
    read = read_spec(manifest(recovery=recovery))
    assert read.application is not None, read.problems
    return attempt_objects(read.application, AttemptNames("pi", UID, attempt, word), "team", OWNER)


def claims(made: list[Any]) -> list[dict[str, Any]]:
    return [one.body for one in made if one.resource.kind == "PersistentVolumeClaim"]


def pods(made: list[Any]) -> list[dict[str, Any]]:
    """The driver's, and the template of executors'."""
    bodies = {one.resource.kind: one.body for one in made}
    return [bodies["Pod"], yaml.safe_load(bodies["ConfigMap"]["data"]["executor-pod-template.yaml"])]


def mounted(pod: dict[str, Any]) -> dict[str, str]:
    """[path -> claim]"""
    of_volume = {
        one["name"]: one["persistentVolumeClaim"]["claimName"]
        for one in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in one
    }
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    return {one["mountPath"]: of_volume[one["name"]] for one in mounts if one["name"] in of_volume}


def told(made: list[Any]) -> dict[str, str]:
    """What the driver is told of the store and of who was before it."""
    text = next(one.body for one in made if one.resource.kind == "ConfigMap")["data"]["spark.properties"]
    lines = dict(line.split("=", 1) for line in text.splitlines())
    return {key: lines[key] for key in (STORE, TAKEOVER, CHANGED) if key in lines}


@pytest.mark.requirement("S7-13", "S7-21", "S7-32")
def test_a_claim_is_made_for_the_application_and_mounted_by_all_its_pods():
    made = objects(storage={"claimTemplate": TEMPLATE})
    (claim,) = claims(made)
    assert claim["spec"] == {"accessModes": ["ReadWriteMany"], **TEMPLATE}
    assert claim["metadata"]["ownerReferences"] == [OWNER]
    assert "spark-app-selector" not in claim["metadata"]["labels"]
    assert "rekindle.dev/attempt" not in claim["metadata"]["labels"]
    for pod in pods(made):
        assert mounted(pod) == {"/rekindle/store": claim["metadata"]["name"]}
    assert told(made) == {STORE: "/rekindle/store", CHANGED: "rerun"}


def test_it_is_there_before_who_mounts_it_and_the_next_attempt_finds_it():
    kinds = [one.resource.kind for one in objects(storage={"claimTemplate": TEMPLATE})]
    assert kinds.index("PersistentVolumeClaim") < kinds.index("Pod")
    first, second = (claims(objects(n, f"word{n}", storage={"claimTemplate": TEMPLATE})) for n in (1, 2))
    assert first == second


def test_results_may_be_spread_over_several_claims_beside_that_of_the_journal():
    made = objects(storage={"claimTemplate": TEMPLATE}, volumes=2)
    names = [claim["metadata"]["name"] for claim in claims(made)]
    assert len(set(names)) == 3
    paths = ["/rekindle/store", "/rekindle/store/volume-0", "/rekindle/store/volume-1"]
    for pod in pods(made):
        assert mounted(pod) == dict(zip(paths, names, strict=True))


def test_a_claim_that_is_there_already_is_not_made_and_results_lie_below_the_applications_name():
    made = objects(storage={"claimName": "team-results"})
    assert claims(made) == []
    for pod in pods(made):
        assert mounted(pod) == {"/rekindle/store": "team-results"}
    assert told(made) == {STORE: "/rekindle/store/pi", CHANGED: "rerun"}


@pytest.mark.parametrize(
    ("attempt", "recovery", "takes_over"),
    [
        (1, {"storage": {"claimTemplate": TEMPLATE}}, False),
        (2, {"storage": {"claimTemplate": TEMPLATE}}, True),
        (2, {"storage": {"claimTemplate": TEMPLATE}, "fencing": "Assume"}, False),
        (2, {"storage": {"claimName": "team-results"}}, False),
        (2, {"store": "s3://team/pi"}, False),
    ],
    ids=["the first", "the next", "one that may not be alone", "a claim of others", "a bucket"],
)
def test_a_driver_whose_last_one_is_proven_gone_need_not_wait_for_its_lease(attempt, recovery, takes_over):
    assert (TAKEOVER in told(objects(attempt, **recovery))) is takes_over


def test_storage_wins_over_the_store_of_one_machine():
    made = objects(store="./store", storage={"claimTemplate": TEMPLATE})
    assert told(made) == {STORE: "/rekindle/store", CHANGED: "rerun"}


def test_what_is_said_of_changed_stages_stands():
    made = objects(storage={"claimName": "team-results"}, changedStages="refuse")
    assert told(made)[CHANGED] == "refuse"


def test_without_storage_nothing_is_made_or_mounted():
    made = objects(store="s3://team/pi")
    assert claims(made) == []
    assert [mounted(pod) for pod in pods(made) if pod["spec"]["containers"][0].get("volumeMounts")] == [{}]
    assert told(made) == {"spark.rekindle.recovery.store": "s3://team/pi"}


@pytest.mark.parametrize(
    ("recovery", "conf", "said"),
    [
        ({"storage": {}}, {}, "spec.recovery.storage: write either claimName or claimTemplate"),
        (
            {"storage": {"claimName": "a", "claimTemplate": TEMPLATE}},
            {},
            "spec.recovery.storage: write either claimName or claimTemplate",
        ),
        (
            {"storage": {"claimName": "a", "whenCompleted": "Delete"}},
            {},
            "spec.recovery.storage: whenCompleted: Delete is for claimTemplate; a claim that was brought stays",
        ),
        (
            {"storage": {"claimTemplate": TEMPLATE, "whenCompleted": "Drop"}},
            {},
            "spec.recovery.storage.whenCompleted: expected one of 'Retain' or 'Delete'",
        ),
        (
            {"storage": {"claimTemplate": {"resources": {"requests": {"storage": "much"}}}}},
            {},
            "spec.recovery.storage.claimTemplate.resources.requests.storage: 'much' is not a quantity of Kubernetes",
        ),
        (
            {"storage": {"claimTemplate": {**TEMPLATE, "accessModes": ["ReadOnlyMany"]}}},
            {},
            "spec.recovery.storage.claimTemplate.accessModes[0]: expected one of 'ReadWriteMany'",
        ),
        (
            {"storage": {"claimTemplate": {**TEMPLATE, "accessModes": []}}},
            {},
            "spec.recovery.storage.claimTemplate.accessModes: ",
        ),
        ({"storage": {"claimTemplate": TEMPLATE}, "volumes": 101}, {}, "spec.recovery.volumes: "),
        ({"storage": {"claimTemplate": {}}}, {}, "spec.recovery.storage.claimTemplate.resources: required"),
        (
            {"storage": {"claimName": "a"}},
            {"spark.rekindle.recovery.store": "/else"},
            "spec.sparkConf.spark.rekindle.recovery.store: it shapes pods, or decides about them; spec.recovery.stor",
        ),
        (
            {"storage": {"claimName": "a"}},
            {"spark.rekindle.recovery.volumes": "3"},
            "spec.sparkConf.spark.rekindle.recovery.volumes: it shapes pods, or decides about them; write "
            "spec.recovery.volumes",
        ),
        (
            {},
            {"spark.rekindle.recovery.fencing": "Assume"},
            "spec.sparkConf.spark.rekindle.recovery.fencing: it shapes pods, or decides about them; write "
            "spec.recovery.fencing",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(recovery, conf, said):
    read = read_spec(manifest(recovery=recovery, sparkConf=conf))
    assert read.application is None
    assert any(problem.startswith(said) for problem in read.problems), read.problems
