"""Which tests a cluster that somebody else looks after is spared."""

import pytest

from tests.kind.kubectl import given_kubeconfig

needs_nodes = pytest.mark.skipif(given_kubeconfig() is not None, reason="the nodes of a given cluster are left alone")
