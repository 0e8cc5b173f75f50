"""Faults at random, two at a time, under pipelines that must come out right (`make chaos`)."""
