"""The volumes of an application's own store: which of them are gone, with what was on them.

A volume is gone where its claim is: deleted, or `Lost` because somebody deleted its PersistentVolume. The attempt that
mounted it ends, for its pods and those that come would not see the same files; the next one gets a new, empty volume,
and makes again what was on the old one (S7-9). A claim that is on its way out holds as long as pods mount it, and so
does the attempt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rekindle.api.spark_application import SparkApplicationSpec
from rekindle.controller.resources import Object
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.storage import StoreVolume, store_volumes


@dataclass(frozen=True, slots=True)
class LostVolume:
    """A volume of the store that is gone. `number` as in the store; None: the one with the journal."""

    claim: str
    number: int | None
    why: str


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What the claims of an application's own store tell.

    Attributes:
        lost: gone, with what was on them.
        going: claims that somebody has deleted, and pods still hold.
    """

    lost: tuple[LostVolume, ...] = ()
    going: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """What is wrong, in a sentence; empty where nothing is."""
        lost = [f"claim {one.claim} of spec.recovery.storage {one.why}" for one in self.lost]
        going = [
            f"claim {claim} of spec.recovery.storage was deleted: the pods that mount it go on, no new one can start"
            for claim in self.going
        ]
        return "; ".join([*lost, *going])


def own_volumes(spec: SparkApplicationSpec, names: AttemptNames) -> list[StoreVolume]:
    """Those that were made for the application; none where it has none, or brought one."""
    storage = spec.recovery.storage
    return store_volumes(spec, names) if storage is not None and storage.claim_template is not None else []


def is_lost(claim: Object | None) -> bool:
    """Whether what was on it cannot be reached any more."""
    return claim is None or (claim.get("status") or {}).get("phase") == "Lost"


def volume_facts(volumes: Iterable[StoreVolume], claims: Mapping[str, Object]) -> VolumeFacts:
    """What `claims`, by name, tell of those volumes. A claim that is not among them was deleted."""
    lost, going = [], []
    for volume in volumes:
        claim = claims.get(volume.claim)
        if is_lost(claim):
            why = "was deleted" if claim is None else "has lost its PersistentVolume"
            lost.append(LostVolume(volume.claim, volume.number, why))
        elif claim is not None and "deletionTimestamp" in claim["metadata"]:
            going.append(volume.claim)
    return VolumeFacts(tuple(lost), tuple(going))
