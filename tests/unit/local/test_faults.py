"""When faults happen, what they hit, and that they end."""

from typing import Any

import pytest

from rekindle.local.chaos import parse_fault
from rekindle.local.faults import Chaos, is_due
from rekindle.local.progress import Progress
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.store import Store
from rekindle.runtime.task import sealed
from tests.unit.local.records import finished, run_started, stage_started


class FakeNode:
    """Notes what is done to it. `executors` is how many it has to hit."""

    class throttle:  # noqa: N801
        kind = "CPU quota"

    def __init__(self, host, executors=1, alive=True):
        self.host, self.executors, self.alive, self.did = host, executors, alive, []

    def __getattr__(self, name):
        def do(*arguments):
            self.did.append((name, *arguments))
            return self.executors

        return do


class FakeDriver:
    killed = 0

    def kill(self):
        self.killed += 1


@pytest.fixture
def progress():
    progress = Progress()
    progress.add(run_started(flights=4, delays=4))
    return progress


class World:
    def __init__(self, progress, tmp_path, *texts, nodes=None):
        fakes: Any = nodes if nodes is not None else (FakeNode("127.0.0.2"), FakeNode("127.0.0.3"))
        self.nodes = fakes
        self.said: list[str] = []
        self.driver, self.progress = FakeDriver(), progress
        self.chaos = Chaos(
            tuple(map(parse_fault, texts)), fakes, Store.at(tmp_path).prepare(), progress, self.said.append
        )

    def at(self, seconds, *records):
        for record in records:
            self.progress.add(record)
        self.chaos.step(1000.0 + seconds, self.driver)
        return self


def test_a_time_counts_from_the_first_driver_s_start(progress):
    fault = parse_fault("kill-driver@time=20")
    assert not is_due(fault, progress, 19.9)
    assert is_due(fault, progress, 20.0)


def test_a_stage_is_waited_for(progress):
    fault = parse_fault("kill-driver@stage=delays")
    progress.add(stage_started("flights", 4))
    assert not is_due(fault, progress, 1e9)
    progress.add(stage_started("delays", 4))
    assert is_due(fault, progress, 0.0)


def test_a_stage_that_started_in_an_earlier_launch_is_not_this_launch_s(progress):
    progress.add(stage_started("delays", 4), new=False)
    assert not is_due(parse_fault("kill-driver@stage=delays"), progress, 0.0)


@pytest.mark.parametrize(("text", "needs"), [("@stage=flights,fraction=0.5", 2), ("@fraction=0.5", 4)])
def test_a_fraction_is_of_the_stage_or_of_all(progress, text, needs):
    fault = parse_fault(f"kill-driver{text}")
    progress.add(stage_started("flights", 4))
    for partition in range(4):
        assert is_due(fault, progress, 0.0) == (partition >= needs)
        progress.add(finished("flights", partition)[0])
        progress.add(finished("flights", partition)[1])
    assert is_due(fault, progress, 0.0)


def test_without_a_trigger_the_first_stage_is_waited_for(progress):
    fault = parse_fault("slow-node")
    assert not is_due(fault, progress, 1e9)
    progress.add(stage_started("flights", 4))
    assert is_due(fault, progress, 0.0)


def test_a_program_asks_for_a_fault_by_a_file_and_sees_when_all_that_it_asked_for_is_done(progress, tmp_path):
    asked, node = tmp_path / "now", FakeNode("127.0.0.2", executors=0)
    texts = (f"kill-driver@file={asked}", f"kill-executor@file={asked}", "slow-node@time=1000")
    world = World(progress, tmp_path, *texts, nodes=(node,)).at(0)
    assert world.driver.killed == 0
    asked.touch()
    world.at(1).at(2)
    assert (world.driver.killed, asked.exists()) == (1, True)
    node.executors = 1
    world.at(3)
    assert (node.did[-1], asked.exists()) == (("kill_executors",), False)


def test_the_driver_is_killed_once(progress, tmp_path):
    world = World(progress, tmp_path, "kill-driver@time=5").at(0).at(5).at(6)
    assert world.driver.killed == 1
    assert world.said == ["chaos: the driver was killed"]
    assert [(done.t, done.fault) for done in world.chaos.done] == [(1005.0, "kill-driver@time=5")]


def test_a_node_is_slow_for_its_duration_and_then_no_more(progress, tmp_path):
    world = World(progress, tmp_path, "slow-node:node=2,factor=0.1,duration=10@time=1")
    world.at(0).at(1).at(5)
    assert world.nodes[1].did == [("slow", 0.1)]
    world.at(11).at(12)
    assert world.nodes[1].did == [("slow", 0.1), ("recover_speed",)]
    assert world.nodes[0].did == []
    assert world.said == [
        "chaos: node 127.0.0.3 runs at 0.1 of its speed (CPU quota)",
        "chaos: node 127.0.0.3 has its speed again",
    ]


@pytest.mark.parametrize(
    ("text", "did"),
    [
        ("hang-executor:duration=2", [("hang_executors",), ("resume_executors",)]),
        ("hang-executor", [("hang_executors",)]),
        ("kill-executor", [("kill_executors",)]),
        ("kill-node", [("kill",)]),
        ("kill-node:duration=2", [("kill",), ("start_again",)]),
    ],
)
def test_what_happens_to_nodes(progress, tmp_path, text, did):
    world = World(progress, tmp_path, f"{text}@time=0").at(0).at(1).at(2)
    assert world.nodes[0].did == did


def test_a_node_without_an_executor_is_hit_when_it_has_one(progress, tmp_path):
    node = FakeNode("127.0.0.2", executors=0)
    world = World(progress, tmp_path, "kill-executor@time=0", nodes=(node,)).at(0)
    assert world.chaos.missed == ["kill-executor@time=0"]
    node.executors = 1
    world.at(1).at(2)
    assert world.said == ["chaos: the executor on 127.0.0.2 was killed"]
    assert world.chaos.missed == []


def test_a_dead_node_is_not_hit(progress, tmp_path):
    node = FakeNode("127.0.0.2", alive=False)
    world = World(progress, tmp_path, "slow-node@time=0", nodes=(node,)).at(0)
    assert (node.did, world.chaos.missed) == ([], ["slow-node@time=0"])


@pytest.fixture
def stored(tmp_path):
    """A store with partition 1 of flights in versions 1 and 2, on volume 1."""
    layout = RunLayout(1, volumes=2)
    for version in (1, 2):
        name = f"{layout.data('flights', 1)}/.attempt-p00001-v000{version}-x/part.parquet"
        data = tmp_path / name
        data.parent.mkdir(parents=True)
        data.write_bytes(bytes(range(200)))
        manifest = tmp_path / layout.manifest("flights", 1, version)
        manifest.parent.mkdir(parents=True, exist_ok=True)
        fields = {
            "format": 1,
            "stage": "flights",
            "partition": 1,
            "version": version,
            "task": 1,
            "writer": "w",
            "rows": 1,
            "bytes": 200,
            "digest": None,
            "files": [{"path": name, "bytes": 200, "footer": None, "content": None}],
            "seconds": 1,
            "finishedAt": 1,
        }
        manifest.write_text(sealed(fields))
    return tmp_path


def data_of(store):
    return {path.parent.name[16:21]: path.read_bytes() for path in store.rglob("part.parquet")}


def test_a_partition_of_the_newest_version_is_lost(progress, stored):
    world = World(progress, stored, "lose-partition:stage=flights,partition=1@time=0").at(0)
    assert set(data_of(stored)) == {"v0001"}
    assert world.said == ["chaos: partition 1 of flights is gone"]


def test_a_partition_is_corrupted_in_place(progress, stored):
    World(progress, stored, "corrupt-partition:stage=flights,partition=1@time=0").at(0)
    data = data_of(stored)
    assert data["v0001"] == bytes(range(200))
    assert len(data["v0002"]) == 200
    assert data["v0002"] != bytes(range(200))
    assert data["v0002"][:60] == bytes(range(60))


def test_a_partition_that_is_not_stored_yet_is_waited_for(progress, stored):
    world = World(progress, stored, "lose-partition:stage=flights,partition=2@time=0").at(0)
    assert world.chaos.missed == ["lose-partition:stage=flights,partition=2@time=0"]


def test_a_volume_is_lost(progress, stored):
    world = World(progress, stored, "lose-volume:volume=0@time=0", "lose-volume:volume=1@time=0").at(0)
    assert data_of(stored) == {}
    assert list(stored.glob("runs/0001/stages/flights/manifests/*"))
    assert world.said == ["chaos: volume 1 is gone"]
    assert world.chaos.missed == ["lose-volume:volume=0@time=0"]


def test_a_stage_that_does_not_exist_is_said_once(tmp_path):
    progress = Progress()
    world = World(progress, tmp_path, "kill-driver@stage=delay", "lose-partition:stage=nope").at(0)
    assert world.said == []
    world.at(1, run_started(flights=4, delays=4)).at(2)
    assert world.said == [
        "chaos: kill-driver@stage=delay will not happen: no stored stage 'delay'; did you mean delays?",
        "chaos: lose-partition:stage=nope will not happen: no stored stage 'nope'; there are flights, delays",
    ]
