"""From a pydantic model to a structural schema, the subset of JSON schema that apiextensions.k8s.io/v1 takes."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

from rekindle.api.quantities import DURATION_UNIT, format_duration

Schema: TypeAlias = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"

_KEPT = ("format", "pattern", "minLength", "maxLength", "minItems", "nullable", INT_OR_STRING, LIST_TYPE)


def structural(model: type[BaseModel], *, tell_defaults: bool = True) -> Schema:
    """The structural schema of `model` under its aliases.

    Defaults are told in descriptions and not set: what the API server wrote into a user's object would differ
    from what the user keeps in Git.
    """
    raw = model.model_json_schema(by_alias=True)
    return _Converter(raw.get("$defs", {}), tell_defaults).convert(raw)


class _Converter:
    def __init__(self, definitions: Mapping[str, Schema], tell_defaults: bool) -> None:
        self._definitions = definitions
        self._tell_defaults = tell_defaults

    def convert(self, raw: Schema) -> Schema:
        raw = self._inlined(raw)
        out: Schema = {}
        if description := self._description(raw):
            out["description"] = description
        if "type" in raw:
            out["type"] = raw["type"]
        if values := raw.get("enum") or ([raw["const"]] if "const" in raw else None):
            out["enum"] = list(values)
        out |= {key: raw[key] for key in _KEPT if key in raw}
        out |= _bounds(raw)
        if raw.get("type") == "array":
            out |= self._list(raw)
        if raw.get("type") == "object":
            out |= self._mapping(raw)
        return out

    def _inlined(self, raw: Schema) -> Schema:
        """`raw` without a reference and without the alternative null: what is beside them wins."""
        while "$ref" in raw or "anyOf" in raw:
            beside = {key: value for key, value in raw.items() if key not in ("$ref", "anyOf")}
            if "$ref" in raw:
                inner = self._definitions[raw["$ref"].rpartition("/")[2]]
            else:
                (inner,) = (choice for choice in raw["anyOf"] if choice.get("type") != "null")
            raw = {**inner, **beside}
        return raw

    def _description(self, raw: Schema) -> str:
        text = " ".join(raw.get("description", "").split())
        default = raw.get("default")
        if not self._tell_defaults or default in (None, "", [], {}) or isinstance(default, dict | list):
            return text
        return f"{text} Default: {_shown(raw, default)}."

    def _list(self, raw: Schema) -> Schema:
        items = self.convert(raw["items"])
        fields = items.get("properties", {})
        if {"type", "status", "lastTransitionTime"} <= set(fields):
            return {LIST_TYPE: "map", "x-kubernetes-list-map-keys": ["type"], "items": items}
        return {LIST_TYPE: "atomic", "items": items} | ({LIST_TYPE: raw[LIST_TYPE]} if LIST_TYPE in raw else {})

    def _mapping(self, raw: Schema) -> Schema:
        if "properties" in raw:
            fields = {name: self.convert(field) for name, field in raw["properties"].items()}
            return ({"required": list(raw["required"])} if raw.get("required") else {}) | {"properties": fields}
        values = raw.get("additionalProperties", True)
        return {PRESERVE: True} if values is True else {"additionalProperties": self.convert(values)}


def _bounds(raw: Schema) -> Schema:
    """Bounds as apiextensions has them: an exclusive one is a flag beside the bound."""
    out: Schema = {key: raw[key] for key in ("minimum", "maximum") if key in raw}
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if flag in raw:
            out |= {bound: raw[flag], flag: True}
    return out


def _shown(raw: Schema, default: object) -> str:
    if DURATION_UNIT in raw:
        assert isinstance(default, int | float)
        return format_duration(default)
    return str(default).lower() if isinstance(default, bool) else str(default)
