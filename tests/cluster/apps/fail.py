"""Fails before Spark starts."""

raise ValueError("no such thing")
