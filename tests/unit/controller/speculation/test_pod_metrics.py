"""What the metrics server tells, and what is made of an answer that is none."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rekindle.controller.resources import POD_METRICS, Object
from rekindle.controller.speculation import pod_metrics as module
from rekindle.controller.speculation.executors import Executor
from rekindle.controller.speculation.pod_metrics import PodMetrics
from rekindle.core.witness import CpuUse
from tests.unit.controller.api_server import ApiServer, What, served
from tests.unit.controller.speculation.driver import Answer, Driver, saying

SPARK = "spark-kubernetes-executor"
AT = 1763841600.0
"""2025-11-22T20:00:00Z."""


def told(pod: str, window: str = "15.5s", app: str = "spark-1", **cpu: str) -> Object:
    """As the metrics server tells of a pod; `cpu`: [container -> its use]."""
    containers = [{"name": name, "usage": {"cpu": use, "memory": "1Gi"}} for name, use in cpu.items()]
    metadata = {"name": pod, "namespace": "team", "labels": {"spark-app-selector": app}}
    return {"metadata": metadata, "timestamp": "2025-11-22T20:00:00Z", "window": window, "containers": containers}


def uses_of(*stored: Object) -> dict[str, CpuUse]:
    """What is read of an API server that has these."""
    found: dict[str, CpuUse] = {}

    async def case(server: ApiServer) -> None:
        for one in stored:
            server.make(POD_METRICS, "team", one)
        found.update(await PodMetrics(server.kube).uses("team", "spark-app-selector=spark-1"))
        [call] = server.calls
        assert call.path == "/apis/metrics.k8s.io/v1beta1/namespaces/team/pods"

    served(case)
    return found


def test_the_window_is_before_the_moment_and_pods_of_others_are_left_out():
    found = uses_of(told("a", **{SPARK: "1500m"}), told("b", app="spark-2", **{SPARK: "1"}))
    assert found == {"a": CpuUse(1.5, AT - 15.5, AT)}


def test_a_pod_of_which_no_container_is_told_has_no_figure():
    assert uses_of(told("a")) == {}


@pytest.mark.parametrize(
    ("cpu", "cores"),
    [
        ({SPARK: "123456789n", "sidecar": "2"}, 0.123456789),
        ({"mine": "1500m", "sidecar": "20m"}, 1.5),  # sparkConf may give it another name
        ({SPARK: "0", "sidecar": "1"}, 0.0),
    ],
)
def test_of_the_containers_sparks_own_counts(cpu, cores):
    assert uses_of(told("a", **cpu))["a"].cores == pytest.approx(cores)


@pytest.mark.parametrize(("window", "seconds"), [("30s", 30.0), ("1m0s", 60.0), ("1m2.25s", 62.25), ("1h0m5s", 3605.0)])
def test_windows_are_as_go_writes_them(window, seconds):
    use = uses_of(told("a", window, **{SPARK: "1"}))["a"]
    assert use.end - use.start == seconds


def changed(**change: Any) -> Object:
    return {"items": [{**told("a", **{SPARK: "1"}), **change}]}


WRONG: dict[str, object] = {
    "no list": [],
    "no items": {"kind": "PodMetricsList"},
    "no pod": {"items": [7]},
    "no time": changed(timestamp="yesterday"),
    "a time that never was": changed(timestamp="2025-02-31T20:00:00Z"),
    "a number for a time": changed(timestamp=1763841600),
    "no zone": changed(timestamp="2025-11-22T20:00:00"),
    "no window": changed(window=""),
    "a window of nothing": changed(window="0s"),
    "a window in words": changed(window="a while"),
    "a number for a window": changed(window=15),
    "less than nothing": changed(containers=[{"name": "x", "usage": {"cpu": "-1"}}]),
    "more than there is": changed(containers=[{"name": "x", "usage": {"cpu": "9999999999"}}]),
    "infinite": changed(containers=[{"name": "x", "usage": {"cpu": "1e999"}}]),
    "no cpu": changed(containers=[{"name": "x", "usage": {"memory": "1Gi"}}]),
    "no text": "<html>",
    "half": b'{"items": [{"metadata',
    "deep": b"[" * 100_000,
}


def answered(answer: Answer, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said of such answers, which give no figures."""

    async def case(server: ApiServer) -> None:
        async with Driver(answer) as other:
            server.url = f"http://{other.address}"
            metrics = PodMetrics(server.connect())
            for _ in range(2):
                assert await metrics.uses("team", "a=b") == {}
            assert len(other.requests) == 1
            metrics._not_before.clear()  # a minute later
            assert await metrics.uses("team", "a=b") == {}
            assert len(other.requests) == 2

    with caplog.at_level(logging.WARNING, module.__name__):
        served(case)
    return [one.getMessage() for one in caplog.records if one.name == module.__name__]


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_an_answer_that_cannot_be_used_gives_no_figures_and_is_said_once(body, caplog):
    [said] = answered(saying(body), caplog)
    assert said.startswith(
        "slow tasks are judged without the CPU use of pods (namespace team): the answer cannot be used: "
    )
    assert len(said) < 500


def test_a_large_answer_is_not_read_to_its_end(monkeypatch, caplog):
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    [said] = answered(saying({"items": [], "more": "x" * 1000}), caplog)
    assert said.endswith(": the answer is too large: more than 1000 bytes")


def test_nor_is_one_waited_for_that_does_not_come(monkeypatch, caplog):
    monkeypatch.setattr(module, "_SECONDS", 0.2)

    async def case(server: ApiServer) -> None:
        late = server.fault("LIST", "/metrics.k8s.io/", What.LATE)
        assert await PodMetrics(server.kube).uses("team", "a=b") == {}
        late.release.set()

    served(case)
    assert "GET /apis/metrics.k8s.io/v1beta1/namespaces/team/pods: " in caplog.text


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (404, "the cluster has no metrics server (metrics.k8s.io); install one"),
        (403, "the operator may not list pods of metrics.k8s.io; upgrade the chart's roles: <reason>"),
        (503, "<reason>"),
    ],
)
def test_why_there_are_none_is_said_with_what_would_help(status, remedy, caplog):
    [said] = answered(saying({"message": "<reason>"}, status), caplog)
    assert said == f"slow tasks are judged without the CPU use of pods (namespace team): {remedy}"


def test_after_a_minute_it_is_asked_again_and_believed():
    async def case(server: ApiServer) -> None:
        server.make(POD_METRICS, "team", told("a", **{SPARK: "1"}))
        server.fault("LIST", "/metrics.k8s.io/", 503)
        metrics = PodMetrics(server.kube)
        assert await metrics.uses("team", "") == {}
        assert await metrics.uses("team", "") == {}
        metrics._not_before.clear()
        assert list(await metrics.uses("team", "")) == ["a"]

    served(case)


def test_figures_go_to_the_executors_of_the_driver_and_not_to_what_is_labelled_so():
    def executor(number: int, pod: str) -> Executor:
        return Executor(number, pod, "u", "n1", is_running=True, is_terminating=False, is_duplicate=False)

    async def case(server: ApiServer) -> None:
        for pod in ("pi-exec-1", "pi-exec-2", "forged"):
            server.make(POD_METRICS, "team", told(pod, **{SPARK: "1"}))
        driver = {"metadata": {"namespace": "team", "labels": {"spark-app-selector": "spark-1"}}}
        there = [executor(1, "pi-exec-1"), executor(3, "pi-exec-3")]
        ask = PodMetrics(server.kube).of_driver(driver, lambda: there)
        assert list(await ask()) == ["1"]
        there.append(executor(2, "pi-exec-2"))
        assert list(await ask()) == ["1", "2"]
        assert {call.query["labelSelector"] for call in server.calls} == {"spark-app-selector=spark-1"}

    served(case)
