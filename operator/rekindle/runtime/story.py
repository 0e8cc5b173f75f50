"""The journal's records as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rekindle.core.ranges import ranges_of, shown
from rekindle.runtime.journal import Record

_LONGEST = 240
"""Characters of a line: causes quote Spark, and the report has them whole."""


def describe(record: Record) -> str | None:
    """A record as a line for people, None for what is too much to tell."""
    name = record.get("note") or record.get("action")
    describer = _LINES.get(str(name))
    if describer is None:
        return None
    line = describer(record)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _restart(record: Mapping[str, Any]) -> str:
    by_vertex: dict[str, list[int]] = {}
    for vertex, subtask in record["vertices"]:
        by_vertex.setdefault(vertex, []).append(subtask)
    rerun = ", ".join(f"{vertex}[{shown(ranges_of(tasks))}]" for vertex, tasks in by_vertex.items())
    kept = f"{record['reused']} partitions reused"
    return f"recovery: {record['cause']}; runs again: {rerun or 'nothing'}; {kept}"


def _source(record: Mapping[str, Any]) -> str:
    known = f", {record['settled']} of them settled before" if record["settled"] else ""
    return f"source {record['stage']}: {record['splits']} splits{known}"


def _loop(record: Mapping[str, Any]) -> str:
    scopes = [
        f"{one['loop']} {one['activations']} activations" + (f", {one['waiting']} wait" if one["waiting"] else "")
        for one in record["scopes"]
    ]
    return f"loop {'has ended' if record['ended'] else 'goes on'}: {'; '.join(scopes)}"


def _pipeline_changed(record: Mapping[str, Any]) -> str:
    parts = {"made again": "again", "made anew": "anew", "new": "new", "gone": "gone"}
    told = [f"{how}: {', '.join(record[key])}" for how, key in parts.items() if record[key]]
    return f"the pipeline has changed: {'; '.join(told) or 'no stored stage'}"


def _copies(record: Mapping[str, Any]) -> str:
    return "copies of slow tasks: " + ", ".join(f"{stage}[{task}]" for stage, task, _ in record["attempts"])


_LINES = {
    "StageStarted": lambda r: f"stage {r['stage']}: {r['partitions']} partitions",
    "SourceOpened": _source,
    "LoopProgressed": _loop,
    "StageWaits": lambda r: f"stage {r['stage']} waits: {r['reason']}",
    "StageFinished": lambda r: f"stage {r['stage']}: finished, {r['rows']} rows, {r['bytes']} bytes",
    "SinkNotCommitted": lambda r: f"sink {r['stage']}: {r['state'].lower()}: {r['reason']}",
    "SinkPublished": lambda r: f"sink {r['stage']}: {r['path']}",
    "ExecutorsLost": lambda r: f"executors lost on {', '.join(r['nodes'])}",
    "PartitionsLost": lambda r: f"lost: {r['stage']}[{shown(ranges_of(r['partitions']))}]: {r['reason']}",
    "ExchangeNotServed": lambda r: f"the operator cannot tell of blocked nodes: {r['reason']}",
    "ExecutorGivenUp": lambda r: f"executor on {r['node']} {r['how']}: {r['reason']}",
    "RerunRequested": lambda r: f"stage {r['stage']} is to be made again, asked for by {r['by']}",
    "PipelineChanged": _pipeline_changed,
    "Restart": _restart,
    "Block": lambda r: f"node {r['node']} blocked: {r['cause']}",
    "Unblock": lambda r: f"node {r['node']} no longer blocked: {r['reason']}",
    "BlockRefused": lambda r: f"node {r['node']} not blocked: {r['reason']}",
    "Speculate": _copies,
}
