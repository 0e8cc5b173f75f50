"""The flights pipeline's two answers, computed a second time by DuckDB from the same files.

    python examples/flights/oracle.py               compares what the pipeline published; exit status 1 if
                                                    anything differs

The SQL follows the words of the reports, not the code of the pipeline.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import duckdb

HERE = Path(__file__).resolve().parent
Rows = list[tuple[object, ...]]

_FLIGHTS = """
with legs as (
    select *,
        lag(arr_delay) over (
            partition by copy, tailnum, month, day order by sched_dep_time, carrier, flight
        ) as before
    from read_parquet('{data}/flights/*.parquet')
), storms as (
    select distinct origin, month, day, hour from read_parquet('{data}/weather/*.parquet')
    where visib < 3 or precip > 0.05 or wind_speed > 25
), flown as (
    select legs.*, airline.name as airline, coalesce(seats, 0) as seats,
        greatest(coalesce(arr_delay, 0), 0) as delay,
        case when tailnum is null or before is null or before < 0 or dep_delay is null or dep_delay < 0
             then 0 else least(before, dep_delay) end as inherited,
        exists (select 1 from storms where storms.origin = legs.origin and storms.month = legs.month
                and storms.day = legs.day and storms.hour = legs.hour) as stormy
    from legs
    left join read_parquet('{data}/airlines/*.parquet') airline using (carrier)
    left join read_parquet('{data}/planes/*.parquet') plane using (tailnum)
)
"""

_CARRIERS = """
select carrier, airline, month, count(*) as flights, count(*) filter (dep_delay is null) as cancelled,
    sum(delay)::bigint as delay_minutes, sum(inherited)::bigint as inherited_minutes,
    count(*) filter (stormy) as stormy, count(*) filter (arr_delay > 15) as late,
    count(arr_delay) as arrived, sum(seats)::bigint as seats,
    sum(delay)::bigint * 10 // nullif(count(arr_delay), 0) as tenths_per_arrival
from flown group by carrier, airline, month order by carrier, month
"""

_ROUTES = """
select dest, origin, count(*) as flights, count(*) filter (dep_delay is null) as cancelled,
    sum(delay)::bigint as delay_minutes, sum(inherited)::bigint as inherited_minutes,
    count(*) filter (stormy) as stormy, sum(distance)::bigint as miles,
    coalesce(any_value(airport.name), 'unknown') as airport,
    row_number() over (partition by origin order by sum(delay) desc, dest) as place
from flown left join read_parquet('{data}/airports/*.parquet') airport on airport.faa = flown.dest
group by dest, origin order by origin, dest
"""

_CARRIER_COLUMNS = (
    "carrier, airline, month, flights, cancelled, delay_minutes, inherited_minutes, stormy, late, arrived, "
    "seats, tenths_per_arrival"
)
_ROUTE_COLUMNS = "dest, origin, flights, cancelled, delay_minutes, inherited_minutes, stormy, miles, airport, place"


def expected(data: Path) -> dict[str, Rows]:
    """Sink -> rows in a fixed order, as DuckDB finds them."""
    with duckdb.connect() as connection:
        return {
            name: connection.sql((_FLIGHTS + query).format(data=data)).fetchall()
            for name, query in (("carriers", _CARRIERS), ("routes", _ROUTES))
        }


def published(out: Path) -> dict[str, Rows]:
    """Sink -> rows in the same order, as the pipeline published them."""
    carriers = f"select {_CARRIER_COLUMNS} from read_parquet('{out}/carriers/*.parquet') order by carrier, month"
    routes = f"select {_ROUTE_COLUMNS} from read_csv('{out}/routes/*.csv', header=true) order by origin, dest"
    with duckdb.connect() as connection:
        return {
            "carriers": connection.sql(carriers).fetchall(),
            "routes": connection.sql(routes).fetchall(),
        }


def differences(data: Path, out: Path) -> list[str]:
    """What differs, a line for each sink; empty when both answers are equal to the last digit."""
    right, found = expected(data), published(out)
    lines = []
    for name in right:
        missing, wrong = set(right[name]) - set(found[name]), set(found[name]) - set(right[name])
        if right[name] != found[name]:
            lines.append(
                f"{name}: {len(found[name])} rows where {len(right[name])} are right; "
                f"{len(missing)} are missing, {len(wrong)} should not be there"
            )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the flights pipeline's answers with DuckDB's.")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args()
    lines = differences(options.data, options.out)
    print("\n".join(lines) or "both answers are equal")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
