"""The right answers, computed by DuckDB from the same files, or by arithmetic."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb

from benchmarks.sources import ticks
from benchmarks.tpch.scores import MODULUS, one_step

Rows = list[tuple[object, ...]]

_PROFITS = """
select n_name as nation, year(o_orderdate) as year,
    sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) as profit
from {lineitem}
join {orders} on o_orderkey = l_orderkey
join {partsupp} on ps_partkey = l_partkey and ps_suppkey = l_suppkey
join {supplier} on s_suppkey = l_suppkey
join {nation} on n_nationkey = s_nationkey
group by all order by all
"""
_PROFITS_FOUND = "select nation, year, profit from {out} order by all"

_SCORES = """
select l_shipmode as shipmode, count(*) as lines,
    sum(({factor} * ((l_orderkey * 8 + l_linenumber) % {modulus}) + {increment}) % {modulus})::bigint as score
from {lineitem} group by all order by all
"""
_SCORES_FOUND = "select shipmode, lines, score from {out} order by all"

TABLES = ("lineitem", "orders", "partsupp", "supplier", "nation")


@cache
def right_answer(workload: str, data: Path, rounds: int) -> Rows:
    """The answer in a fixed order; `rounds` is what makes a score."""
    factor, increment = one_step(rounds)
    files = {name: f"read_parquet('{data}/{name}/*.parquet')" for name in TABLES}
    if workload.startswith("ticks-"):
        return ticks.right_answer(workload.removeprefix("ticks-"))
    query = {"profits": _PROFITS, "scores": _SCORES}[workload]
    return _ask(query.format(factor=factor, increment=increment, modulus=MODULUS, **files))


def difference(workload: str, data: Path, rounds: int, out: Path) -> str | None:
    """How the answer in the folder `out` differs from the right one; None when they are equal."""
    if not list(out.glob("*.parquet")):
        return f"there is no answer in {out.name}"
    right = right_answer(workload, data, rounds)
    query = {"profits": _PROFITS_FOUND, "scores": _SCORES_FOUND}.get(workload, ticks.FOUND)
    found = _ask(query.format(out=f"read_parquet('{out}/*.parquet')"))
    if found == right:
        return None
    missing, wrong = set(right) - set(found), set(found) - set(right)
    return (
        f"{len(found)} rows where {len(right)} are right; {len(missing)} are missing, {len(wrong)} should not be there"
    )


def _ask(query: str) -> Rows:
    with duckdb.connect() as connection:
        return connection.sql(query).fetchall()
