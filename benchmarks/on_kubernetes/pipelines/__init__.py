"""Pipelines that are measured: they are given to drivers one by one, and import the library only."""
