"""One pipeline, one fault at a time: the same answer, and only what was lost is made again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.harness import Application, chain_is_right


@pytest.fixture
def sleeping(tmp_path: Path) -> Application:
    return Application(tmp_path, "chain.py", "1.0", "sleep", "8")


@pytest.mark.requirement("S6-1", "S6-4", "S7-2", "S7-3", "S7-5", "S7-12", "S7-13", "S7-26")
def test_a_killed_driver_costs_unfinished_partitions_of_a_pointwise_stage_and_the_whole_of_one_that_shuffles(sleeping):
    outcome = sleeping.run("kill-driver@stage=worked,fraction=0.4", "kill-driver@stage=doubled")
    assert outcome.code == 0, outcome.err
    assert chain_is_right(sleeping)
    assert outcome.report["drivers"] == 3
    first, second = (one["restarted"] for one in outcome.report["recoveries"])
    assert set(first) == {"worked"}
    assert 1 <= first["worked"] <= 5
    assert set(second) <= {"doubled", "doubled.map"}
    assert second["doubled.map"] == 1
    assert outcome.stage("numbers")["rerun"] == 0


@pytest.mark.requirement("S2-1", "S2-3", "S2-36", "S2-38", "S3-1", "S3-3")
def test_a_slow_node_is_blocked_and_a_copy_elsewhere_wins(tmp_path):
    """Slow is only what takes longer than the first Python workers need to start on a machine with much to do."""
    burning = Application(tmp_path, "chain.py", "2.0", "burn", "8", speculation="baselineLowerBound: 10s")
    outcome = burning.run("slow-node:node=1,factor=0.05@stage=worked", options=("--hold-cores", "0.6"))
    assert outcome.code == 0, outcome.err
    assert chain_is_right(burning)
    assert {block["node"] for block in outcome.report["blocks"]} == {"127.0.0.2"}
    assert outcome.stage("worked")["speculativeEffective"] >= 1, outcome.err
    assert outcome.restarted() == {}


@pytest.mark.requirement("S1-9")
def test_a_slow_node_with_a_third_of_the_tasks_is_found_by_comparing_nodes(tmp_path):
    """Spark's own speculation would need only two of three, but waits for the default lower bound of a minute."""
    burning = Application(tmp_path, "chain.py", "3.0", "burn", "3", speculation="detector: nodeAware")
    outcome = burning.run("slow-node:node=1,factor=0.05@stage=worked", options=("--hold-cores", "0.6"))
    assert outcome.code == 0, outcome.err
    assert chain_is_right(burning)
    assert {block["node"] for block in outcome.report["blocks"]} == {"127.0.0.2"}
    assert "per byte as 2 elsewhere" in outcome.report["blocks"][0]["cause"]
    assert outcome.stage("worked")["speculativeEffective"] == 1


@pytest.mark.requirement("S2-39")
def test_a_hung_executor_is_left_behind(tmp_path):
    """Tasks are long enough that the node still has one when the first are seen to have ended."""
    slow = Application(tmp_path, "chain.py", "3.0", "sleep", "8")
    outcome = slow.run("hang-executor:node=2@stage=worked,fraction=0.2")
    assert outcome.code == 0, outcome.err
    assert chain_is_right(slow)
    assert outcome.report["executorsLost"] == 0  # nobody has waited for it to be given up
    assert [fault["fault"].split("@")[0] for fault in outcome.report["launcher"]["chaos"]] == ["hang-executor:node=2"]


@pytest.mark.requirement("S6-1", "S6-16", "S6-26", "S7-20")
def test_a_killed_executor_costs_its_tasks(tmp_path):
    """Tasks are long enough that the executor still has one when the first are seen to have ended."""
    slow = Application(tmp_path, "chain.py", "3.0", "sleep", "8")
    outcome = slow.run("kill-executor:node=1@stage=worked,fraction=0.2")
    assert outcome.code == 0, outcome.err
    assert chain_is_right(slow)
    assert outcome.report["executorsLost"] >= 1
    assert "worked" not in outcome.restarted()
    assert outcome.stage("worked")["failed"] >= 1


@pytest.mark.soak
def test_a_killed_node_costs_its_tasks(sleeping):
    outcome = sleeping.run("kill-node:node=3@stage=worked,fraction=0.2")
    assert outcome.code == 0, outcome.err
    assert chain_is_right(sleeping)


@pytest.mark.requirement("S2-30", "S7-3", "S7-14")
@pytest.mark.parametrize("fault", [pytest.param("lose-partition", marks=pytest.mark.soak), "corrupt-partition"])
def test_a_stored_partition_that_cannot_be_read_is_made_again(sleeping, fault):
    outcome = sleeping.run(f"{fault}:stage=numbers,partition=5@stage=worked,fraction=0.1")
    assert outcome.code == 0, outcome.err
    assert chain_is_right(sleeping)


@pytest.mark.requirement("S7-3")
def test_a_lost_volume_costs_its_share(tmp_path):
    spread = Application(tmp_path, "chain.py", "0.7", "sleep", "8", volumes=2)
    outcome = spread.run("lose-volume:volume=1@stage=worked,fraction=0.2")
    assert outcome.code == 0, outcome.err
    assert chain_is_right(spread)
    lost = {name for loss in outcome.report["losses"] for name in [loss["stage"]]}
    assert lost <= {"numbers", "worked"}
    for loss in outcome.report["losses"]:
        assert all(partition % 2 == 1 for partition in loss["partitions"])


def started(application: Application, until: str) -> subprocess.Popen[str]:
    """A run whose progress has shown `until`."""
    process = subprocess.Popen(
        application.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if until in line:
            return process
    process.kill()
    raise AssertionError("".join(seen))


def test_a_second_run_on_a_store_in_use_is_refused_ctrl_c_stops_the_first_cleanly_and_the_next_goes_on(tmp_path):
    sleeping = Application(tmp_path, "chain.py", "5.0", "sleep", "8")
    process = started(sleeping, "stage worked: 8 partitions")
    try:
        second = sleeping.run()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert second.code == 4, second.err
    assert "in use" in second.err
    assert process.returncode == 130, err
    outcome = sleeping.run()
    assert outcome.code == 0, outcome.err
    assert chain_is_right(sleeping)
    assert outcome.report["drivers"] == 2
    assert outcome.stage("numbers")["rerun"] == 0


def test_a_stage_that_somebody_doubts_is_made_again_and_what_was_made_from_it(sleeping):
    stopped = sleeping.run(options=("--store-limit", "1k"))
    assert stopped.code == 4, stopped.err
    rerun = [sys.executable, "-m", "rekindle.cli", "rerun", sleeping.place, "numbers"]
    subprocess.run(rerun, check=True, timeout=60)
    outcome = sleeping.run()
    assert outcome.code == 0, outcome.err
    assert chain_is_right(sleeping)
    (asked,) = [one for one in outcome.report["recoveries"] if one["cause"].startswith("stage numbers again: asked")]
    assert asked["restarted"]["numbers"] == 8
    assert outcome.stage("numbers")["rerun"] >= 1
