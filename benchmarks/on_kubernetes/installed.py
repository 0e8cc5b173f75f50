"""Rekindle on the cluster, from this source tree."""

from __future__ import annotations

from benchmarks.on_kubernetes.command_line import say
from tests.cluster import deployment
from tests.cluster.deployment import JOBS, Images


def installed(*values: str) -> Images:
    """Build and install it, with these values of its chart; its images."""
    say("building and installing Rekindle")
    images = deployment.build()
    deployment.load(images)
    deployment.make_namespace(JOBS)
    deployment.install(images, *values)
    return images
