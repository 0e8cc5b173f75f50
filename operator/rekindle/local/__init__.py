"""`rekindle run` on one machine: a private Spark cluster, its nodes, the driver, and faults on request."""
