"""Pipelines that are measured: they are given to drivers one by one, with what they import of this project."""
