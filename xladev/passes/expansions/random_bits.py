"""rng-bit-generator as integer arithmetic: ThreeFry 2x32 and Philox 4x32, bit for bit.

The layout of counters and words is that of `hlo/ops/random_bits.py`, where sources are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, begin

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_UNSIGNED = {8: dt.U8, 16: dt.U16, 32: dt.U32, 64: dt.U64}

Words = tuple[HloInstruction, HloInstruction]
Four = tuple[HloInstruction, HloInstruction, HloInstruction, HloInstruction]


def expand_rng_bit_generator(instruction: HloInstruction) -> HloComputation:
    """Next state and bits by the algorithm asked for; the default is Philox."""
    e, (state,) = begin(instruction)
    result = instruction.shape.tuple_shapes[1]
    generate = threefry if instruction["algorithm"] == "rng_three_fry" else philox
    after, bits = generate(e, state, result.dims, result.element_type)
    return e.build(e.op("tuple", after, bits))


def _element(e: Emitter, state: HloInstruction, at: int) -> HloInstruction:
    return e.reshape(e.slice_in(state, 0, at, at + 1), ())


def _halves(e: Emitter, wide: HloInstruction) -> Words:
    """Low and high words of u64 numbers."""
    high = e.elementwise("shift-right-logical", wide, 32)
    return e.convert(wide, dt.U32), e.convert(high, dt.U32)


def _joined(e: Emitter, low: HloInstruction, high: HloInstruction) -> HloInstruction:
    shifted = e.elementwise("shift-left", e.convert(high, dt.U64), 32)
    return e.op("or", e.convert(low, dt.U64), shifted)


def _as_type(e: Emitter, words: HloInstruction, element_type: PrimitiveType) -> HloInstruction:
    """The low bits of unsigned words as elements of a type of 8 bits or more."""
    unsigned = _UNSIGNED[element_type.bits]
    return e.bitcast_convert(e.convert(words, unsigned), element_type)


# ThreeFry


def threefry(
    e: Emitter, state: HloInstruction, dims: tuple[int, ...], element_type: PrimitiveType
) -> tuple[HloInstruction, HloInstruction]:
    """(next state, bits) for a state u64[2] of key and counter."""
    key = _halves(e, _element(e, state, 0))
    start = _element(e, state, 1)
    if element_type.bits == 64:
        wide = _joined(e, *_threefry_2x32(e, _counters(e, start, dims), key))
        return _advanced(e, state, start, prod(dims)), e.bitcast_convert(wide, element_type)
    if not dims:
        low, _ = _threefry_2x32(e, _counters(e, start, (1,)), key)
        return _advanced(e, state, start, 1), _as_type(e, e.reshape(low, ()), element_type)
    axis = _split_axis(dims)
    half = (*dims[:axis], -(-dims[axis] // 2), *dims[axis + 1 :])
    pair = _threefry_2x32(e, _counters(e, start, half), key)
    words = e.slice_in(_woven(e, pair, axis), axis, 0, dims[axis])
    return _advanced(e, state, start, prod(half)), _as_type(e, words, element_type)


def _split_axis(dims: tuple[int, ...]) -> int:
    """The first even dimension, or the first largest if none is even."""
    even = [axis for axis, size in enumerate(dims) if size % 2 == 0]
    return even[0] if even else dims.index(max(dims))


def _woven(e: Emitter, pair: Words, axis: int) -> HloInstruction:
    """Elements of both in turn along one dimension."""
    dims = pair[0].shape.dims
    stacked = (*dims[: axis + 1], 1, *dims[axis + 1 :])
    both = e.concatenate([e.reshape(x, stacked) for x in pair], axis + 1)
    return e.reshape(both, (*dims[:axis], 2 * dims[axis], *dims[axis + 1 :]))


def _counters(e: Emitter, start: HloInstruction, dims: tuple[int, ...]) -> Words:
    if not dims:
        return _halves(e, start)
    position = e.reshape(e.iota(dt.U64, (prod(dims),), 0), dims)
    return _halves(e, e.add(position, start))


def _advanced(
    e: Emitter, state: HloInstruction, start: HloInstruction, count: int
) -> HloInstruction:
    following = e.reshape(e.add(start, count), (1,))
    return e.concatenate([e.slice_in(state, 0, 0, 1), following], 0)


def _threefry_2x32(e: Emitter, x: Words, key: Words) -> Words:
    """One block of two words per counter; 20 rounds."""
    mixed = e.elementwise("xor", e.op("xor", *key), _PARITY)
    schedule = (*key, mixed)
    a, b = e.add(x[0], schedule[0]), e.add(x[1], schedule[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            a = e.add(a, b)
            b = e.op("xor", a, _rotated(e, b, distance))
        a = e.add(a, schedule[(group + 1) % 3])
        b = e.add(b, e.add(schedule[(group + 2) % 3], group + 1))
    return a, b


def _rotated(e: Emitter, x: HloInstruction, distance: int) -> HloInstruction:
    left = e.elementwise("shift-left", x, distance)
    return e.op("or", left, e.elementwise("shift-right-logical", x, 32 - distance))


# Philox


def philox(
    e: Emitter, state: HloInstruction, dims: tuple[int, ...], element_type: PrimitiveType
) -> tuple[HloInstruction, HloInstruction]:
    """(next state, bits) for a state u64[3] of key and counter, or u64[2] (see the definition)."""
    first, low = _element(e, state, 0), _element(e, state, 1)
    has_high = state.shape.dims[0] > 2
    high = _element(e, state, 2) if has_high else first
    count, bits = prod(dims), element_type.bits
    blocks = -(-count * max(bits, 32) // 128)
    words = _philox_4x32(e, _wide_counters(e, low, high, blocks), _halves(e, first))
    after = e.add(low, blocks)
    following = [first, after]
    if has_high:
        carry = e.convert(e.compare("LT", after, low), dt.U64)
        following.append(e.add(high, carry))
    next_state = e.concatenate([e.reshape(x, (1,)) for x in following], 0)
    columns: Sequence[HloInstruction] = words
    if bits == 64:
        columns = [_joined(e, words[0], words[1]), _joined(e, words[2], words[3])]
    rows = e.concatenate([e.reshape(x, (blocks, 1)) for x in columns], 1)
    flat = e.slice_in(e.reshape(rows, (blocks * len(columns),)), 0, 0, count)
    return next_state, e.reshape(_as_type(e, flat, element_type), dims)


def _wide_counters(e: Emitter, low: HloInstruction, high: HloInstruction, count: int) -> Four:
    """128-bit counters from ``high:low`` on, as four words each."""
    lows = e.add(e.iota(dt.U64, (count,), 0), low)
    start = e.broadcast(low, (count,), ())
    carry = e.convert(e.compare("LT", lows, start), dt.U64)
    return (*_halves(e, lows), *_halves(e, e.add(carry, high)))


def _philox_4x32(e: Emitter, x: Four, key: Words) -> Four:
    """One block of four words per counter, least significant first; 10 rounds."""
    a, b, c, d = x
    for iteration in range(10):
        keys = [
            e.add(k, iteration * w % 2**32) if iteration else k
            for k, w in zip(key, _PHILOX_WEYL, strict=True)
        ]
        low0, high0 = _product(e, a, _PHILOX_FACTORS[0])
        low1, high1 = _product(e, c, _PHILOX_FACTORS[1])
        a, b = e.elementwise("xor", e.op("xor", high1, b), keys[0]), low1
        c, d = e.elementwise("xor", e.op("xor", high0, d), keys[1]), low0
    return a, b, c, d


def _product(e: Emitter, words: HloInstruction, factor: int) -> Words:
    """Low and high words of 32-bit words times a number."""
    return _halves(e, e.multiply(e.convert(words, dt.U64), factor))
