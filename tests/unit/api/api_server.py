"""What an API server makes of an object and a structural schema: nulls pruned, schema checked, CEL rules asked.

Only the CEL that the definitions use is known here; a field that is read and not there is an error, as in CEL.
"""

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft7Validator

_DATE_TIME = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$"


def stored(schema: dict[str, Any], value: Any) -> Any:
    """`value` without the nulls of fields that are not nullable."""
    if isinstance(value, list):
        return [stored(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        field = schema.get("properties", {}).get(name) or schema.get("additionalProperties") or {}
        if item is not None or field.get("nullable") or not field:
            kept[name] = stored(field, item)
    return kept


class ApiServer:
    """An API server that has one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._validator = Draft7Validator(_plain(schema))

    def stored(self, value: Any) -> Any:
        """`value` as the API server keeps it."""
        return stored(self.schema, value)

    def refusals(self, value: Any, old: Any = None) -> list[str]:
        """What it says against `value`, written over `old`; unknown fields are refused, as kubectl has it."""
        value = self.stored(value)
        found = [f"{_path(error.absolute_path)}: {error.message}" for error in self._validator.iter_errors(value)]
        return found or list(_broken_rules(self.schema, value, old, ""))


def _path(steps: Any) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as draft 7 has it."""
    plain = {key: value for key, value in schema.items() if not key.startswith(("x-", "exclusive", "format"))}
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    if schema.get("nullable"):
        plain["type"] = [plain["type"], "null"]
    if schema.get("format") == "date-time":
        plain["pattern"] = _DATE_TIME
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(flag):
            plain[flag] = plain.pop(bound)
    if "properties" in schema:
        plain["properties"] = {name: _plain(field) for name, field in schema["properties"].items()}
        plain["additionalProperties"] = False
    elif "additionalProperties" in schema:
        plain["additionalProperties"] = _plain(schema["additionalProperties"])
    if "items" in schema:
        plain["items"] = _plain(schema["items"])
    return plain


def _broken_rules(schema: dict[str, Any], value: Any, old: Any, where: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if ("oldSelf" not in rule["rule"] or old is not None) and not holds(rule["rule"], value, old):
            yield f"{where}{rule.get('fieldPath', '')}".removeprefix(".") + f": {rule['message']}"
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, field in schema.get("properties", {}).items():
            if name in value:
                yield from _broken_rules(field, value[name], before.get(name), f"{where}.{name}")


_STEPS = r"((?:\.[A-Za-z]+)+)"


def holds(rule: str, value: Any, old: Any = None) -> bool:
    """Whether a CEL rule holds of `value`."""
    python = re.sub(rf"has\(self{_STEPS}\)", r"_has('\1')", rule)
    python = re.sub(rf"\bself{_STEPS}\.matches\(", r"_matches('\1', ", python)
    python = re.sub(rf"\bself{_STEPS}", r"_get('\1')", python)
    python = re.sub(r"!(?!=)", " not ", python.replace("&&", " and ").replace("||", " or "))

    def get(path: str) -> Any:
        found = value
        for step in path.strip(".").split("."):
            found = found[step]
        return found

    def has(path: str) -> bool:
        parent, _, name = path.rpartition(".")
        return name in (get(parent) if parent else value)

    names = {
        "_has": has,
        "_get": get,
        "_matches": lambda path, pattern: re.search(pattern, get(path), re.ASCII) is not None,
        "self": value,
        "oldSelf": old,
    }
    return bool(eval(python, {"__builtins__": {}}, names))
