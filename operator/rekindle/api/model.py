"""The base of all models, and validation errors as lines a user can act on."""

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """camelCase outside, snake_case inside; unknown fields and wrong types are errors; never changes.

    Python code may construct by either name; what comes from outside is read with `by_name=False`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


class _OnKubernetes:
    """Marks a field that is accepted everywhere and acts on Kubernetes only."""


_T = TypeVar("_T")
OnKubernetes = Annotated[_T, _OnKubernetes()]


def set_for_kubernetes(model: BaseModel, path: str = "") -> list[str]:
    """Paths of the fields that somebody set and that act on Kubernetes only, in the model's order."""
    found = []
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        where = f"{path}{field.alias or name}"
        if any(isinstance(mark, _OnKubernetes) for mark in field.metadata):
            found += [where] if name in model.model_fields_set and value is not None else []
        elif isinstance(value, BaseModel):
            found += set_for_kubernetes(value, f"{where}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                found += set_for_kubernetes(item, f"{where}[{index}].") if isinstance(item, BaseModel) else []
    return found


_EXPECTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, capitals aside; None when none is near."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: where, as aliases and list indices from the root, and what to write instead."""

    where: tuple[int | str, ...]
    what: str

    def __str__(self) -> str:
        return f"{_path(self.where)}: {self.what}" if self.where else self.what


def problems(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """The errors of validating `model`, in words that name the remedy."""
    found = []
    for detail in error.errors(include_url=False):
        where = detail["loc"]
        if detail["type"] == "extra_forbidden":
            what = _unknown(str(where[-1]), _model_at(model, where[:-1]))
        elif detail["type"] == "missing":
            what = "required, but not there"
        else:
            what = _wrong(detail["type"], detail["msg"], detail["input"], detail.get("ctx", {}))
        found.append(Problem(where, what))
    return found


def _unknown(name: str, model: type[BaseModel] | None) -> str:
    known = [field.alias or python_name for python_name, field in model.model_fields.items()] if model else []
    near = nearest(name, known)
    if near is not None:
        return f"unknown field; did you mean {near}?"
    return f"unknown field; known here: {', '.join(sorted(known))}"


def _wrong(kind: str, message: str, value: object, context: Mapping[str, Any]) -> str:
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind == "literal_error":
        return f"expected one of {context['expected']}, got {_shown(value)}"
    if kind in _EXPECTED:
        quotes = "; put it in quotes" if kind == "string_type" and isinstance(value, int | float) else ""
        return f"expected {_EXPECTED[kind]}, got {_shown(value)}{quotes}"
    return f"{message[:1].lower()}{message[1:]}, got {_shown(value)}"


def _shown(value: object) -> str:
    """A value as its writer knows it: YAML's word for it, cut to fit a line."""
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _path(where: tuple[int | str, ...]) -> str:
    """`("spec", "deps", "pyFiles", 0)` as `spec.deps.pyFiles[0]`."""
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _model_at(model: type[BaseModel], where: tuple[int | str, ...]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for step in where:
        if current is None:
            return None
        if isinstance(step, str):
            by_alias = {field.alias or name: field.annotation for name, field in current.model_fields.items()}
            current = _model_in(by_alias.get(step))
    return current


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that a field's type holds: itself, or under Optional, a list or a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (Union, types.UnionType, list, dict):
        for argument in typing.get_args(annotation):
            if (found := _model_in(argument)) is not None:
                return found
    return None
