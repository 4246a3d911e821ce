"""The record of the last whole run: which mutants there are and what became of each."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from tests.mutants.campaign import Verdict
from tests.mutants.sites import COUNT, SEED, Site, drawn, family, find

FOLDER = Path(__file__).parent
MECHANICAL = FOLDER / "mechanical.json"
HANDMADE = FOLDER / "handmade.json"
JUDGEMENTS = FOLDER / "judgements.toml"


@dataclass(frozen=True, slots=True)
class Entry:
    """A mechanical mutant and its verdict; None if it was not run yet."""

    site: Site
    verdict: Verdict | None = None


def read_mechanical() -> list[Entry]:
    """What is on record; nothing before the first run."""
    if not MECHANICAL.is_file():
        return []
    return [_entry(line) for line in json.loads(MECHANICAL.read_text("utf-8"))]


def _entry(data: dict[str, object]) -> Entry:
    site = Site(**{n: data[n] for n in Site.__dataclass_fields__ if n in data})  # type: ignore[arg-type]
    if "status" not in data:
        return Entry(site)
    known = {n: data[n] for n in Verdict.__dataclass_fields__ if n in data}
    return Entry(site, Verdict(**known))  # type: ignore[arg-type]


def write_mechanical(entries: Sequence[Entry]) -> None:
    """Puts them on record, one to a line."""
    lines = []
    for entry in sorted(entries, key=lambda e: e.site.id):
        site = {n: v for n, v in asdict(entry.site).items() if n != "line"}
        verdict = {} if entry.verdict is None else asdict(entry.verdict)
        verdict.pop("seconds", None)
        lines.append(json.dumps(site | {n: v for n, v in verdict.items() if v != ""}))
    MECHANICAL.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def current(entries: Sequence[Entry]) -> list[Entry]:
    """Those on record whose source is still there, at today's lines, and new ones up to `COUNT`.

    For each whose source is gone comes one of its family, each place as likely as any other.
    """
    kept: list[Entry] = []
    gone: list[Site] = []
    for entry in entries:
        now = find(entry.site)
        if now is None:
            gone.append(entry.site)
        else:
            kept.append(replace(entry, site=now))
    have = {e.site.id for e in kept}
    fresh = [site for site in drawn() if site.id not in have]
    random.Random(SEED).shuffle(fresh)
    chosen: list[Site] = []
    for lost in gone:
        like = (s for s in fresh if s not in chosen and family(s) == family(lost))
        chosen += islice(like, 1)
    chosen += [site for site in fresh if site not in chosen]
    return kept + [Entry(site) for site in chosen[: max(0, COUNT - len(kept))]]


def read_judgements() -> dict[str, tuple[str, str]]:
    """What people say of survivors: id of the mutant to (verdict, reason).

    An id may end with ``*`` where one reason serves several mutants.
    """
    if not JUDGEMENTS.is_file():
        return {}
    data = tomllib.loads(JUDGEMENTS.read_text("utf-8"))
    return {name: (row["verdict"], row["reason"]) for name, row in data.items()}
