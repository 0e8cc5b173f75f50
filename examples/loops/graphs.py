"""Five loops, each a function that adds a stage to a pipeline: shortest paths, connected components, a transitive
closure, PageRank and k-means.

    pipeline = Pipeline("routes")
    ...                                            # stages "start" and "routes"
    shortest_paths(pipeline, "start", "routes")    # a stage "distances"

docs/loops.md says what the operations do.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import Pipeline
from rekindle.pipeline.loops import LoopStream, LoopTable

Pair = tuple[LoopStream, LoopStream]


def shortest_paths(pipeline: Pipeline, start: str, edges: str, *, name: str = "distances") -> None:
    """From the vertices of `start` (vertex, distance) over `edges` (src, dst, weight): each vertex's least distance.

    A vertex goes round when it has become nearer, so edges are looked at in any order, and those of what is settled not
    again.
    """

    def onward(nearer: DataFrame, edges: DataFrame) -> DataFrame:
        there = nearer.join(edges, nearer.vertex == edges.src)
        return there.select(F.col("dst").alias("vertex"), (F.col("distance") + F.col("weight")).alias("distance"))

    def nearest(batch: DataFrame, state: DataFrame) -> DataFrame:
        best = batch.groupBy("vertex").agg(F.min("distance").alias("distance"))
        known = state.withColumnRenamed("distance", "known")
        return best.join(known, "vertex", "left").where("known IS NULL OR distance < known").drop("known")

    def body(stream: LoopStream, nearer: LoopStream, edges: LoopTable) -> Pair:
        found = stream.union(nearer.transform(onward, edges))
        best = found.update(nearest, key="vertex", schema="vertex LONG, distance DOUBLE")
        return best, best.at_end()

    pipeline.iterate_with_feedback(start, partition_by="vertex", tables=edges, name=name)(body)


def connected_components(pipeline: Pipeline, vertices: str, edges: str, *, name: str = "components") -> None:
    """Of `vertices` (vertex) over `edges` (src, dst), both ways: the least vertex that each is connected with."""

    def onward(less: DataFrame, edges: DataFrame) -> DataFrame:
        there = less.join(edges, less.vertex == edges.src)
        return there.select(F.col("dst").alias("vertex"), "component")

    def least(batch: DataFrame, state: DataFrame) -> DataFrame:
        best = batch.groupBy("vertex").agg(F.min("component").alias("component"))
        known = state.withColumnRenamed("component", "known")
        return best.join(known, "vertex", "left").where("known IS NULL OR component < known").drop("known")

    def body(stream: LoopStream, less: LoopStream, edges: LoopTable) -> Pair:
        named = stream.transform(lambda batch: batch.withColumn("component", F.col("vertex")), name="by_itself")
        best = named.union(less.transform(onward, edges)).update(
            least, key="vertex", schema="vertex LONG, component LONG"
        )
        return best, best.at_end()

    pipeline.iterate_with_feedback(vertices, partition_by="vertex", tables=edges, name=name)(body)


def transitive_closure(pipeline: Pipeline, edges: str, *, name: str = "reachable") -> None:
    """Over `edges` (src, dst): all pairs of which the second can be reached from the first. Semi-naive: only pairs that
    are new go round."""

    def onward(new: DataFrame, edges: DataFrame) -> DataFrame:
        first, second = new.alias("first"), edges.alias("second")
        return first.join(second, F.col("first.dst") == F.col("second.src")).select("first.src", "second.dst")

    def unknown(batch: DataFrame, state: DataFrame) -> DataFrame:
        return batch.distinct().join(state, ["src", "dst"], "left_anti").select("src", "dst")

    def body(pairs: LoopStream, new: LoopStream, table: LoopTable) -> Pair:
        found = pairs.union(new.transform(onward, table)).update(
            unknown, key=("src", "dst"), schema="src LONG, dst LONG"
        )
        return found, found.at_end()

    pipeline.iterate_with_feedback(edges, tables=edges, name=name)(body)


def pagerank(
    pipeline: Pipeline,
    vertices: str,
    edges: str,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    name: str = "ranks",
) -> None:
    """Of `vertices` (vertex, n: how many there are) over `edges` (src, dst, share: of src's rank that goes there).

    What a vertex's rank has gained goes round, and less than `tolerance` of the mean rank does not. Vertices without an
    edge keep what they get.
    """

    def gains(batch: DataFrame) -> DataFrame:
        return batch.select("vertex", (F.lit(1.0 - damping) / F.col("n")).alias("gain"), "n")

    def onward(gained: DataFrame, edges: DataFrame) -> DataFrame:
        enough = gained.where(F.col("gain") > F.lit(tolerance) / F.col("n"))
        there = enough.join(edges, enough.vertex == edges.src)
        gain = F.lit(damping) * F.col("gain") * F.col("share")
        return there.select(F.col("dst").alias("vertex"), gain.alias("gain"), "n")

    def raised(batch: DataFrame, state: DataFrame) -> DataFrame:
        gained = batch.groupBy("vertex", "n").agg(F.sum("gain").alias("gain"))
        known = state.select("vertex", F.col("rank").alias("known"))
        rank = (F.coalesce("known", F.lit(0.0)) + F.col("gain")).alias("rank")
        return gained.join(known, "vertex", "left").select("vertex", rank, "gain", "n")

    def body(stream: LoopStream, gained: LoopStream, edges: LoopTable) -> Pair:
        comes = stream.transform(gains).union(gained.transform(onward, edges))
        ranks = comes.update(raised, key="vertex", schema="vertex LONG, rank DOUBLE, gain DOUBLE, n LONG")
        return ranks, ranks.at_end().transform(lambda state: state.select("vertex", "rank"), name="ranked")

    pipeline.iterate_with_feedback(vertices, partition_by="vertex", tables=edges, name=name)(body)


def k_means(pipeline: Pipeline, centers: str, points: str, *, tolerance: float = 1e-6, name: str = "clusters") -> None:
    """From `centers` (center, x, y) over `points` (x, y): the centers when none moves by more than `tolerance`.

    One that no point is nearest to is given up.
    """

    def moved(centers: DataFrame, points: DataFrame) -> DataFrame:
        """Where the centers are then, and how far the one that went furthest went."""
        old = F.broadcast(centers.select("center", F.col("x").alias("cx"), F.col("y").alias("cy")))
        far = (F.col("x") - F.col("cx")) ** 2 + (F.col("y") - F.col("cy")) ** 2
        near = F.min_by(F.struct("center", "cx", "cy"), F.struct(far, F.col("center")))
        numbered = points.withColumn("point", F.monotonically_increasing_id())
        of = numbered.crossJoin(old).groupBy("point", "x", "y").agg(near.alias("its"))
        new = of.groupBy("its").agg(F.avg("x").alias("x"), F.avg("y").alias("y"))
        went = F.hypot(F.col("x") - F.col("its.cx"), F.col("y") - F.col("its.cy"))
        placed = new.select(F.col("its.center").alias("center"), "x", "y", went.alias("went"))
        return placed.crossJoin(placed.agg(F.max("went").alias("furthest"))).select("center", "x", "y", "furthest")

    def body(stream: LoopStream, points: LoopTable) -> Pair:
        new = stream.transform(moved, points)

        def those(where: str, name: str) -> LoopStream:
            return new.transform(lambda batch: batch.where(where).select("center", "x", "y"), name=name)

        return those(f"furthest > {tolerance}", "on_their_way"), those(f"furthest <= {tolerance}", "settled")

    pipeline.iterate(centers, tables=points, name=name)(body)
