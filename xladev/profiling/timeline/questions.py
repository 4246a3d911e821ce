"""Ready-made questions on a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        summary: what it asks.
        sql: the question; ``:limit`` is the number of rows wanted.
    """

    summary: str
    sql: str


_TOP = """
SELECT process, hlo_op AS kernel, hlo_module AS module, count(*) AS runs,
  sum(dur) / 1000.0 AS total_us, min(dur) / 1000.0 AS least_us,
  round(100.0 * sum(dur) / sum(sum(dur)) OVER (PARTITION BY process), 1) AS percent,
  round(flops * 1.0 * count(*) / nullif(sum(dur), 0), 2) AS gflops,
  round(bytes * 1.0 * count(*) / nullif(sum(dur), 0), 2) AS gbytes_per_s, source
FROM slices WHERE cat = 'kernel'
GROUP BY process, hlo_module, hlo_op ORDER BY sum(dur) DESC LIMIT :limit
"""

_GAPS = """
WITH work AS (
  SELECT pid, process, tid, name, ts, max(ts + dur) OVER (
    PARTITION BY pid, tid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS idle_since
  FROM slices WHERE cat IN ('kernel', 'copy'))
SELECT process, idle_since / 1000.0 AS since_us, (ts - idle_since) / 1000.0 AS idle_us,
  name AS before
FROM work WHERE ts > idle_since ORDER BY ts - idle_since DESC LIMIT :limit
"""

_OVERLAP = """
WITH work AS (
  SELECT process || '/' || thread AS place, ts, ts + dur AS finish FROM slices
  WHERE cat IN ('kernel', 'copy', 'transfer') OR cat = 'compile')
SELECT a.place AS one, b.place AS other,
  sum(min(a.finish, b.finish) - max(a.ts, b.ts)) / 1000.0 AS together_us, count(*) AS times
FROM work AS a JOIN work AS b ON a.place < b.place AND a.ts < b.finish AND b.ts < a.finish
GROUP BY one, other ORDER BY together_us DESC LIMIT :limit
"""

_COLLECTIVES = """
WITH kernels AS (
  SELECT pid, ts, ts + dur AS finish, max(ts + dur) OVER (
    PARTITION BY pid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS busy_until FROM slices WHERE cat = 'kernel'),
busy AS (
  SELECT pid, max(ts, coalesce(busy_until, ts)) AS ts, finish FROM kernels
  WHERE busy_until IS NULL OR finish > busy_until),
hidden AS (
  SELECT c.id, c.process, c.hlo_op, c.dur, coalesce(sum(
    max(0, min(c.ts + c.dur, b.finish) - max(c.ts, b.ts))), 0) AS under
  FROM slices AS c LEFT JOIN busy AS b
    ON b.pid = c.pid AND b.ts < c.ts + c.dur AND c.ts < b.finish
  WHERE c.cat = 'collective' AND c.hlo_op IS NOT NULL GROUP BY c.id)
SELECT process, hlo_op AS collective, count(*) AS runs, sum(dur) / 1000.0 AS total_us,
  sum(under) / 1000.0 AS hidden_us, round(100.0 * sum(under) / nullif(sum(dur), 0), 1) AS percent
FROM hidden GROUP BY process, hlo_op ORDER BY sum(dur) DESC LIMIT :limit
"""

_MEMORY = """
SELECT process, max(value) AS most_bytes, min(value) AS least_bytes, count(*) AS samples
FROM counters WHERE name = 'memory' GROUP BY process ORDER BY most_bytes DESC LIMIT :limit
"""

_LAUNCHES = """
SELECT name, args.value AS device, count(*) AS launches, sum(dur) / 1000.0 AS total_us,
  min(dur) / 1000.0 AS least_us, max(dur) / 1000.0 AS most_us
FROM slices JOIN args ON args.slice = slices.id AND args.key = 'device'
WHERE cat = 'launch' GROUP BY name, device ORDER BY sum(dur) DESC LIMIT :limit
"""

QUESTIONS: Mapping[str, Question] = MappingProxyType(
    {
        "top": Question("kernels by their time, with rates", _TOP),
        "gaps": Question("longest times between kernels in which a stream did nothing", _GAPS),
        "overlap": Question("time that streams, transfers and compilations share", _OVERLAP),
        "collectives": Question(
            "collectives beside kernels, and for how long kernels ran meanwhile", _COLLECTIVES
        ),
        "memory": Question("bytes in use on each device", _MEMORY),
        "launches": Question("launches by program and device", _LAUNCHES),
    }
)
"""Questions by name."""
