"""A copy of one kind of objects, kept current by list and watch, with the selector applied by the server.

Kopf's watches take no selector and would stream every pod of the cluster; the official client's informer runs
in a thread of its own. This one is a task: list, then watch from the list's version; the end of a stream or a
lost connection goes on from the last version seen, and a version that is too old begins again with a list,
whose difference to the copy is told as changes. Reading the copy is always allowed; it may be old, so nothing
that must not happen twice is decided on it alone.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from rekindle.controller.kube import Gone, Kube, KubeError
from rekindle.controller.resources import Key, Object, Resource, key_of

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

IndexKey = Callable[[Object], str | None]
Trim = Callable[[Object], Object]
Listener = Callable[[Object | None, Object | None], None]
"""Told of each change: the object before (None: it is new) and after (None: it is gone)."""


class Informer:
    """Objects of `resource` in `namespace` (None: in all) that `selector` selects."""

    def __init__(
        self,
        kube: Kube,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: str = "",
        index: IndexKey = lambda body: None,
        trim: Trim = lambda body: body,
    ) -> None:
        """`index` gives each object a word by which `of` finds it; `trim` makes of it what is kept."""
        self._kube, self._resource = kube, resource
        self._namespace, self._selector, self._index, self._trim = namespace, selector, index, trim
        self._objects: dict[Key, Object] = {}
        self._by_word: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        self._listeners: list[Listener] = []
        self._listed = asyncio.Event()
        self._version = ""

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of each change from now on; it must not raise."""
        self._listeners.append(listener)

    async def wait_until_listed(self) -> None:
        """Until the copy is complete for the first time."""
        await self._listed.wait()

    @property
    def is_listed(self) -> bool:
        """Whether the copy has been complete once."""
        return self._listed.is_set()

    def get(self, key: Key) -> Object | None:
        """The object, None where there is none."""
        return self._objects.get(key)

    def of(self, word: str) -> list[Object]:
        """The objects to which the index gave `word`."""
        return list(self._by_word.get(word, {}).values())

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    async def run(self) -> None:
        """Keep the copy current, for ever; errors are logged and tried again with growing pauses."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._list()
                began = time.monotonic()
                async for kind, body in self._kube.watch(
                    self._resource, self._namespace, self._selector, self._version
                ):
                    pause = _FIRST_PAUSE
                    self._apply(kind, body)
                if (
                    time.monotonic() - began < _FIRST_PAUSE
                ):  # a server that ends it at once is not asked without a pause
                    await asyncio.sleep(_FIRST_PAUSE)
            except Gone:
                self._version = ""
                await asyncio.sleep(_FIRST_PAUSE)
            except KubeError as error:
                log.warning("%s: %s; trying again in %.1f s", self._resource.plural, error, pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _list(self) -> None:
        try:
            items, version = await self._kube.list_all(self._resource, self._namespace, self._selector)
        except Gone as error:
            if error.status == 404:  # there is no such kind, and there may not be one for long
                raise KubeError(404, f"the cluster does not know {self._resource.plural}: {error}") from None
            raise
        present = {key_of(item) for item in items}
        for key in [key for key in self._objects if key not in present]:
            self._put(key, None)
        for item in items:
            self._put(key_of(item), item)
        self._version = version
        self._listed.set()

    def _apply(self, kind: str, body: Object) -> None:
        self._version = body["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            self._put(key_of(body), None if kind == "DELETED" else body)

    def _put(self, key: Key, body: Object | None) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            self._forget_word(key, before)
        if body is not None:
            body["metadata"].pop("managedFields", None)  # a third of a pod, and never read
            body = self._trim(body)
            self._objects[key] = body
            if (word := self._index(body)) is not None:
                self._by_word[word][key] = body
        if _version(before) != _version(body):
            self._tell(before, body)

    def _forget_word(self, key: Key, body: Object) -> None:
        if (word := self._index(body)) is not None:
            self._by_word[word].pop(key, None)
            if not self._by_word[word]:
                del self._by_word[word]

    def _tell(self, before: Object | None, after: Object | None) -> None:
        for listener in self._listeners:
            listener(before, after)


def _version(body: Object | None) -> str | None:
    """By this, not by what is in them, are objects compared: a watch says their kind, a list does not."""
    return None if body is None else body["metadata"]["resourceVersion"]


class Union:
    """The copies of several namespaces as one."""

    def __init__(self, informers: Sequence[Informer]) -> None:
        self._informers = informers

    def listen(self, listener: Listener) -> None:
        for informer in self._informers:
            informer.listen(listener)

    async def wait_until_listed(self) -> None:
        for informer in self._informers:
            await informer.wait_until_listed()

    @property
    def is_listed(self) -> bool:
        return all(informer.is_listed for informer in self._informers)

    def get(self, key: Key) -> Object | None:
        return next((found for informer in self._informers if (found := informer.get(key)) is not None), None)

    def of(self, word: str) -> list[Object]:
        return [body for informer in self._informers for body in informer.of(word)]

    def __iter__(self) -> Iterator[Object]:
        return (body for informer in self._informers for body in informer)

    def __len__(self) -> int:
        return sum(map(len, self._informers))

    async def run(self) -> None:
        """Keep all of them current, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
