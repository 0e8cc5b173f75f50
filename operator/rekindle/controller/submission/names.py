"""The names of an attempt's objects: made from the application's uid, the attempt and a word of the attempt's own
that is stored with it, so that to make them twice is to find them made, and nobody else can have made them before.

Kubernetes allows 63 characters in a label and in a service's name; Spark allows 47 in the prefix of executor pods.
"""

import hashlib
from dataclasses import dataclass

LABEL_MANAGED = "rekindle.dev/managed"
LABEL_APPLICATION = "rekindle.dev/application"
LABEL_UID = "rekindle.dev/application-uid"
LABEL_ATTEMPT = "rekindle.dev/attempt"

SPARK_ROLE = "spark-role"
SPARK_SELECTOR = "spark-app-selector"
SPARK_APP_NAME = "spark-app-name"
SPARK_VERSION = "spark-version"

_LONGEST_NAME, _LONGEST_PREFIX = 30, 47


@dataclass(frozen=True, slots=True)
class AttemptNames:
    """The names of one attempt of the application with this name and uid; `word` is what nobody can guess."""

    application: str
    uid: str
    attempt: int
    word: str = ""

    @property
    def prefix(self) -> str:
        """What all names of the attempt begin with; at most 47 characters."""
        rest = f"-{hashlib.sha256((self.uid + self.word).encode()).hexdigest()[:10]}-{self.attempt}"
        room = min(_LONGEST_NAME, _LONGEST_PREFIX - len(rest))
        return self.application[:room].rstrip("-") + rest

    @property
    def spark_application_id(self) -> str:
        """`spark.app.id`, which Spark also makes a label of."""
        return f"spark-{self.uid.replace('-', '')}-{self.attempt}"

    @property
    def submission_id(self) -> str:
        """The uid and the attempt."""
        return f"{self.uid}-{self.attempt}"

    @property
    def driver_pod(self) -> str:
        """The driver's pod."""
        return f"{self.prefix}-driver"

    @property
    def service(self) -> str:
        """The headless service by which executors find the driver."""
        return f"{self.prefix}-driver-svc"

    @property
    def config_map(self) -> str:
        """Spark's properties and the template of executor pods."""
        return f"{self.prefix}-conf"

    def store_claim(self, volume: int | None = None) -> str:
        """The claim of the stored results, or of one of the volumes that they are spread over; the same for all
        attempts."""
        digest = hashlib.sha256(self.uid.encode()).hexdigest()[:10]
        which = "" if volume is None else f"-{volume}"
        return f"{self.application[:_LONGEST_NAME].rstrip('-')}-{digest}-store{which}"

    @property
    def application_labels(self) -> dict[str, str]:
        """The labels of what outlives the attempt."""
        return {LABEL_MANAGED: "true", LABEL_APPLICATION: self.application, LABEL_UID: self.uid}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of every object of the attempt."""
        return {**self.application_labels, LABEL_ATTEMPT: str(self.attempt)}
