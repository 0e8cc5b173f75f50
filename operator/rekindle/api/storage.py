"""Where a pipeline's results lie on a cluster: volumes that driver and executors mount (`spec.recovery.storage`)."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from rekindle.api.model import ApiModel
from rekindle.api.quantities import KubernetesQuantity

_ClaimName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]

_AccessMode = Literal["ReadWriteMany", "ReadWriteOnce"]


def volume_folder(volume: int) -> str:
    """Where one of several volumes is mounted (`recovery.volumes`), relative to the store."""
    return f"volume-{volume}"


def volume_of(partition: int, volumes: int) -> int:
    """On which of several volumes a result partition lies."""
    return partition % volumes


class StorageRequests(ApiModel):
    """What a claim asks for."""

    storage: KubernetesQuantity
    """Bytes, such as 100Gi."""


class StorageResources(ApiModel):
    """What a claim asks for, as in a PersistentVolumeClaim."""

    requests: StorageRequests
    """At least so much."""


class ShuffleVolumesSpec(ApiModel):
    """A volume for each executor's shuffle files, which the executor that replaces a lost one takes over."""

    size: KubernetesQuantity
    """Bytes of each, such as 100Gi."""

    storage_class_name: str | None = None
    """The class that makes them. Unset: the cluster's default class."""


class ClaimTemplate(ApiModel):
    """The spec of a PersistentVolumeClaim; the fields are Kubernetes'."""

    resources: StorageResources
    """How much is asked for."""

    access_modes: list[_AccessMode] = Field(default=["ReadWriteMany"], min_length=1)
    """How it may be mounted. Pods on several nodes need ReadWriteMany, which is the default; ReadWriteOnce does where
    all pods are on one node."""

    storage_class_name: str | None = None
    """The class that makes the volume. Unset: the cluster's default class."""

    selector: dict[str, Any] | None = None
    """Labels of the volumes that may be taken, as in Kubernetes."""

    volume_attributes_class_name: str | None = None
    """A class of attributes that can be changed later."""


class StorageSpec(ApiModel):
    """A volume for the stored results; one of the two fields."""

    claim_name: _ClaimName | None = None
    """A PersistentVolumeClaim that is there, in the application's namespace. Results lie in a folder with the
    application's name; nobody removes it."""

    claim_template: ClaimTemplate | None = None
    """A claim that is made for the application, and goes with it."""

    when_completed: Literal["Retain", "Delete"] = "Retain"
    """What becomes of claims that were made for it when it is COMPLETED: kept until the application is deleted, or
    deleted at once, with the pods of its ended drivers, which hold them, and so their logs."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.claim_name is None) == (self.claim_template is None):
            raise ValueError("write either claimName or claimTemplate")
        if self.claim_name is not None and self.when_completed == "Delete":
            raise ValueError("whenCompleted: Delete is for claimTemplate; a claim that was brought stays")
        return self
