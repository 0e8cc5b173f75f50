"""Whatever a cluster, its users and crashes of the operator do in whatever order: never two drivers, never stuck."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rekindle.api.application_status import ApplicationState as State
from rekindle.controller.decision import Decision, DeleteDriver, Submit
from rekindle.controller.driver_facts import driver_facts
from rekindle.controller.lifecycle import decide
from tests.unit.controller.world import RUNNING, SUCCEEDED, World, failed, manifest, node

pytestmark = pytest.mark.thorough

POLICIES = [
    None,
    {"type": "Never"},
    {"type": "OnFailure", "onFailureRetries": 2},
    {"type": "Always", "onFailureRetryInterval": 1},
]


class CrashingWorld(World):
    """`look_and_crash` stops in the middle: the status may be written, and so many steps may be taken."""

    def look_and_crash(self, written: bool, steps: int) -> None:
        decision = decide(self.view())
        if written:
            self._do(Decision(decision.status, decision.steps[:steps]))
        else:  # only what comes before the status
            self._do(
                Decision(self.status, tuple(s for s in decision.steps if not isinstance(s, Submit | DeleteDriver)))
            )


class OneDriver(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(POLICIES), suspended=st.booleans())
    def begin(self, policy, suspended):
        spec = {"suspend": suspended, "timeouts": {"driverStart": 60}}
        self.world = CrashingWorld(body=manifest(**spec, **({"restartPolicy": policy} if policy else {})))

    @rule()
    def look(self):
        self.world.look()

    @rule(written=st.booleans(), steps=st.integers(0, 3))
    def look_and_crash(self, written, steps):
        self.world.look_and_crash(written, steps)

    @rule(seconds=st.sampled_from([1, 10, 61, 301]))
    def time_passes(self, seconds):
        self.world.now += seconds

    @rule(
        status=st.sampled_from([RUNNING, SUCCEEDED, failed(1), failed(137), {"phase": "Failed"}]), which=st.integers(0)
    )
    def a_kubelet_says(self, status, which):
        """Only of pods that have not ended: kubelets do not take an end back."""
        open_pods = [pod for pod in self.world.pods.values() if pod["status"]["phase"] in ("Pending", "Running")]
        if open_pods and self.world._answers():
            open_pods[which % len(open_pods)]["status"] = status

    @rule(which=st.integers(0), by_force=st.booleans())
    def a_person_deletes_a_pod(self, which, by_force):
        """By force only one that the operator has seen: it takes a node forty seconds to be called silent."""
        if self.world.pods:
            name = sorted(self.world.pods)[which % len(self.world.pods)]
            pod = self.world.pods[name]
            uid = pod["metadata"]["uid"]
            by_force = by_force and uid == self.world.status.driver_info.pod_uid
            self.world._delete(DeleteDriver(name, uid, at_once=by_force))

    @rule(there=st.sampled_from([None, node(), node(ready="Unknown")]))
    def the_node_changes(self, there):
        if there is None:  # the pod garbage collector follows
            self.world.pods = {n: p for n, p in self.world.pods.items() if not p["spec"].get("nodeName")}
        elif self.world.node is None:
            self.world.place()
        self.world.node_is(there)

    @rule(number=st.integers(0, 3))
    def the_spec_is_edited(self, number):
        self.world.edit(arguments=[str(number)])

    @rule(suspend=st.booleans())
    def suspend_is_set(self, suspend):
        self.world.edit(suspend=suspend)

    @precondition(lambda self: self.world.status.attempt > 0 and not self.world.ghosts)
    @rule()
    def the_status_is_lost(self):
        """As after a restore from a backup that left it out.

        Nothing but the status knows of a driver whose pod was deleted by force while its node was silent.
        """
        self.world.status = type(self.world.status)()

    @invariant()
    def there_is_at_most_one_driver(self):
        if not hasattr(self, "world"):
            return
        facts = [driver_facts(pod, self.world.node) for pod in self.world.pods.values()]
        alive = sum(not one.proven_gone for one in facts) + len(self.world.ghosts)
        assert alive <= 1, (sorted(self.world.pods), self.world.ghosts)

    @invariant()
    def history_and_attempt_agree(self):
        if hasattr(self, "world") and self.world.status.transitions:
            assert self.world.status.transitions[-1].attempt <= self.world.status.attempt

    def teardown(self):
        """In the end, with a node that answers and a driver that succeeds, it comes to rest."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.node_is(node())
        world.place()
        world.edit(suspend=False, restartPolicy={"type": "Never"})
        for _ in range(60):
            world.look()
            world.now += 30
            name = world.names.driver_pod if world.status.attempt else ""
            if name in world.pods and world.pods[name]["status"]["phase"] == "Pending":
                world.driver_is(RUNNING)
            elif name in world.pods and world.state() is State.RUNNING:
                world.driver_is(SUCCEEDED)
        assert world.state().is_terminal, [(t.state.value, t.reason) for t in world.status.transitions]


OneDriver.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
TestOneDriver = OneDriver.TestCase
