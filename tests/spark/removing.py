"""Files that go while a pipeline runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.01


@contextmanager
def removing(find: Callable[[], Iterable[Path]], *, once: bool = False) -> Iterator[threading.Event]:
    """Remove what `find` finds, for as long as the block lasts or, `once`, the first files that there are; the event
    says that there were some."""
    over, removed = threading.Event(), threading.Event()

    def remove() -> None:
        while not over.wait(_LOOK_SECONDS) and not (once and removed.is_set()):
            with suppress(FileNotFoundError):  # a folder that went while it was looked through
                for file in find():
                    file.unlink(missing_ok=True)
                    removed.set()

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        yield removed
    finally:
        over.set()
        thread.join()


def map_outputs_to_come(spark: SparkSession) -> Callable[[], set[Path]]:
    """Finds those that are not there yet, in the session's own scratch folder."""
    scratch = Path(str(spark.sparkContext.getConf().get("spark.local.dir")))

    def there() -> set[Path]:
        return set(scratch.glob("blockmgr-*/*/shuffle_*.data"))

    others = there()
    return lambda: there() - others
