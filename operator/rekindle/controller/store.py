"""The applications as last seen, from Kopf's watch and from the answers to our own writes, whichever is newer."""

from collections.abc import Callable, Iterable, Iterator

from rekindle.controller.resources import Key, Object, key_of, uid_of, version_of


class ApplicationStore:
    """Namespace and name to the stored object."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        """`changed` is told of each key that was put or removed."""
        self._bodies: dict[Key, Object] = {}
        self._changed = changed

    def get(self, key: Key) -> Object | None:
        return self._bodies.get(key)

    def put(self, body: Object) -> None:
        """Keep `body`, unless what is there is as new, or newer."""
        key = key_of(body)
        there = self._bodies.get(key)
        if there is not None and version_of(there) > version_of(body):
            return
        if "deletionTimestamp" in body["metadata"] and not body["metadata"].get("finalizers"):
            self.remove(body)  # it is gone with this very change
            return
        if there is not None and uid_of(there) == uid_of(body) and 0 < version_of(there) == version_of(body):
            return  # as after a patch of which the server takes nothing: to look again would be to patch again
        body["metadata"].pop("managedFields", None)
        self._bodies[key] = body
        self._changed(key)

    def remove(self, body: Object) -> None:
        """Forget the object with this uid."""
        key = key_of(body)
        there = self._bodies.get(key)
        if there is not None and uid_of(there) == uid_of(body):
            del self._bodies[key]
            self._changed(key)

    def replace(self, listed: Iterable[Object], version: str, namespace: str | None) -> None:
        """All that there is in `namespace` (None: in all) at that version: what is older and not listed is gone.

        Raises RuntimeError where one is listed as it was before: the cluster was restored from a backup.
        """
        present = set()
        for body in listed:
            present.add(uid_of(body))
            there = self._bodies.get(key_of(body))
            if there is not None and version_of(body) < version_of(there) <= int(version):
                raise RuntimeError(f"{key_of(body)} is as it was before: the cluster was restored from a backup")
            self.put(body)
        for body in self:
            mine = namespace in (None, body["metadata"]["namespace"])
            if mine and uid_of(body) not in present and version_of(body) <= int(version):
                self.remove(body)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._bodies.values()))

    def __len__(self) -> int:
        return len(self._bodies)
