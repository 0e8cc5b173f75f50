"""The jobs that are measured, on TPC-H data: as pipelines, and as their peers in plain Spark."""
