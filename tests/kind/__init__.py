"""A real Kubernetes on this machine for the tests: unmodified kind, and all that it needs. See README.md."""
