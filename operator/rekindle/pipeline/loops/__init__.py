"""Loops of a pipeline (FLIP-15): streams that go round, each in its scope, until nothing is left to do.

from rekindle.pipeline.loops import LoopStream, LoopTable

@pipeline.iterate_with_feedback("start", partition_by="city")
def reached(start: LoopStream, nearer: LoopStream, roads: LoopTable) -> tuple[LoopStream, LoopStream]:
    further = nearer.transform(one_road_further, roads)
    best = start.union(further).update(shorter, key="city", schema="city STRING, km DOUBLE")
    return best, best.at_end()
"""

from rekindle.pipeline.loops.body import LoopBody
from rekindle.pipeline.loops.functions import CoLoopFunction, LoopFunction
from rekindle.pipeline.loops.streams import LoopStream, LoopTable

__all__ = ["CoLoopFunction", "LoopBody", "LoopFunction", "LoopStream", "LoopTable"]
