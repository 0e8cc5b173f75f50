"""Loops in a pipeline, after FLIP-15: scopes, the feedback channel, and how a loop finds out that it is done.

Nothing here knows a scheduler or its state: what an operator of a loop decides, it decides by what arrived on its
channels.
"""
