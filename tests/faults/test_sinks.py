"""A sink whose tasks write by a Python DataSource: each row is visible once, whatever is lost between a task's write
and the driver's commit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import Application, Outcome

ROWS = list(range(600))
COPIES = "sinkEnabled: true, baselineLowerBound: 2s"
NEVER = "baselineLowerBound: 10min"


class Table:
    """The application `apps/ledger.py` in a folder, and what it has written."""

    def __init__(
        self,
        folder: Path,
        how: str,
        happens: str,
        knows: str = "knows",
        seconds: float = 0.1,
        speculation: str = NEVER,
    ) -> None:
        self.out = folder / "out"
        for part in ("marks", "staged", "table"):
            (self.out / part).mkdir(parents=True)
        (self.out / "table" / "ledger").touch()
        arguments = (how, happens, knows, str(seconds), str(folder / "store"))
        more = {"sparkConf": {"spark.python.task.killTimeout": "60s"}}  # enough for who has lost to tell
        self.application = Application(folder, "ledger.py", *arguments, speculation=speculation, more=more)

    def at(self, mark: str) -> str:
        """When a fault happens: as the application asks for it."""
        return f"@file={self.out}/marks/{mark}"

    def diary(self, what: str) -> list[dict[str, Any]]:
        """Its entries that tell of this, in order."""
        entries = map(json.loads, (self.out / "diary").read_text().splitlines())
        return [entry for entry in entries if what in entry]

    def writes(self) -> dict[int, int]:
        """Partition -> attempts that have written all of it."""
        made = [entry["wrote"] for entry in self.diary("wrote")]
        return {partition: made.count(partition) for partition in sorted(set(made))}

    def commits(self) -> list[list[str]]:
        """The files of each commit, one for each partition."""
        return [json.loads(line)["names"] for line in (self.out / "table" / "ledger").read_text().splitlines()]

    def rows(self) -> list[int]:
        """All that is visible. Raises FileNotFoundError for a file that counts and is gone."""
        files = [self.out / "staged" / name for commit in self.commits() for name in commit]
        return sorted(n for file in files for n in json.loads(file.read_text()))


def reruns(outcome: Outcome) -> dict[str, int]:
    return {stage["name"]: stage["rerun"] for stage in outcome.report["stages"]}


@pytest.mark.requirement("S5-8", "S6-1")
def test_a_node_that_has_written_and_drivers_between_two_partitions_and_in_the_commit_are_lost(tmp_path):
    """What has a manifest is written once; the commit of which no driver has told is asked for again."""
    table = Table(tmp_path, "pointwise", "node,driver,commit")
    faults = [f"kill-node:node=1{table.at('node')}"]
    faults += [f"kill-driver{table.at(mark)}" for mark in ("driver", "commit")]
    outcome = table.application.run(*faults)
    assert outcome.code == 0, outcome.err
    assert table.rows() == ROWS
    assert outcome.report["drivers"] == 3
    (first, second) = (entry["made"] for entry in table.diary("asked")[:2])
    assert (len(first), len(second)) == (1, 2)
    assert table.diary("wrote")[0]["host"] == "127.0.0.2"
    assert [table.writes()[partition] for partition in second] == [1, 1]
    assert [entry["known"] for entry in table.diary("committed")] == [False, True]


def test_a_driver_is_lost_in_a_commit_that_would_not_be_known_again(tmp_path):
    table = Table(tmp_path, "keyed", "commit", "forgets")
    lost = table.application.run(f"kill-driver{table.at('commit')}")
    assert lost.code != 0
    assert "nobody can tell how far it came" in lost.err
    assert "DataSourceSink(..., repeatable=True)" in lost.err
    again = table.application.run()
    assert again.code == lost.code
    assert "nobody can tell how far it came" in again.err
    assert (table.rows(), len(table.commits())) == (ROWS, 1)
    assert set(table.writes().values()) == {1}


@pytest.mark.requirement("S5-7", "S5-8", "S5-13")
def test_a_loser_that_ends_just_after_its_copy_is_aborted_and_a_table_that_is_gone_is_committed_to_when_it_is_back(
    tmp_path,
):
    table = Table(tmp_path, "keyed", "loser,gone", speculation=COPIES)
    gone = table.application.run()
    assert gone.code == 1, gone.err
    assert f"its writer could not commit to ledger {table.out}: [Errno 2] No such file" in gone.err
    assert "only publishing is repeated" in gone.err
    written = table.diary("wrote")
    loser, winner, *_ = (entry for entry in written if entry["wrote"] == 0)
    assert loser["host"] != winner["host"]
    assert loser["name"] in [entry["aborted"] for entry in table.diary("aborted")]
    assert not (table.out / "staged" / loser["name"]).exists()
    (table.out / "elsewhere").rename(table.out / "table")
    outcome = table.application.run()
    assert outcome.code == 0, outcome.err
    assert (table.rows(), len(table.commits())) == (ROWS, 1)
    assert loser["name"] not in table.commits()[0]
    assert table.diary("wrote") == written
    assert reruns(outcome) == {"numbers": 0, "written": 0}


def some_faults(seed: int) -> list[str]:
    """Three of them, one a driver's loss, on the way from the first split to the last partition."""
    dice = random.Random(seed)
    kinds = ["kill-executor:node={}", "kill-node:node={},duration=2s", "hang-executor:node={},duration=4s"]
    harm = ["lose-partition:stage=numbers,partition={}", "corrupt-partition:stage=numbers,partition={}"]
    chosen = ["kill-driver", dice.choice(kinds).format(dice.randint(1, 3)), dice.choice(harm).format(dice.randrange(5))]
    when = [dice.choice(["numbers", "written", "written"]) for _ in chosen[:2]] + ["written"]
    return [
        f"{fault}@stage={stage},fraction={dice.uniform(0, 0.7):.2f}" for fault, stage in zip(chosen, when, strict=True)
    ]


@pytest.mark.requirement("S4-4", "S5-8")
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 7))
def test_what_splits_held_is_committed_once_whatever_is_lost_on_the_way(tmp_path, seed):
    faults = some_faults(seed)
    table = Table(tmp_path, "keyed", "nothing", seconds=0.7, speculation=COPIES)
    outcome = table.application.run(*faults)
    assert outcome.code == 0, (faults, outcome.err)
    assert table.rows() == ROWS, faults
    assert len(table.commits()) == 1, faults
