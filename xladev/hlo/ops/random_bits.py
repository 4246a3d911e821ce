"""Counter-based generators: ThreeFry 2x32 and Philox 4x32, laid out as XLA lays them out.

The block functions are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011), with 20 and 10 rounds. How counters are formed and words become elements follows
`xla/hlo/builder/lib/prng.cc`, so results equal XLA's bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
State = npt.NDArray[np.uint64]
Bits = npt.NDArray[Any]

_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_WRAP = 2**64
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_PHILOX_FACTORS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)


def _halves(values: Any) -> tuple[Words, Words]:
    """Low and high words of 64-bit numbers."""
    values = np.asarray(values, np.uint64)
    return (values & _LOW).astype(np.uint32), (values >> _WORD).astype(np.uint32)


def _joined(low: Words, high: Words) -> npt.NDArray[np.uint64]:
    return low.astype(np.uint64) | (high.astype(np.uint64) << _WORD)


def threefry_2x32(x: tuple[Words, Words], key: tuple[Words, Words]) -> tuple[Words, Words]:
    """One block of two words per counter ``x``."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    a, b = x[0] + schedule[0], x[1] + schedule[1]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(distance)) | (b >> np.uint32(32 - distance)))
        a = a + schedule[(group + 1) % 3]
        b = b + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def philox_4x32(x: Sequence[Words], key: tuple[int, int]) -> tuple[Words, ...]:
    """One block of four words per counter ``x``, least significant word first."""
    words = tuple(x)
    for iteration in range(10):
        keys = [
            np.uint32((k + iteration * w) & 0xFFFFFFFF)
            for k, w in zip(key, _PHILOX_WEYL, strict=True)
        ]
        low0, high0 = _halves(words[0].astype(np.uint64) * _PHILOX_FACTORS[0])
        low1, high1 = _halves(words[2].astype(np.uint64) * _PHILOX_FACTORS[1])
        words = (high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0)
    return words


def threefry_bits(state: State, dims: tuple[int, ...], bits: int) -> tuple[State, Bits]:
    """Random words by ThreeFry.

    Args:
        state: u64[2]: key and counter.
        dims: dimensions of the result.
        bits: width of an element; widths below 32 take the low bits of a 32-bit word.

    Returns:
        The next state, and an unsigned array of ``dims``.
    """
    key = _halves(state[0])
    if bits == 64:
        low, high = threefry_2x32(_counters(state[1], dims), key)
        return _advanced(state, prod(dims)), _joined(low, high)
    if not dims:
        low, _ = threefry_2x32(_counters(state[1], (1,)), key)
        return _advanced(state, 1), _narrowed(low.reshape(()), bits)
    axis = _split_axis(dims)
    half = (*dims[:axis], -(-dims[axis] // 2), *dims[axis + 1 :])
    pair = threefry_2x32(_counters(state[1], half), key)
    woven = np.stack(pair, axis + 1).reshape(*dims[:axis], 2 * half[axis], *dims[axis + 1 :])
    kept = woven[(slice(None),) * axis + (slice(dims[axis]),)]
    return _advanced(state, prod(half)), _narrowed(kept, bits)


def _split_axis(dims: tuple[int, ...]) -> int:
    """The first even dimension, or the first largest if none is even."""
    even = [axis for axis, size in enumerate(dims) if size % 2 == 0]
    return even[0] if even else dims.index(max(dims))


def _counters(start: np.uint64, dims: tuple[int, ...]) -> tuple[Words, Words]:
    return _halves(np.arange(prod(dims), dtype=np.uint64).reshape(dims) + start)


def _advanced(state: State, count: int) -> State:
    return np.array([state[0], (int(state[1]) + count) % _WRAP], np.uint64)


def _narrowed(words: Words, bits: int) -> Bits:
    return words.astype(np.dtype(f"u{max(bits, 8) // 8}")) if bits < 32 else words


def philox_bits(state: State, dims: tuple[int, ...], bits: int) -> tuple[State, Bits]:
    """Random words by Philox; arguments and results as for `threefry_bits`.

    The state is u64[3]: key, counter low, counter high; or u64[2]: counter high (and key), counter
    low, in which case only the low half of the counter advances.
    """
    count = prod(dims)
    low, high = (state[1], state[2]) if len(state) > 2 else (state[1], state[0])
    blocks = -(-count * max(bits, 32) // 128)
    words = np.stack(philox_4x32(_wide_counters(low, high, blocks), _key(state[0])), 1)
    after = (int(low) + blocks) % _WRAP
    following = [int(state[0]), after]
    if len(state) > 2:
        following.append((int(high) + (after < int(low))) % _WRAP)
    if bits == 64:
        pairs = _joined(words[:, 0::2], words[:, 1::2])
        return np.array(following, np.uint64), pairs.reshape(-1)[:count].reshape(dims)
    narrow = _narrowed(words.reshape(-1)[:count], bits)
    return np.array(following, np.uint64), narrow.reshape(dims)


def _key(state: np.uint64) -> tuple[int, int]:
    return int(state & _LOW), int(state >> _WORD)


def _wide_counters(low: np.uint64, high: np.uint64, count: int) -> tuple[Words, ...]:
    """128-bit counters from ``high:low`` on, as four words each."""
    lows = np.arange(count, dtype=np.uint64) + low
    highs = (lows < low).astype(np.uint64) + high
    return (*_halves(lows), *_halves(highs))
