"""One row on all peers: prepared one by one, then timed in turns, slice by slice."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu.functions.inputs import INPUTS, made
from benchmarks.cpu.functions.references import REFERENCED, reference, relative_error
from benchmarks.cpu.peer import Peer, PeerGone, PeerSpec, started
from benchmarks.cpu.results import BEFORE, OURS, XLA, PeerResult, RowResult
from benchmarks.cpu.rows import PROGRAM, Row
from benchmarks.cpu.wire import Array, Message, load_arrays, save_arrays

MOST_CALLS = 20_000
Size = Callable[[Array], float]


def largest(array: Array) -> float:
    """The size of the largest element."""
    return float(np.abs(array).max())


def norm(array: Array) -> float:
    """The root of the sum of squares."""
    return float(np.linalg.norm(array.ravel()))


@dataclass(frozen=True, slots=True)
class Plan:
    """How long is measured.

    Attributes:
        rounds: slices of each peer.
        slice_s: seconds of one slice, about.
        row_s: seconds that all slices of one peer may take; slow rows get fewer rounds.
        timeout_s: seconds after which a peer that does not answer is given up.
    """

    rounds: int = 15
    slice_s: float = 0.05
    row_s: float = 6.0
    timeout_s: float = 300.0

    def rounds_of(self, slowest_s: float) -> int:
        """Rounds of a row whose slowest peer takes so many seconds for a call."""
        return max(3, min(self.rounds, int(self.row_s / max(slowest_s, 1e-9))))

    def calls_of(self, seconds: float) -> int:
        """Calls in a slice of a peer that takes so many seconds for one."""
        return max(1, min(MOST_CALLS, round(self.slice_s / max(seconds, 1e-9))))


@dataclass(slots=True)
class Peers:
    """The running peers of one number of threads.

    Attributes:
        specs: who takes part, in order; XLA first, since it makes the HLO.
        threads: how many each may use.
        folder: for their logs.
        timeout_s: for an answer.
        versions: of those that run.
        left_out: why, of those that do not.
    """

    specs: Sequence[PeerSpec]
    threads: int
    folder: Path
    timeout_s: float
    versions: dict[str, str] = field(default_factory=dict[str, str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    _running: dict[str, Peer] = field(default_factory=dict[str, Peer])

    def start(self) -> None:
        """Starts all that are not running and were not left out."""
        for spec in self.specs:
            if spec.name in self._running or spec.name in self.left_out:
                continue
            log = self.folder / f"{spec.module[-1]}.log"
            peer, said = started(spec, self.threads, log, self.timeout_s)
            if peer is None:
                self.left_out[spec.name] = said
            else:
                self._running[spec.name] = peer
                self.versions.setdefault(spec.name, said)

    @property
    def names(self) -> list[str]:
        """Who runs, in order."""
        return [spec.name for spec in self.specs if spec.name in self._running]

    def ask(self, name: str, request: Mapping[str, Any]) -> Message:
        """A peer's reply; one that has gone says so as ``error``, and is started again later."""
        try:
            return self._running[name].ask(request, self.timeout_s)
        except PeerGone as gone:
            self._running.pop(name).close()
            return {"error": str(gone)}

    def is_running(self, name: str) -> bool:
        """True if it has not gone."""
        return name in self._running

    def close(self) -> None:
        """Ends all."""
        while self._running:
            self._running.popitem()[1].close()


class Bench:
    """Measures rows; rows with files of their own override `request`.

    Args:
        work: folder for arguments and modules.
        programs: folder of the rows that are files; None leaves them out.
        plan: how long.
    """

    def __init__(self, work: Path, programs: Path | None, plan: Plan) -> None:
        self._work = work
        self._programs = programs
        self._plan = plan
        for name in ("hlo", "inputs", "outputs"):
            (work / name).mkdir(parents=True, exist_ok=True)

    def measure(self, row: Row, peers: Peers) -> RowResult:
        """Runs a row on all peers; who fails is left out of it."""
        peers.start()
        result = RowResult(row.name, row.family, peers.threads, os.getloadavg()[0], {})
        replies = self._prepare(row, peers)
        for name, reply in replies.items():
            result.peers[name] = _prepared(reply)
        outputs = {n: self._outputs(row, n) for n in replies if "seconds" in replies[n]}
        _compare(result, outputs, self.size(row))
        self._note_errors(row, result, outputs)
        self._rounds(peers, result, {n: r["seconds"] for n, r in replies.items() if "seconds" in r})
        for name in peers.names:
            peers.ask(name, {"op": "release"})
        for path in (self._work / "outputs").glob(f"{row.stem}.*"):
            path.unlink()
        return result

    def request(self, row: Row, threads: int) -> Message:
        """What peers are asked to prepare; writes the files that it names.

        Raises:
            OSError: a file that is missing.
        """
        inputs = self._work / "inputs" / f"{row.stem}.npz"
        if not inputs.exists():
            arrays = (
                file_inputs(self._folder, row.name)
                if row.kind == PROGRAM
                else made(row.name, INPUTS[row.kind](row.parameters))
            )
            save_arrays(inputs, arrays)
        hlo = (
            self._folder / f"{row.name}.pb"
            if row.kind == PROGRAM
            else self._work / "hlo" / f"{row.stem}.pb"
        )
        return {
            "op": "prepare",
            "kind": row.kind,
            "parameters": dict(row.parameters),
            "threads": threads,
            "inputs": str(inputs.resolve()),
            "hlo": str(hlo.resolve()),
        }

    def size(self, row: Row) -> Size:
        """How large the results of a row are, and how far those of two peers are apart."""
        return largest

    # Preparation

    def _prepare(self, row: Row, peers: Peers) -> dict[str, Message]:
        try:
            request = self.request(row, peers.threads)
        except OSError as e:
            return {name: {"refused": f"no inputs: {e.strerror}"} for name in peers.names}
        replies: dict[str, Message] = {}
        for name in peers.names:
            if row.kind == PROGRAM and name not in (OURS, BEFORE, XLA):
                replies[name] = {"refused": "HLO only"}
                continue
            if name != XLA and request["hlo"] and not Path(request["hlo"]).exists():
                request = {**request, "hlo": ""}
            results = str(self._outputs(row, name))
            replies[name] = peers.ask(name, {**request, "results": results})
        return replies

    def _outputs(self, row: Row, peer: str) -> Path:
        return self._work / "outputs" / f"{row.stem}.{peer.replace(':', '-')}.npz"

    @property
    def _folder(self) -> Path:
        if self._programs is None:
            raise FileNotFoundError(2, "no folder of programs was given")
        return self._programs

    def _note_errors(self, row: Row, result: RowResult, outputs: Mapping[str, Path]) -> None:
        """How far results are from those in extended precision, where these are known."""
        if row.kind not in REFERENCED or not outputs:
            return
        inputs = self._work / "inputs" / f"{row.stem}.npz"
        wanted = reference(row.kind, row.parameters, load_arrays(inputs))
        for name, path in outputs.items() if wanted else ():
            result.peers[name].error = relative_error(load_arrays(path), wanted or ())

    # Times

    def _rounds(self, peers: Peers, result: RowResult, seconds: Mapping[str, float]) -> None:
        """Slices in turns, in a new order each round; one that fails loses all its times."""
        if not seconds:
            return
        order = random.Random(0)
        names = list(seconds)
        for _ in range(self._plan.rounds_of(max(seconds.values()))):
            order.shuffle(names)
            for name in tuple(names):
                reply = peers.ask(name, {"op": "run", "calls": self._plan.calls_of(seconds[name])})
                peer = result.peers[name]
                if "wall" in reply:
                    peer.wall.append(reply["wall"])
                    peer.cpu.append(reply["cpu"])
                else:
                    peer.left_out = reply.get("error", "failed")
                    peer.wall, peer.cpu = [], []
                    names.remove(name)


def _prepared(reply: Message) -> PeerResult:
    return PeerResult(
        compile_s=reply.get("compile_s"),
        warm_s=reply.get("warm_s"),
        first_s=reply.get("first_s"),
        memory=reply.get("memory", {}),
        left_out=reply.get("refused") or reply.get("error", ""),
        is_refused="refused" in reply,
    )


def file_inputs(folder: Path, name: str) -> list[Array]:
    """The arguments stored beside a program, of the dtypes that its module wants."""
    from xladev.hlo.load import load

    shapes = [p.shape for p in load(folder / f"{name}.pb").entry.parameters]
    with np.load(folder / f"{name}.npz") as stored:
        arrays = [stored[key] for key in sorted(stored) if key.startswith("in_")]
    return [a.view(s.element_type.np) for a, s in zip(arrays, shapes, strict=True)]


# Comparison


def _compare(result: RowResult, outputs: Mapping[str, Path], size: Size) -> None:
    """Compares all results with XLA's, or else with ours."""
    reference = next((n for n in (XLA, OURS) if n in outputs), None)
    if reference is None:
        return
    wanted = load_arrays(outputs[reference])
    for name, path in outputs.items():
        if name != reference:
            result.peers[name].differs = difference(load_arrays(path), wanted, size)
            if result.peers[name].differs:
                print(f"  {name} differs: {result.peers[name].differs}", file=sys.stderr)


def difference(got: Sequence[Array], wanted: Sequence[Array], size: Size = largest) -> str:
    """How results differ from those wanted; empty within a hundredth of their size.

    This catches a peer that computes something else, not one that rounds differently.
    """
    if len(got) != len(wanted):
        return f"{len(got)} results, not {len(wanted)}"
    for number, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape:
            return f"result {number} has shape {a.shape}, not {b.shape}"
        if a.dtype.kind == "V" or not a.size:
            continue
        x, y = (np.nan_to_num(np.asarray(v, np.complex128)) for v in (a, b))
        most = size(x - y)
        if most > 0.01 * max(size(y), 1e-6):
            return f"result {number} is off by {most:.3g}"
    return ""
