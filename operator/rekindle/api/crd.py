"""The CustomResourceDefinitions, made from the models: `python -m rekindle.api.crd FOLDER` writes them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel

from rekindle.api.application_status import ApplicationStatus
from rekindle.api.names import GROUP, LONGEST_NAME, NAME_PATTERN, NAME_RULE, VERSION
from rekindle.api.node_block import NodeBlock, NodeBlockSpec, NodeBlockStatus
from rekindle.api.rules import RULES
from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from rekindle.api.structural import Schema, structural
from rekindle.api.unsupported import UNSUPPORTED, Unsupported

Kind = Literal["SparkApplication", "NodeBlock"]
KINDS: tuple[Kind, ...] = ("SparkApplication", "NodeBlock")

_HEADER = "# Generated from operator/rekindle/api by `make crds`; do not edit.\n"
_RULES = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class _Definition:
    """What a definition has beside its schema."""

    model: type[BaseModel]
    spec: type[BaseModel]
    status: type[BaseModel]
    plural: str
    short_names: tuple[str, ...]
    scope: Literal["Namespaced", "Cluster"]
    columns: tuple[Schema, ...]


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")

_DEFINITIONS: dict[Kind, _Definition] = {
    "SparkApplication": _Definition(
        SparkApplication,
        SparkApplicationSpec,
        ApplicationStatus,
        "sparkapplications",
        ("sparkapp", "rkapp"),
        "Namespaced",
        (
            _column("State", ".status.applicationState.state"),
            _column("Attempts", ".status.executionAttempts", "integer"),
            _column("Executors", ".status.executors.running", "integer"),
            _AGE,
            _column("Node", ".status.driverInfo.nodeName", wide=True),
            _column("Recovering", ".status.conditions[?(@.type=='Recovering')].status", wide=True),
            _column("Suspend", ".spec.suspend", "boolean", wide=True),
            _column("Message", ".status.applicationState.errorMessage", wide=True),
        ),
    ),
    "NodeBlock": _Definition(
        NodeBlock,
        NodeBlockSpec,
        NodeBlockStatus,
        "nodeblocks",
        ("nodeblock", "nblock"),
        "Cluster",
        (
            _column("Node", ".spec.node"),
            _column("Action", ".spec.action"),
            _column("Active", ".status.active", "boolean"),
            _column("Reason", ".status.conditions[?(@.type=='Active')].reason"),
            _column("End", ".spec.end"),
            _AGE,
            _column("Cause", ".spec.cause", wide=True),
        ),
    ),
}


def custom_resource_definition(kind: Kind) -> dict[str, Any]:
    """The definition of `kind`, as JSON has it."""
    definition = _DEFINITIONS[kind]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": definition.scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": definition.plural,
                "singular": kind.lower(),
                "shortNames": [name for name in definition.short_names if name != kind.lower()],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(definition.columns),
                    "schema": {"openAPIV3Schema": _schema(kind)},
                }
            ],
        },
    }


def text(kind: Kind) -> str:
    """The definition of `kind` in YAML."""
    document = custom_resource_definition(kind)
    return _HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


def file_name(kind: Kind) -> str:
    """The name of the file that holds the definition of `kind`."""
    return f"{_DEFINITIONS[kind].plural}.{GROUP}.yaml"


def write(folder: Path) -> list[Path]:
    """One file for each kind in `folder`, which is made where it is missing; the files' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / file_name(kind) for kind in KINDS]
    for kind, path in zip(KINDS, paths, strict=True):
        path.write_text(text(kind), encoding="utf-8")
    return paths


class _Dumper(yaml.SafeDumper):
    """No anchors, and the items of a list are indented."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _schema(kind: Kind) -> Schema:
    definition = _DEFINITIONS[kind]
    own = {name: field.description for name, field in definition.model.model_fields.items()}
    spec = structural(definition.spec)
    status = structural(definition.status, tell_defaults=False)
    schema: Schema = {
        "description": definition.model.__doc__,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": own["api_version"], "type": "string"},
            "kind": {"description": own["kind"], "type": "string"},
            "metadata": {"type": "object"},
            "spec": {**spec, "description": own["spec"]},
            "status": {**status, "description": own["status"]},
        },
    }
    if kind == "SparkApplication":
        _add_application_rules(schema)
    else:
        _add_block_rules(schema)
    return schema


def _rule(cel: str, message: str, field: str = "", **more: str) -> Schema:
    return {"rule": cel, "message": message, **more, **({"fieldPath": f".{field}"} if field else {})}


def _add_rules(schema: Schema, rules: list[Schema]) -> None:
    schema[_RULES] = [*schema.get(_RULES, ()), *rules]


def _add_application_rules(schema: Schema) -> None:
    name = {"type": "string", "maxLength": LONGEST_NAME}
    schema["properties"]["metadata"]["properties"] = {"name": name}
    is_name = f"self.metadata.name.matches('{NAME_PATTERN}')"
    _add_rules(schema, [_rule(is_name, f"the name is not {NAME_RULE}", "metadata.name")])
    spec = schema["properties"]["spec"]
    _add_rules(spec, [_rule(rule.cel, rule.message, rule.field) for rule in RULES])
    for field in UNSUPPORTED:
        _refuse(schema, field)


def _refuse(schema: Schema, field: Unsupported) -> None:
    """A rule at the object that holds the field, so that the API server names the field's whole path."""
    *parents, name = field.steps
    for step in parents:
        schema = schema["properties"][step]
    cel = f"!has(self.{name})"
    if field.value is not None:
        refused = f"self.{name}" if field.value is True else f"self.{name} == '{field.value}'"
        cel += f" || !({refused})"
    _add_rules(schema, [_rule(cel, field.text, name, reason="FieldValueForbidden")])


def _add_block_rules(schema: Schema) -> None:
    spec = schema["properties"]["spec"]
    late = _rule("!has(self.start) || self.end > self.start", "end is not after start; choose a later end", "end")
    _add_rules(spec, [late])
    fixed = "the node cannot be changed; make another NodeBlock"
    _add_rules(spec["properties"]["node"], [_rule("self == oldSelf", fixed)])


def main(arguments: Sequence[str]) -> None:
    """Writes the definitions into the folder that the first argument names."""
    for path in write(Path(arguments[0])):
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
