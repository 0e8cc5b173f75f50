"""Loops as they run: in the driver, over rows that are stored, one activation after the other.

network     the operators of a loop with the channels between them, and their part in the termination protocol
batches     rows of a loop in the store
states      what updates keep
activation_log  what every activation took and made: a driver that takes over goes on from there
loop_run    all of it together
"""
