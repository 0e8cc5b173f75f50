"""Which tests a cluster that somebody else looks after is spared, and which may run beside others."""

import pytest

from tests.kind.kubectl import given_kubeconfig

needs_nodes = pytest.mark.skipif(given_kubeconfig() is not None, reason="the nodes of a given cluster are left alone")

beside = pytest.mark.beside
"""It leaves nodes, operators and the API server alone, and looks at nothing but its own."""
