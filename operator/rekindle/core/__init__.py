"""Decisions only: events go in with a time, actions come out. No I/O, no clock, no Spark, no Kubernetes."""
