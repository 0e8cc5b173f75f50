"""Every field of the schema, wrong in turn: the API server refuses it, and says which one it is."""

import asyncio
import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from rekindle.controller.kube import Kube, Refused
from rekindle.controller.resources import SPARK_APPLICATION
from tests.cluster.deployment import JOBS, ROOT
from tests.cluster.marks import beside
from tests.kind.kubectl import kubeconfig

pytestmark = [pytest.mark.timeout(600), beside]

CRD = ROOT / "crds" / "sparkapplications.rekindle.dev.yaml"
Path = tuple[str | int, ...]

_OF_ANOTHER_TYPE: dict[str, Any] = {
    "integer": "many",
    "number": "many",
    "string": 7,
    "boolean": "perhaps",
    "array": {"not": "a list"},
    "object": ["not a mapping"],
}


def wrongs(schema: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any, str]]:
    """Each field of the schema with a value that it cannot have, and how the API server names the field."""
    kind = schema.get("type")
    if kind in _OF_ANOTHER_TYPE:
        yield path, _OF_ANOTHER_TYPE[kind], written(path)
    if "enum" in schema:
        yield path, "none-of-them", written(path)
    if "minimum" in schema:
        yield path, schema["minimum"] - 1, written(path)
    if kind == "object" and "properties" in schema:
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield (*path, "nonsense"), 1, written((*path, "nonsense"))
        for name, inner in schema["properties"].items():
            yield from wrongs(inner, (*path, name))
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        yield from wrongs(schema["additionalProperties"], (*path, "key"))
    elif kind == "array":
        yield from wrongs(schema["items"], (*path, 0))


def written(path: Path) -> str:
    """As the API server writes it, without what stands around the last name of it."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def with_wrong(manifest: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """The manifest with `value` there; what leads there is made."""
    changed = copy.deepcopy(manifest)
    place: Any = changed
    for step, following in itertools.pairwise(path):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(place, list):
            place.append(empty)
            place = place[0]
        else:
            if not isinstance(place.get(step), type(empty)):
                place[step] = empty
            place = place[step]
    if isinstance(place, list):
        place[:] = [value]
    else:
        place[path[-1]] = value
    return changed


async def answer(kube: Kube, manifest: dict[str, Any]) -> str:
    """What the API server says to it; empty if it would take it."""
    path = SPARK_APPLICATION.path(JOBS)
    try:
        await kube._call("POST", path, query={"dryRun": "All", "fieldValidation": "Strict"}, body=manifest)
    except Refused as refused:
        return str(refused)
    return ""


def test_every_field_is_refused_by_name_when_it_is_wrong(application, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig()))
    manifest = application("wrong", "pi.py").manifest
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    tried = list(wrongs(schema["properties"]["spec"], ("spec",)))

    async def case() -> list[str]:
        kube = await Kube.connect()
        try:
            assert await answer(kube, manifest) == ""
            unnamed = []
            for path, value, name in tried:
                said = await answer(kube, with_wrong(manifest, path, value))
                if name.replace(".key", "") not in said.replace("[key]", "").replace(".key", ""):
                    unnamed.append(f"{name} = {value!r}: {said[:300] or 'taken'}")
            return unnamed
        finally:
            await kube.close()

    assert len(tried) > 300
    assert asyncio.run(case()) == []
