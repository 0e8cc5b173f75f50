"""`rekindle inspect`: what a store holds, and what happened, told from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.core.events import AttemptFinished, from_record
from rekindle.runtime.committed import CommittedPartitions
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.journal import Record, read_run
from rekindle.runtime.layout import IDENTITY, RunLayout, run_numbers
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.report import ReportFold
from rekindle.runtime.store import Store
from rekindle.runtime.story import describe

_RIGHT = {"partitions", "rows", "size", "attempts", "copies", "rerun", "seconds", "partition", "version"}
_ENDS: dict[str, Callable[[Record], str]] = {
    "DriverStarted": lambda record: f"driver {record['attempt']} starts",
    "RunFinished": lambda record: "the run is finished",
    "RunFailed": lambda record: (
        f"the run failed: {(record.get('error') or {}).get('message', 'for an unknown reason')}"
    ),
    "RunInterrupted": lambda record: "the run was interrupted; the next one goes on here",
}


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run of a store."""

    store: Store
    number: int
    records: Sequence[Record]

    @classmethod
    def find(cls, store: Store, number: int | None = None) -> StoredRun:
        """Run `number` of a store, the newest by default.

        Raises:
            StoreRefused: there is no store, or no such run, or its journal is damaged.
        """
        if not store.exists(IDENTITY):
            raise StoreRefused(
                f"{store} is not a store of Rekindle",
                remedy="name the place of --store or recovery.store; without either, .rekindle/<application> "
                "beside the manifest",
            )
        numbers = run_numbers(store)
        chosen = number if number is not None else max(numbers, default=0)
        if chosen not in numbers:
            there = f"it has {', '.join(map(str, numbers))}" if numbers else "it has none"
            which = "yet" if number is None else number
            raise StoreRefused(f"{store} has no run {which}", remedy=f"{there}; see --run")
        return cls(store, chosen, read_run(store, chosen))

    def overview(self) -> str:
        """Stages, sinks, and what happened."""
        fold = ReportFold()
        for record in self.records:
            fold.add(record)
        report = fold.report()
        drivers = f"{report['drivers']} driver{'s' if report['drivers'] != 1 else ''}"
        parts = [
            f"{report['application']}, run {self.number}: {report['state']}; {drivers}, {report['seconds']:.1f} s",
            table([_stage_row(stage) for stage in report["stages"]]),
            _balance(report),
            *(f"sink {sink['stage']}: {sink['path']} ({sink['files']} files)" for sink in report["sinks"]),
            "\n".join(["what happened", *self._story()]),
        ]
        return "\n\n".join(part for part in parts if part)

    def files(self, stage: str) -> str:
        """The stored partitions of a stage, with the newest version of each.

        Raises:
            StoreRefused: the run has no such stage.
        """
        known = self._stored_stages()
        if stage not in known:
            raise StoreRefused(
                f"run {self.number} stores no stage {stage}", remedy=f"it stores {', '.join(sorted(known)) or 'none'}"
            )
        committed = CommittedPartitions(self.store, RunLayout(self.number))
        newest: dict[int, Manifest] = {}
        for manifest in sorted(committed.scan(stage), key=lambda one: one.version):
            newest[manifest.partition] = manifest
        removed = self._removed(stage, known[stage])
        missing = committed.all_missing(list(newest.values()))
        rows = [
            _file_row(partition, newest.get(partition), missing.get(partition), removed.get(partition))
            for partition in range(known[stage])
        ]
        damaged = [
            f"damaged manifest: partition {p} version {v}: {why}" for (_, p, v), why in committed.damaged.items()
        ]
        return "\n".join([table(rows), *damaged])

    def stages(self) -> dict[str, Mapping[str, Any]]:
        """[stage -> what the journal says of it], producers first: as the pipeline is since it was edited last."""
        told = (one for one in reversed(self.records) if one.get("note") in ("RunStarted", "PipelineChanged"))
        latest: Record = next(told, {"stages": []})
        return {one["name"]: one for one in latest["stages"]}

    def _stored_stages(self) -> dict[str, int]:
        """[stage -> number of partitions]"""
        return {name: one["partitions"] for name, one in self.stages().items() if one["exchange"] == "blocking"}

    def _removed(self, stage: str, partitions: int) -> dict[int, str]:
        """[partition whose files were removed, and which was not made since -> why, in a word]"""
        removed: dict[int, str] = {}
        for record in self.records:
            why = _removes(record, stage)
            if why is not None:
                removed = dict.fromkeys(range(partitions), why)
            elif (made := _made(record, stage)) is not None:
                removed.pop(made, None)
        return removed

    def _story(self) -> list[str]:
        first = self.records[0]["t"] if self.records else 0.0
        return [
            f"{record['t'] - first:8.1f} s  {text}" for record in self.records if (text := _told(record)) is not None
        ]


def _balance(report: Mapping[str, Any]) -> str:
    """What recoveries saved, and what all of it cost."""
    saved, spent, times = report["saved"], report["spent"], len(report["recoveries"])
    parts = [f"{spent['copyTaskSeconds']:.1f} s in copies", f"{spent['rerunTaskSeconds']:.1f} s in tasks made again"]
    recoveries = f"saved {saved['taskSeconds']:.1f} s of tasks in {times} recover{'y' if times == 1 else 'ies'}; "
    return f"{recoveries if times else ''}spent {', '.join(parts)}, {size(spent['storedBytes'])} stored"


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Aligned columns under their names; "" without rows."""
    if not rows:
        return ""
    names = list(rows[0])
    lines = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    return "\n".join(_line(line, names, widths) for line in lines)


def _line(cells: Iterable[str], names: Sequence[str], widths: Sequence[int]) -> str:
    aligned = (
        cell.rjust(width) if name in _RIGHT else cell.ljust(width)
        for cell, name, width in zip(cells, names, widths, strict=True)
    )
    return "  ".join(aligned).rstrip()


def _told(record: Record) -> str | None:
    end = _ENDS.get(str(record.get("note")))
    return end(record) if end is not None else describe(record)


def _stage_row(stage: Mapping[str, Any]) -> dict[str, object]:
    return {
        "stage": stage["name"],
        "state": stage["state"],
        "partitions": stage["partitions"],
        "rows": stage["rows"] if stage["rows"] is not None else "",
        "size": size(stage["bytes"]) if stage["bytes"] is not None else "",
        "attempts": stage["attempts"],
        "copies": stage["speculativeLaunched"],
        "rerun": stage["rerun"],
        "seconds": f"{stage['seconds']:.1f}" if stage["seconds"] is not None else "",
        "digest": stage["digest"] or "",
    }


def _removes(record: Record, stage: str) -> str | None:
    """Why what there is of a stage is removed with this record: nobody needs it any more, or it fits an edited pipeline
    no more. None where it is not."""
    if record.get("note") == "RunFinished" or (record.get("action"), record.get("stage")) == ("Release", stage):
        return "released"
    edited = [*record.get("anew", ()), *record.get("gone", ())] if record.get("note") == "PipelineChanged" else ()
    return "discarded" if stage in edited else None


def _made(record: Record, stage: str) -> int | None:
    """The partition of a stage that has been made, as this record tells."""
    event = from_record(record["event"]) if record["kind"] == "event" else None
    vertex = event.attempt.vertex_id if isinstance(event, AttemptFinished) else None
    return vertex.subtask if vertex is not None and vertex.vertex == stage else None


def _file_row(partition: int, manifest: Manifest | None, missing: str | None, removed: str | None) -> dict[str, object]:
    if manifest is None:
        empty = {"version": "", "rows": "", "size": "", "state": "not stored", "file": ""}
        return {"partition": partition, **empty}
    return {
        "partition": partition,
        "version": manifest.version,
        "rows": manifest.rows,
        "size": size(manifest.bytes),
        "state": (removed or missing) if missing else "whole",
        "file": " ".join(file.path for file in manifest.files) or "(empty)",
    }


def size(count: int) -> str:
    """Bytes in the unit that suits them: `1.5 MiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
