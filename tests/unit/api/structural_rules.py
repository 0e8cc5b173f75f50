"""The rules of a structural schema (apiextensions.k8s.io/v1), as the API server checks them."""

from collections.abc import Iterator
from typing import Any

_TYPES = {"object", "array", "string", "integer", "number", "boolean"}
_KEYS = {
    *("description", "type", "nullable", "enum", "format", "pattern", "minLength", "maxLength", "minItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "required", "properties", "additionalProperties"),
    *("items", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
}


def violations(schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """What the API server would refuse in `schema`, or what nobody asked for."""
    yield from (f"{where}: {key}" for key in schema if key not in _KEYS)
    if schema.get("x-kubernetes-int-or-string"):
        yield from [f"{where}: a type beside int-or-string"] if "type" in schema else []
    elif schema.get("type") not in _TYPES:
        yield f"{where}: no type"
    for flag in ("exclusiveMinimum", "exclusiveMaximum"):
        if flag in schema and (schema[flag] is not True or flag.removeprefix("exclusive").lower() not in schema):
            yield f"{where}: {flag} is a flag beside the bound"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{where}: properties and additionalProperties"
    yield from _of_lists(schema, where)
    yield from _of_rules(schema, where)
    for name, field in schema.get("properties", {}).items():
        yield from violations(field, f"{where}.{name}")
    for name in ("additionalProperties", "items"):
        if name in schema:
            yield from violations(schema[name], f"{where}.{name}")


def _of_lists(schema: dict[str, Any], where: str) -> Iterator[str]:
    if schema.get("type") != "array":
        return
    if "items" not in schema:
        yield f"{where}: a list without items"
        return
    kind, item = schema.get("x-kubernetes-list-type"), schema["items"]
    if kind not in ("atomic", "set", "map"):
        yield f"{where}: list type {kind}"
    if kind == "map" and not set(schema["x-kubernetes-list-map-keys"]) <= set(item.get("required", ())):
        yield f"{where}: a key of the list need not be there"
    if kind == "set" and item.get("type") in ("object", "array"):
        yield f"{where}: a set of what is no scalar"


def _of_rules(schema: dict[str, Any], where: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if "\n" in rule["message"] or not 0 < len(rule["message"]) <= 2048:
            yield f"{where}: a message of several lines, or too long"
        named: dict[str, Any] | None = schema
        for step in rule.get("fieldPath", "").removeprefix(".").split("."):
            named = named.get("properties", {}).get(step) if named and step else named
        if named is None:
            yield f"{where}: {rule['fieldPath']} is no field"


def undescribed(schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """Paths of the properties without a description."""
    for name, field in schema.get("properties", {}).items():
        if not field.get("description", "").endswith((".", ")")):
            yield f"{where}.{name}"
        yield from undescribed(field, f"{where}.{name}")
        for inner in ("items", "additionalProperties"):
            yield from undescribed(field.get(inner, {}), f"{where}.{name}")
