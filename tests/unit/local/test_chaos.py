"""What `--chaos` items mean, and how a wrong one teaches."""

import pytest

from rekindle.local.chaos import ChaosError, Fault, FaultKind, Trigger, check_faults, parse_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill-executor", {"kind": FaultKind.KILL_EXECUTOR}),
        (
            "slow-node:node=2,factor=0.3,duration=1min@stage=delays",
            {
                "kind": FaultKind.SLOW_NODE,
                "node": "2",
                "factor": 0.3,
                "duration": 60.0,
                "trigger": Trigger(stage="delays"),
            },
        ),
        (
            "hang-executor:node=127.0.0.3@stage=delays,fraction=0.5",
            {
                "kind": FaultKind.HANG_EXECUTOR,
                "node": "127.0.0.3",
                "trigger": Trigger(stage="delays", fraction=0.5),
            },
        ),
        ("kill-driver@time=20", {"kind": FaultKind.KILL_DRIVER, "trigger": Trigger(time=20.0)}),
        ("kill-driver@fraction=0.25", {"kind": FaultKind.KILL_DRIVER, "trigger": Trigger(fraction=0.25)}),
        ("kill-driver@file=/tmp/now", {"kind": FaultKind.KILL_DRIVER, "trigger": Trigger(file="/tmp/now")}),
        ("kill-node:duration=5", {"kind": FaultKind.KILL_NODE, "duration": 5.0}),
        (
            "lose-partition:stage=flights,partition=3@stage=delays",
            {
                "kind": FaultKind.LOSE_PARTITION,
                "stage": "flights",
                "partition": 3,
                "trigger": Trigger(stage="delays"),
            },
        ),
        ("corrupt-partition:stage=flights", {"kind": FaultKind.CORRUPT_PARTITION, "stage": "flights"}),
        ("lose-volume:volume=1", {"kind": FaultKind.LOSE_VOLUME, "volume": 1}),
    ],
)
def test_an_item_is_a_fault_and_when(text, fault):
    assert parse_fault(text) == Fault(text=text, **fault)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kill-drivr", "unknown fault 'kill-drivr'; did you mean kill-driver?"),
        ("", "unknown fault ''"),
        ("slow-node:nod=1", "unknown name 'nod'; did you mean node?"),
        ("kill-driver:node=1", "unknown name 'node'; kill-driver takes no values"),
        ("kill-executor:volume=1", "unknown name 'volume'; kill-executor takes node"),
        ("slow-node:node", "node has no value; write node=..."),
        ("slow-node:node=0", "node: '0' is no node; write its number, from 1, or its address"),
        ("slow-node:node=x", "node: 'x' is no node"),
        ("slow-node:factor=2", "factor: '2' is not between 0 and 1"),
        ("slow-node:factor=0", "would stop the node; write hang-executor or kill-node"),
        ("slow-node:node=1,node=2", "node is there twice"),
        ("slow-node:duration=long", "duration: 'long' is not a duration"),
        ("lose-partition:partition=1", "lose-partition needs a stage, such as lose-partition:stage=flights"),
        ("lose-partition:stage=a,partition=-1", "partition: '-1' is not a number from 0"),
        ("kill-driver@", "nothing after the @"),
        ("kill-driver@20", "unknown name '20'; after @ there can be stage, fraction, time, file"),
        ("kill-driver@file=now", "file: 'now' is no absolute path"),
        ("kill-driver@time=soon", "time: 'soon' is not a duration"),
        ("kill-driver@fraction=half", "fraction: 'half' is not between 0 and 1"),
    ],
)
def test_a_wrong_item_says_what_is_wrong_and_shows_what_can_be_written(text, says):
    with pytest.raises(ChaosError) as caught:
        parse_fault(text)
    message = str(caught.value)
    assert message.startswith(f"{text}: ")
    assert says in message
    assert all(kind in message for kind in FaultKind)
    assert "--chaos slow-node:node=1,factor=0.1@stage=delays" in message


@pytest.mark.parametrize(
    ("text", "hosts", "volumes", "says"),
    [
        ("kill-node:node=3", ("127.0.0.2", "127.0.0.3"), 1, "no node 3; there are 127.0.0.2, 127.0.0.3"),
        ("kill-node:node=127.0.0.9", ("127.0.0.2",), 1, "there is no node 127.0.0.9; there are 127.0.0.2"),
        ("slow-node", (), 1, "there are no nodes here, only 127.0.0.1"),
        ("lose-volume", ("127.0.0.2",), 1, "the store has one volume; set recovery.volumes"),
        ("lose-volume:volume=2", ("127.0.0.2",), 2, "the store has volumes 0 to 1"),
    ],
)
def test_what_this_run_cannot_have_is_refused_before_it_starts(text, hosts, volumes, says):
    with pytest.raises(ChaosError, match=says):
        check_faults((parse_fault(text),), hosts, volumes)


def test_what_this_run_can_have_is_taken():
    faults = ("kill-node:node=2", "lose-volume:volume=1", "slow-node:node=127.0.0.2", "kill-driver")
    check_faults(tuple(parse_fault(text) for text in faults), ("127.0.0.2", "127.0.0.3"), 2)
