"""Marks on nodes and in pods: one key of ours, and nothing else touched."""

from __future__ import annotations

import pytest

from rekindle.controller.affinity import requiring
from rekindle.controller.blocks.marks import AVOIDS_BLOCKED, BLOCKED, mark_patch, unmark_patch
from rekindle.controller.blocks.settings import TaintEffect
from rekindle.controller.status import merge_patch
from tests.unit.controller.blocks.objects import node

OTHERS = [{"key": "pool", "value": "gpu", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/unschedulable"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def patched(body, patch):
    """As the API server merges it."""
    assert patch is not None
    result = {**body, "metadata": {**body["metadata"]}, "spec": {**body["spec"], **patch["spec"]}}
    labels = {**body["metadata"].get("labels", {}), **patch["metadata"].get("labels", {})}
    result["metadata"]["labels"] = {name: value for name, value in labels.items() if value is not None}
    result["spec"] = {name: value for name, value in result["spec"].items() if value is not None}
    return result


@pytest.mark.requirement("S3-9", "S3-13")
@pytest.mark.parametrize("others", [[], OTHERS])
@pytest.mark.parametrize("effect", list(TaintEffect))
def test_marking_and_unmarking_leave_all_else_as_it_was(others, effect):
    before = node("n1", taints=others, labels={"zone": "a"})
    patch = mark_patch(before, effect)
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7", "only on the version that was looked at"
    marked = patched(before, patch)
    ours = [taint for taint in marked["spec"].get("taints", []) if taint["key"] == BLOCKED]
    assert [taint["effect"] for taint in ours] == ([] if effect is TaintEffect.NONE else [effect.value])
    assert marked["metadata"]["labels"] == {"zone": "a", BLOCKED: "true"}
    assert mark_patch(marked, effect) is None, "a renewal touches no node"
    assert patched(marked, unmark_patch(marked)) == before
    assert unmark_patch(before) is None


def test_a_taint_of_another_effect_is_replaced():
    marked = patched(node("n1"), mark_patch(node("n1"), TaintEffect.NO_SCHEDULE))
    again = patched(marked, mark_patch(marked, TaintEffect.PREFER_NO_SCHEDULE))
    assert [taint["effect"] for taint in again["spec"]["taints"]] == ["PreferNoSchedule"]


def test_an_affinity_of_the_users_keeps_all_it_says_and_each_alternative_avoids_blocked_nodes():
    theirs = {
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                    {},
                ]
            },
        },
    }
    found = requiring(theirs, AVOIDS_BLOCKED)
    terms = found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchExpressions"][-1] for term in terms[:2]] == [AVOIDS_BLOCKED, AVOIDS_BLOCKED]
    assert terms[2] == {}, "which matches no node"
    assert terms[0]["matchExpressions"][0]["key"] == "zone"
    assert terms[1]["matchFields"][0]["values"] == ["n1"]
    added = merge_patch(theirs, found)
    assert list(added) == ["nodeAffinity"]
    assert list(added["nodeAffinity"]) == [REQUIRED]


def test_without_an_affinity_there_is_one_alternative():
    terms = requiring(None, AVOIDS_BLOCKED)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [AVOIDS_BLOCKED]}]
