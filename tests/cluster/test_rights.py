"""Rights as small as they can be: what the chart grants, beside what the API server's audit log says was asked for.

The log is of everything since the cluster was made, so this file judges by what those before it have had done; alone,
on a new cluster, it finds rights that nothing has used yet.
"""

import json
from collections.abc import Iterable

import pytest

from tests.cluster.deployment import JOBS, NAMESPACE, RELEASE
from tests.kind import audit
from tests.kind.audit import Call
from tests.kind.kubectl import given_kubeconfig, kubectl

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(given_kubeconfig() is not None, reason="a given cluster's audit log is not ours to read"),
]

OPERATOR, DRIVER = f"{NAMESPACE}:{RELEASE}", f"{JOBS}:spark"

Right = tuple[str, str, str]
"""API group, resource, verb."""


def granted(kind: str, *place: str) -> set[Right]:
    rules = json.loads(kubectl("get", kind, *place, "-o", "json"))["rules"]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(calls: Iterable[Call]) -> set[Right]:
    return {(call.group, call.resource, call.verb) for call in calls}


def refused(calls: Iterable[Call]) -> set[Right]:
    """Admission answers the same where it does not like a pod: a missing service account, a full quota."""
    return used(call for call in calls if call.code == 403)


def test_the_operator_has_every_right_that_it_uses_and_no_other(installed):
    rights = granted("clusterrole", RELEASE) | granted("role", f"{RELEASE}-lease", "-n", NAMESPACE)
    calls = list(audit.calls(OPERATOR))
    assert refused(calls) - rights == set()  # in its first moment an account may not have its rights yet
    assert sorted(rights - used(calls)) == []


def test_a_driver_asks_for_nothing_that_it_may_not(installed):
    calls = list(audit.calls(DRIVER))
    assert calls
    assert used(calls) - granted("role", "spark", "-n", JOBS) == set()
