"""Objects drawn from a structural schema, and one thing in them made wrong."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

_TEXT = st.text("ab-/.= ", max_size=6)
_OTHER = [-1, 0, 1, 2, 7, 10**6, 0.5, 1.5, "", "lots", "0", "-1s", "3", None, True, [], {}, ["a"], {"a": "b"}]


def other_values(schema: dict[str, Any]) -> list[Any]:
    """What to write in place of a value; not what only the models take, for the API server knows no such type:
    a ratio as a text, a fraction of a second or of a byte as a number."""
    if schema.get("type") == "number":
        return [value for value in _OTHER if not isinstance(value, str)]
    if schema.get("x-kubernetes-int-or-string"):
        return [value for value in _OTHER if not isinstance(value, float)]
    return _OTHER


def leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Path and schema of every field, but those inside lists and maps."""
    for name, field in schema.get("properties", {}).items():
        yield (*path, name), field
        yield from leaves(field, (*path, name))


def drawn(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that `schema` takes, most of their optional fields left out."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        units = ["", "s", "m", "min", "H"] if "hHdD" in schema["pattern"] else ["", "k", "MB", "giB"]
        numbers = st.integers(schema["minimum"], 1000)
        return numbers | st.builds("{}{}".format, numbers, st.sampled_from(units))
    match schema["type"]:
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        case "string":
            return _TEXT
        case "integer":
            return st.integers(schema.get("minimum", 0), schema.get("maximum", 10**6))
        case "number":
            exclusive = schema.get("exclusiveMinimum", False), schema.get("exclusiveMaximum", False)
            least, most = schema.get("minimum", 0), schema.get("maximum", 100)
            return st.floats(least, most, exclude_min=exclusive[0], exclude_max=exclusive[1])
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(drawn(schema["items"]), max_size=2)
    return _mapping(schema)


def _mapping(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        values = drawn(schema["additionalProperties"]) if "additionalProperties" in schema else st.just({"any": 1})
        return st.dictionaries(st.sampled_from(["a", "b.c"]), values, max_size=2)

    @st.composite
    def some(draw: st.DrawFn) -> dict[str, Any]:
        fields, required = schema["properties"], schema.get("required", [])
        chosen = set(draw(st.lists(st.sampled_from(sorted(fields)), max_size=3)))
        return {name: draw(drawn(fields[name])) for name in fields if name in required or name in chosen}

    return some()


def places(schema: dict[str, Any], value: Any, path: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    """Paths of everything in `value` that the schema knows."""
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            field = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if field is not None:
                yield from places(field, value[name], (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(schema["items"], item, (*path, index))


def schema_at(schema: dict[str, Any], path: tuple[int | str, ...]) -> dict[str, Any]:
    """The schema of what is at `path`."""
    for step in path:
        if isinstance(step, int):
            schema = schema["items"]
        else:
            schema = schema.get("properties", {}).get(step) or schema["additionalProperties"]
    return schema


@st.composite
def made_wrong(draw: st.DrawFn, schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """`value` with another thing at one place, or without it, or with an unknown field beside it."""
    wrong = copy.deepcopy(value)
    path = draw(st.sampled_from(list(places(schema, value))))
    parent: Any = wrong
    for step in path[:-1]:
        parent = parent[step]
    kind = draw(st.sampled_from(["another", "another", "another", "none", "unknown"]))
    if kind == "another":
        parent[path[-1]] = draw(st.sampled_from(other_values(schema_at(schema, path))))
    elif kind == "none":
        del parent[path[-1]]
    elif isinstance(parent, dict) and "properties" in schema_at(schema, path[:-1]):
        parent["unknownField"] = 1
    return wrong
