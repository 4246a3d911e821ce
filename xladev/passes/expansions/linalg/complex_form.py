"""From the real Schur form to the complex one: all blocks of two rows are turned at once."""

from __future__ import annotations

from xladev.passes.expansions.emit import Emitter
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.blocks import blocks_of, blocks_turned
from xladev.passes.expansions.linalg.real_schur import block_eigenvalues
from xladev.passes.expansions.linalg.schur import Schur


def complex_form(e: Emitter, form: Schur) -> Schur:
    """The triangular form of a real one with standard blocks: of pairs, plus comes first.

    A block with diagonal elements a and off-diagonal ones b and c has the eigenvalues a +- i w with
    w^2 = -b c; (i w, c) is the vector of the first, and the rotation along it, with phases that
    make its cosine real, is [[w, i c], [i c, w]] / r with r^2 = w^2 + c^2 = |c| (|b| + |c|).
    """
    t, qh, info = form
    wide = mx.COMPLEX[t.shape.element_type]
    real, imaginary = block_eigenvalues(e, t)
    values = e.op("complex", real, imaginary)
    if t.shape.dims[1] == 1:
        return Schur(e.convert(t, wide), e.convert(qh, wide), info)
    blocks = blocks_of(e, t)
    b = mx.elements_at(e, mx.beside_diagonal(e, t, 1, 1), blocks.first)
    c = mx.elements_at(e, blocks.starts, blocks.first)
    idle = e.compare("EQ", c, 0)
    sizes = mx.magnitude(e, b), mx.magnitude(e, c)
    sum_ = e.select(idle, 1, e.add(*sizes))
    parts = [e.op("sqrt", e.divide(size, sum_)) for size in sizes]
    cosine = e.convert(e.select(idle, 1, parts[0]), wide)
    sine = e.op("complex", e.full_like(c, 0), e.multiply(e.op("sign", c), parts[1]))
    t, qh = (blocks_turned(e, e.convert(x, wide), cosine, sine, blocks.other) for x in (t, qh))
    other = e.conjugate(sine)
    t = e.swap_last(blocks_turned(e, e.swap_last(t), cosine, other, blocks.other))
    on = e.compare("EQ", mx.rows(e, t), mx.columns(e, t))
    return Schur(e.select(on, mx.down(e, values, t), mx.upper_part(e, t, 1)), qh, info)
