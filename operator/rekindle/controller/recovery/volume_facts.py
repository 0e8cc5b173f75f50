"""The volumes of an application's own store: which of them are gone, with what was on them.

A volume is gone where its claim is: deleted, or `Lost` because somebody deleted its PersistentVolume. The attempt that
mounted it ends, for its pods and those that come would not see the same files; the next one gets a new, empty volume,
and makes again what was on the old one (S7-9). A claim that is on its way out holds as long as pods mount it, and so
does the attempt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.api.spark_application import SparkApplicationSpec
from rekindle.controller.resources import Object, is_owned_by, uid_of
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.storage import StoreVolume, store_volumes


@dataclass(frozen=True, slots=True)
class GoneVolume:
    """A volume of the store that is gone, or going. `number` as in the store; None: the one with the journal."""

    claim: str
    number: int | None
    why: str


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """What the claims of an application's own store tell.

    Attributes:
        lost: gone, with what was on them.
        going: their claims were deleted, and pods still hold them.
        there: the uids of the claims that are there, by volume.
        own: the claims that exist, in whatever state, and belong to the application: nobody has taken them over.
    """

    lost: tuple[GoneVolume, ...] = ()
    going: tuple[GoneVolume, ...] = ()
    there: Mapping[int | None, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """What is wrong, in a sentence; empty where nothing is."""
        gone = [f"claim {one.claim} of spec.recovery.storage {one.why}" for one in (*self.lost, *self.going)]
        return "; ".join(gone)

    def emptied(self, known: Mapping[str, str]) -> set[int | None]:
        """The volumes that the next attempt finds empty: what is going never comes back, and a claim with another uid
        than the one that is `known` (`uids`) is another volume."""
        anew = {number for number, uid in self.there.items() if known.get(_word(number), uid) != uid}
        return anew | {one.number for one in (*self.lost, *self.going)}

    def uids(self) -> dict[str, str]:
        """The claims that are there, as the status keeps them."""
        return {_word(number): uid for number, uid in self.there.items()}


def own_volumes(spec: SparkApplicationSpec, names: AttemptNames) -> list[StoreVolume]:
    """Those that were made for the application; none where it has none, or brought one."""
    storage = spec.recovery.storage
    return store_volumes(spec, names) if storage is not None and storage.claim_template is not None else []


def is_lost(claim: Object) -> bool:
    """Whether what was on it cannot be reached any more."""
    return (claim.get("status") or {}).get("phase") == "Lost"


def is_going(claim: Object) -> bool:
    """Whether somebody has deleted it, and somebody else still holds it."""
    return "deletionTimestamp" in claim["metadata"]


def what_is_wrong(claim: Object | None) -> str | None:
    """What happened to a claim that is gone, or going; None where all is well."""
    if claim is not None and is_lost(claim):
        return "has lost its PersistentVolume"
    return "was deleted" if claim is None or is_going(claim) else None


def volume_facts(volumes: Iterable[StoreVolume], claims: Mapping[str, Object], uid: str) -> VolumeFacts:
    """What `claims`, by name, tell of those volumes, which are of the application with that uid.

    A claim that is not among them was deleted.
    """
    lost, going = [], []
    there: dict[int | None, str] = {}
    for volume in volumes:
        claim = claims.get(volume.claim)
        why = what_is_wrong(claim)
        if claim is not None and why is None:
            there[volume.number] = uid_of(claim)
        elif claim is None or is_lost(claim):
            lost.append(GoneVolume(volume.claim, volume.number, str(why)))
        else:
            told = f"{why}: the pods that mount it go on, no new one can start"
            going.append(GoneVolume(volume.claim, volume.number, told))
    own = tuple(name for name, claim in claims.items() if is_owned_by(claim, uid))
    return VolumeFacts(tuple(lost), tuple(going), there, own)


def _word(number: int | None) -> str:
    return "journal" if number is None else str(number)
