"""What was measured of a row, and its file: a row that has one is not measured again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cpu.rows import Row
from benchmarks.cpu.statistics import Ratio, ratio

OURS = "xladev"
XLA = "XLA:CPU"
BEFORE = "xladev before"
"""Another checkout, as `--before` names it."""
CLOCKS = ("cpu", "wall")


@dataclass(slots=True)
class PeerResult:
    """One peer on one row.

    Attributes:
        wall: seconds per call, one for each round.
        cpu: CPU seconds per call, of all threads.
        compile_s: wall and CPU seconds; None if nothing is compiled.
        first_s: wall and CPU seconds of the first call.
        memory: bytes by name.
        left_out: why there are no times; empty if there are.
        is_refused: true if that is no failure: the library does not have what the row wants.
        differs: how its results differ from XLA's; empty if they do not, or nobody knows.
        warm_s: wall and CPU seconds of a compilation that the cache on disk answers.
        error: relative, against a reference in extended precision; None where there is none.
    """

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    compile_s: list[float] | None = None
    first_s: list[float] | None = None
    memory: dict[str, int] = field(default_factory=dict[str, int])
    left_out: str = ""
    is_refused: bool = False
    differs: str = ""
    warm_s: list[float] | None = None
    error: float | None = None

    def times(self, clock: str) -> list[float]:
        """Seconds per call by one of `CLOCKS`."""
        return self.cpu if clock == "cpu" else self.wall


@dataclass(slots=True)
class RowResult:
    """All peers on one row.

    Attributes:
        name: of the row.
        family: of the row.
        threads: how many everybody might use.
        load: load average of the machine when it was measured.
        peers: by name; ours is `OURS`.
    """

    name: str
    family: str
    threads: int
    load: float
    peers: dict[str, PeerResult]

    def ratios(self, clock: str) -> dict[str, Ratio]:
        """How much longer each peer takes than we do."""
        ours = self.peers.get(OURS, PeerResult()).times(clock)
        return {
            name: ratio(ours, peer.times(clock))
            for name, peer in self.peers.items()
            if name != OURS and ours and len(peer.times(clock)) == len(ours)
        }

    def to_json(self) -> str:
        """As its file holds it."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> RowResult:
        """What `to_json` wrote."""
        data: dict[str, Any] = json.loads(text)
        peers = {name: PeerResult(**facts) for name, facts in data.pop("peers").items()}
        return RowResult(**data, peers=peers)


class Store:
    """A folder with one file for each row and number of threads.

    Args:
        folder: made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, row: Row, threads: int) -> Path:
        return self.folder / f"{row.stem}.{threads}.json"

    def load(self, row: Row, threads: int) -> RowResult | None:
        """What is known of a row; None if it was not measured."""
        path = self._path(row, threads)
        return RowResult.from_json(path.read_text()) if path.exists() else None

    def save(self, row: Row, result: RowResult) -> None:
        """Keeps a row's results, whole or not at all."""
        path = self._path(row, result.threads)
        temporary = path.with_suffix(".new")
        temporary.write_text(result.to_json())
        temporary.replace(path)


def kept_peers(
    work: Path, versions: Mapping[str, str], left_out: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Versions of peers and why some are left out: what earlier runs kept, then what is new.

    Args:
        work: folder of the file ``peers.json``, which is written anew.
        versions: of this run's peers.
        left_out: by peer; empty keeps what was known.
    """
    path = work / "peers.json"
    before = json.loads(path.read_text()) if path.exists() else [{}, {}]
    kept = before[0] | dict(versions), dict(left_out) or before[1]
    path.write_text(json.dumps(kept))
    return kept
