"""Rules between fields that only Kubernetes asks for, each in two notations: CEL for the API server, and Python."""

from collections.abc import Callable
from dataclasses import dataclass

from rekindle.api.spark_application import SparkApplicationSpec


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a spec; `field` is the path, from the spec, that is named where it does not."""

    field: str
    cel: str
    message: str
    is_broken: Callable[[SparkApplicationSpec], bool] = lambda _: False
    """Never, where the models themselves refuse it."""

    @property
    def where(self) -> tuple[str, ...]:
        """The path from the root."""
        return ("spec", *self.field.split("."))


def _main_class_is_missing(spec: SparkApplicationSpec) -> bool:
    return spec.type in ("Java", "Scala") and not spec.main_class


def _selects_nodes_twice(spec: SparkApplicationSpec) -> bool:
    own = spec.driver.node_selector, spec.executor.node_selector
    return spec.node_selector is not None and any(selector is not None for selector in own)


def _least_above_most(spec: SparkApplicationSpec) -> bool:
    dynamic = spec.dynamic_allocation
    if dynamic is None or dynamic.min_executors is None or dynamic.max_executors is None:
        return False
    return dynamic.min_executors > dynamic.max_executors


def _first_above_most(spec: SparkApplicationSpec) -> bool:
    dynamic = spec.dynamic_allocation
    if dynamic is None or dynamic.initial_executors is None or dynamic.max_executors is None:
        return False
    return dynamic.initial_executors > dynamic.max_executors


def _instances_above_most(spec: SparkApplicationSpec) -> bool:
    dynamic = spec.dynamic_allocation
    if dynamic is None or not dynamic.enabled or dynamic.max_executors is None:
        return False
    return spec.executor.instances is not None and spec.executor.instances > dynamic.max_executors


RULES = (
    Rule(
        "recovery.storage",
        "!has(self.recovery) || !has(self.recovery.storage)"
        " || has(self.recovery.storage.claimName) != has(self.recovery.storage.claimTemplate)",
        "recovery.storage: write either claimName or claimTemplate",
    ),
    Rule(
        "recovery.storage",
        "!has(self.recovery) || !has(self.recovery.storage) || !has(self.recovery.storage.claimName)"
        " || !has(self.recovery.storage.whenCompleted) || self.recovery.storage.whenCompleted != 'Delete'",
        "recovery.storage: whenCompleted: Delete is for claimTemplate; a claim that was brought stays",
    ),
    Rule(
        "speculation.enabled",
        "!has(self.workload) || self.workload != 'Streaming' || !has(self.speculation)"
        " || !has(self.speculation.enabled) || !self.speculation.enabled",
        "speculation.enabled is true and workload is Streaming: only tasks that end can be slow; "
        "set speculation.enabled to false or workload to Batch",
    ),
    Rule(
        "mainClass",
        "!(self.type in ['Java', 'Scala']) || (has(self.mainClass) && self.mainClass != '')",
        "mainClass is not there and type is Java or Scala; write the class to run",
        _main_class_is_missing,
    ),
    Rule(
        "nodeSelector",
        "!has(self.nodeSelector) || !((has(self.driver) && has(self.driver.nodeSelector))"
        " || (has(self.executor) && has(self.executor.nodeSelector)))",
        "nodeSelector is there, and one of driver or executor too; keep either the application's or theirs",
        _selects_nodes_twice,
    ),
    Rule(
        "dynamicAllocation.minExecutors",
        "!has(self.dynamicAllocation) || !has(self.dynamicAllocation.minExecutors)"
        " || !has(self.dynamicAllocation.maxExecutors)"
        " || self.dynamicAllocation.minExecutors <= self.dynamicAllocation.maxExecutors",
        "minExecutors is more than maxExecutors; lower it or raise maxExecutors",
        _least_above_most,
    ),
    Rule(
        "dynamicAllocation.initialExecutors",
        "!has(self.dynamicAllocation) || !has(self.dynamicAllocation.initialExecutors)"
        " || !has(self.dynamicAllocation.maxExecutors)"
        " || self.dynamicAllocation.initialExecutors <= self.dynamicAllocation.maxExecutors",
        "initialExecutors is more than maxExecutors; lower it or raise maxExecutors",
        _first_above_most,
    ),
    Rule(
        "executor.instances",
        "!has(self.executor) || !has(self.executor.instances) || !has(self.dynamicAllocation)"
        " || !has(self.dynamicAllocation.enabled) || !self.dynamicAllocation.enabled"
        " || !has(self.dynamicAllocation.maxExecutors)"
        " || self.executor.instances <= self.dynamicAllocation.maxExecutors",
        "instances is more than dynamicAllocation.maxExecutors; lower it or raise maxExecutors",
        _instances_above_most,
    ),
)
