"""One function of f32 on all 2**32 inputs, block by block, against the evaluator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xladev.errors import ExecutionError, ShapeError
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import FLOATS, PrimitiveType
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.opdef import Tolerance
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array
from xladev.testing.differential import equal_elements
from xladev.testing.limits import allowed_differences
from xladev.testing.noise import evaluated, wide
from xladev.testing.wire import pack, unpack
from xladev.testing.worker import Status, Worker

BLOCK_BITS = 22
BLOCKS = 1 << (32 - BLOCK_BITS)
_MOVES = ("convert", "bitcast-convert", "copy")
_CONVERTED = (dt.PRED, dt.S8, dt.U8, dt.S32, dt.U32, dt.S64, dt.U64, dt.F64, *FLOATS)
_NEAR_ULPS = 1
"""Results as near as this are not judged one by one: every inexact class allows more."""
_MOST_JUDGED = 1 << 16


@dataclass(frozen=True, slots=True)
class Block:
    """What became of 2**22 inputs with the same leading bits.

    Attributes:
        number: the leading bits.
        unequal: results that differ from the evaluator's at all.
        worst_ulps: how far, in units in the last place; 0 for results without them.
        worst_at: bits of the input where.
        bad: results that rounding does not explain.
        first_bad: bits of the first such input; -1 if there is none.
        seen: what the platform gave there, and what is right.
    """

    number: int
    unequal: int = 0
    worst_ulps: int = 0
    worst_at: int = 0
    bad: int = 0
    first_bad: int = -1
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one f32.

    Attributes:
        name: the opcode; of a conversion, ``convert-TYPE``.
        opcode: as spelled in HLO text.
        result: element type of the result.
    """

    name: str
    opcode: str
    result: PrimitiveType

    def module(self, count: int) -> HloModule:
        """The program that applies it to that many numbers."""
        b = HloBuilder("every_f32")
        x = b.parameter(array(dt.F32, (count,)))
        return b.module(b.op(self.opcode, x, shape=array(self.result, (count,))))


def functions() -> Iterator[Function]:
    """Every elementwise opcode of one f32, and conversions."""
    for name, op in OPSET.items():
        if op.elementwise and op.arity == 1 and not any(a.required for a in op.attrs):
            if name in _MOVES:
                continue
            try:
                b = HloBuilder("taken")
                made = b.op(name, b.parameter(array(dt.F32)))
            except ShapeError:
                continue
            yield Function(name, name, made.shape.element_type)
    for target in dict.fromkeys(_CONVERTED):
        if target is not dt.F32:
            yield Function(f"convert-{target}", "convert", target)


def run_blocks(
    function: Function, platform: str, worker: Worker, folder: Path
) -> Iterator[tuple[Block, bool]]:
    """Every block, and whether it was there already; what is new is written down at once.

    Args:
        function: what is run.
        platform: what is tested.
        worker: serves `xladev.testing.conformance.child`.
        folder: keeps one file per platform and function, so that a run goes on where it stopped.

    Raises:
        ExecutionError: the platform gave no results.
    """
    path = folder / f"{platform}-{function.name}.jsonl"
    known = _read(path)
    folder.mkdir(parents=True, exist_ok=True)
    if not known:
        path.write_text(json.dumps(_head()) + "\n", "utf-8")
    for number in range(BLOCKS):
        if number in known:
            yield known[number], True
            continue
        block = run_block(function, platform, worker, number)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(block)) + "\n")
        yield block, False


def _head() -> dict[str, str]:
    """Identifies the code that was tested: blocks of other code do not count."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return {"code": digest.hexdigest()}


def _read(path: Path) -> dict[int, Block]:
    """Blocks by number; none if the file is of other code. A line that is cut off is left out."""
    if not path.is_file():
        return {}
    rows: list[dict[str, Any]] = []
    for line in path.read_text("utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    if not rows or rows[0] != _head():
        return {}
    return {block.number: block for block in (Block(**row) for row in rows[1:])}


def run_block(function: Function, platform: str, worker: Worker, number: int) -> Block:
    """Runs one block on the platform and on the evaluator at the same time.

    Raises:
        ExecutionError: the platform gave no results.
    """
    start = number << BLOCK_BITS
    codes = np.arange(start, start + (1 << BLOCK_BITS), dtype=np.int64).astype(np.uint32)
    x = codes.view(np.float32)
    module = function.module(x.size)
    head = {"check": "", "backend": platform, "options": [], "devices": 1, "runs": 1}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(worker.call, pack(head, [x], module))
        with np.errstate(all="ignore"):
            (want,) = evaluated(module, [x])
        outcome = asked.result()
    facts, results = {"problem": outcome.detail}, list[Array]()
    if outcome.status is Status.OK:
        facts, results, _ = unpack(outcome.value)
    if "problem" in facts or not results:
        raise ExecutionError(f"{platform} did not run {function.name}", why=facts["problem"])
    return judge_block(function, number, x, results[0], want)


def judge_block(function: Function, number: int, x: Array, got: Array, want: Array) -> Block:
    """Compares results: near ones at once, others as the conformance suite does."""
    unequal = np.flatnonzero(~equal_elements(got, want))
    if not unequal.size:
        return Block(number)
    ulps = _ulps(got[unequal], want[unequal])
    worst = int(np.argmax(ulps))
    exact = OPSET[function.opcode].tolerance is Tolerance.EXACT
    far = unequal if exact else unequal[(ulps > _NEAR_ULPS) | (ulps < 0)]
    judged = far[:: max(1, far.size // _MOST_JUDGED)]
    bad = judged[~_allowed(function, x[judged], got[judged], want[judged])]
    seen = f"got {got[bad[0]]}, want {want[bad[0]]}" if bad.size else ""
    bits = x.view(np.uint32)
    return Block(
        number, int(unequal.size), max(int(ulps[worst]), 0), int(bits[unequal[worst]]),
        int(bad.size), int(bits[bad[0]]) if bad.size else -1, seen,
    )  # fmt: skip


def _ulps(got: Array, want: Array) -> Array:
    """Distances in units in the last place of f32; -1 where one is no number, or other types."""
    if want.dtype != np.float32:
        return np.where(got == want, 0, -1)
    keys = [np.asarray(v).view(np.int32).astype(np.int64) for v in (got, want)]
    keys = [np.where(k < 0, -(k & 0x7FFFFFFF), k) for k in keys]
    finite = np.isfinite(got) & np.isfinite(want)
    return np.where(finite, np.abs(keys[0] - keys[1]), -1)


def _allowed(function: Function, x: Array, got: Array, want: Array) -> Array:
    if not x.size:
        return np.zeros(0, bool)
    with np.errstate(all="ignore"):
        (limit,) = allowed_differences(function.module(x.size), [x], [want])
        distance = np.abs(wide(got) - wide(want))
    return ((distance <= limit) & (limit > 0)) | np.isinf(limit)


def summary(function: Function, blocks: Sequence[Block]) -> str:
    """One line about a function: how many results differ, how far, and what is wrong."""
    unequal, bad = sum(b.unequal for b in blocks), sum(b.bad for b in blocks)
    worst = max(blocks, key=lambda b: b.worst_ulps)
    line = (
        f"{function.name}: {len(blocks) << BLOCK_BITS} inputs, {unequal} differ from the evaluator"
    )
    if worst.worst_ulps:
        line += f", at most {worst.worst_ulps} ulp (at {_number(worst.worst_at)})"
    first = next((b for b in blocks if b.bad), None)
    if first is None:
        return f"{line}, none wrong"
    return f"{line}, {bad} WRONG, first at {_number(first.first_bad)}: {first.seen}"


def _number(bits: int) -> str:
    return f"{np.uint32(bits).view(np.float32)!s} = {bits:#010x}"
