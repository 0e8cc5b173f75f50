"""`rekindle inspect` on a store whose history is written by hand."""

from pathlib import Path

import pytest

from rekindle.cli import main
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.runtime.journal import Journal, Record, note
from rekindle.runtime.layout import IDENTITY, RunLayout
from rekindle.runtime.store import Store
from rekindle.runtime.task import sealed

LAYOUT = RunLayout(1)
STAGES = [
    {"name": "legs", "partitions": 2, "exchange": "blocking", "sink": None},
    {"name": "fused", "partitions": 2, "exchange": "pipelined", "sink": None},
]
START = note(100.0, "RunStarted", application="flights", run=1, fingerprints={}, stages=STAGES)
HISTORY = [
    note(100.0, "DriverStarted", attempt=1, writer="w"),
    note(101.0, "StageStarted", stage="legs", partitions=2),
    {"t": 103.5, "kind": "action", "action": "Block", "node": "n2", "until": 163.5, "cause": "it is slow"},
]


def manifest(partition: int, version: int, path: str) -> bytes:
    fields = {"stage": "legs", "partition": partition, "version": version, "task": 1, "writer": "w", "digest": None}
    files = [{"path": path, "bytes": 2000, "footer": None, "content": None}]
    more = {"rows": 7, "bytes": 2000, "files": files, "seconds": 1.0, "finishedAt": 102.0}
    return sealed({"format": 1, **fields, **more}).encode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = Store.at(tmp_path).prepare()
    store.put_if_absent(IDENTITY, b"{}")
    Journal(store, LAYOUT, "w").append([START, *HISTORY])
    for version, path in ((1, "old"), (2, "new")):
        store.put_if_absent(LAYOUT.manifest("legs", 0, version), manifest(0, version, path))
    (tmp_path / "new").write_bytes(b"x" * 2000)
    return tmp_path


def inspected(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["inspect", *map(str, arguments)]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_it_tells_stages_and_what_happened(root, capsys):
    lines = inspected(capsys, root)
    assert lines[0] == "flights, run 1: running; 1 driver, 3.5 s"
    assert lines[2] == "stage state partitions rows size attempts copies rerun seconds digest"
    assert lines[3].startswith("legs running 2 ")
    assert not any(line.startswith("fused") for line in lines)
    assert lines[-4:] == [
        "what happened",
        "0.0 s driver 1 starts",
        "1.0 s stage legs: 2 partitions",
        "3.5 s node n2 blocked: it is slow",
    ]


def test_files_have_the_newest_version_and_what_is_wrong_with_them(root, capsys):
    expected = [
        "partition version rows size state file",
        "0 2 7 2.0 KiB whole new",
        "1 not stored",
    ]
    assert inspected(capsys, root, "--files", "legs") == expected
    (root / "new").write_bytes(b"")
    assert "new: 0 bytes, 2000 were written" in inspected(capsys, root, "--files", "legs")[1]
    (root / LAYOUT.manifest("legs", 1, 1)).write_bytes(b"{")
    assert inspected(capsys, root, "--files", "legs")[-1].startswith("damaged manifest: partition 1 version 1: ")


def test_what_nobody_needs_any_more_is_released_and_not_lost(root, capsys):
    journal = Journal(Store.at(root).prepare(), LAYOUT, "w")
    journal.replay()
    journal.append([note(104.0, "RunFinished", stored_bytes=0)])
    (root / "new").unlink()
    assert inspected(capsys, root, "--files", "legs")[1] == "0 2 7 2.0 KiB released new"
    assert inspected(capsys, root)[-1] == "4.0 s the run is finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--files", "fused"], "run 1 stores no stage fused"),
        (["--run", "2"], "has no run 2"),
        (["--run", "0"], "has no run 0"),
        (["--run", "300"], "has no run 300"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(root, capsys, arguments, message):
    assert main(["inspect", str(root), *arguments]) == 4
    said = capsys.readouterr().err
    assert message in said
    assert "legs" in said or "it has 1" in said


def test_a_folder_that_is_no_store_is_refused(tmp_path, capsys):
    assert main(["inspect", str(tmp_path)]) == 4
    assert "is not a store of Rekindle" in capsys.readouterr().err


def test_an_edited_pipeline_is_told_as_it_is_now(root, capsys):
    stages = [{"name": name, "partitions": 3, "exchange": "blocking", "sink": None} for name in ("legs", "tails")]
    edit = {"again": [], "anew": ["legs"], "new": ["tails"], "gone": ["fused"], "stages": stages}
    told = note(105.0, "PipelineChanged", application="flights", run=1, fingerprints={}, **edit)
    journal = Journal(Store.at(root), LAYOUT, "w")
    journal.replay()
    journal.append([told])
    lines = inspected(capsys, root)
    assert [line.split()[0] for line in lines[3:5]] == ["legs", "tails"]
    assert lines[-1] == "5.0 s the pipeline has changed: made anew: legs; new: tails; gone: fused"
    assert len(inspected(capsys, root, "--files", "tails")) == 4


def finished(partition: int, number: int) -> Record:
    attempt = ExecutionAttemptID(ExecutionVertexID("legs", partition), number)
    told = ev.AttemptFinished(attempt, 106.0, ev.PartitionOutput(7, 2000, None, "n"))
    return {"t": 106.0, "kind": "event", "event": ev.to_record(told)}


def edit(**how: list[str]) -> Record:
    told = {"again": [], "anew": [], "new": [], "gone": [], **how}
    return note(105.0, "PipelineChanged", application="flights", run=1, fingerprints={}, stages=STAGES, **told)


RELEASE: Record = {"t": 105.0, "kind": "action", "action": "Release", "stage": "legs"}


@pytest.mark.parametrize(
    ("record", "state"),
    [(edit(anew=["legs"]), "discarded"), (edit(gone=["legs"]), "discarded"), (RELEASE, "released")],
)
def test_what_was_removed_is_not_called_lost_and_what_was_made_since_is(root, capsys, record, state):
    journal = Journal(Store.at(root), LAYOUT, "w")
    journal.replay()
    (root / "new").unlink()
    journal.append([finished(0, 0), record])
    assert inspected(capsys, root, "--files", "legs")[1] == f"0 2 7 2.0 KiB {state} new"
    journal.append([finished(0, 1)])
    assert inspected(capsys, root, "--files", "legs")[1] == "0 2 7 2.0 KiB new: No such file or directory new"


def test_an_edit_of_other_stages_removes_nothing(root, capsys):
    journal = Journal(Store.at(root), LAYOUT, "w")
    journal.replay()
    journal.append([edit(anew=["fused"], again=["legs"])])
    (root / "new").unlink()
    assert "No such file" in inspected(capsys, root, "--files", "legs")[1]
