"""pytest plugin of `make mutants`: tests with drawn examples come last, since most mutants die of a plain test."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_has_drawn_examples)


def _has_drawn_examples(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
