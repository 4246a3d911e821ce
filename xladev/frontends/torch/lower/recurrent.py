"""Recurrent layers, one direction each, as a loop over the steps of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xladev.frontends.torch.lower.loops import repeat_while
from xladev.frontends.torch.lower.table import Family
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.shape import Shape

RECURRENT = Family("recurrent", "All steps of one recurrent layer in one direction.", wide=True)
_lowers = RECURRENT.lowers

Named = Mapping[str, Value]
Step = Callable[[Named, Callable[[str], Value], Value], Mapping[str, Value]]
"""Makes the next states, and the step's part of what is collected, of the values that the loop
carries, of a function that gives the step's part of one by name, and of the step."""


def at_step(x: Value, t: Value) -> Value:
    """Part of the first dimension at a step."""
    zero = x.builder.scalar(0, t.dtype)
    sizes = (1, *x.dims[1:])
    part = x.op("dynamic-slice", t, *[zero] * (x.rank - 1), dynamic_slice_sizes=sizes)
    return part.reshape(x.dims[1:])


def with_step(x: Value, t: Value, part: Value) -> Value:
    """An array whose part of the first dimension at a step is another."""
    zero = x.builder.scalar(0, t.dtype)
    update = part.reshape((1, *part.dims))
    return x.op("dynamic-update-slice", update, t, *[zero] * (x.rank - 1))


def over_time(
    b: TensorBuilder,
    steps: int,
    backward: bool,
    fixed: Mapping[str, Value | None],
    states: Named,
    collected: Mapping[str, Shape],
    step: Step,
) -> Named:
    """States after all steps, and what each step gave, by name.

    Args:
        b: the builder.
        steps: how many.
        backward: whether from the last to the first.
        fixed: what steps read; None is left out.
        states: what goes from step to step, at first.
        collected: shapes of what has a part for each step in its first dimension.
        step: what is done in each.
    """
    read = {name: value for name, value in fixed.items() if value is not None}
    made = {name: b.full(0, s.element_type, s.dims) for name, s in collected.items()}
    limit = b.steps or b.scalar(steps, dt.S32)
    start = {"count": b.scalar(0, dt.S32), "limit": limit, **read, **states, **made}
    names = list(start)

    def body(carried: Sequence[Value]) -> list[Value]:
        now = dict(zip(names, carried, strict=True))
        count = now["count"]
        last = now["limit"] - 1
        t = last - count if backward else count
        parts = step(now, lambda name: at_step(now[name], t), t)
        for name, part in parts.items():
            now[name] = with_step(now[name], t, part) if name in made else part
        now["count"] = count + 1
        return [now[name] for name in names]

    done = repeat_while(list(start.values()), lambda carried: carried[0].lt(carried[1]), body)
    return dict(zip(names, done, strict=True))


def _parts(x: Value, count: int) -> list[Value]:
    size = x.dims[1] // count
    return [x.slice(1, n * size, (n + 1) * size) for n in range(count)]


def _joined(*parts: Value) -> Value:
    return parts[0].op("concatenate", *parts[1:], dimensions=(1,))


def _turned(matrix: Value) -> Value:
    """Transposed before the loop, so that its steps multiply matrices row by row."""
    return matrix.transpose((1, 0))


def _times(x: Value, matrix: Value) -> Value:
    return x.dot(matrix, (1,), (0,))


# LSTM


@_lowers("xladev.lstm_steps.default", sample="nn.LSTM")
def _lstm(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    h: Value,
    c: Value,
    weight: Value,
    projection: Value | None,
    backward: bool,
) -> list[Value]:
    """Hidden states, last states, cells and gates of a layer of LSTM."""

    def step(now: Named, at: Callable[[str], Value], t: Value) -> Mapping[str, Value]:
        i, f, g, o = _parts(at("x") + _times(now["h"], now["weight"]), 4)
        i, f, g, o = (i.op("logistic"), f.op("logistic"), g.op("tanh"), o.op("logistic"))
        cell = f * now["c"] + i * g
        hidden = o * cell.op("tanh")
        if "projection" in now:
            hidden = _times(hidden, now["projection"])
        gates = _joined(i, f, g, o)
        return {"h": hidden, "c": cell, "hidden": hidden, "cells": cell, "gates": gates}

    turned = None if projection is None else _turned(projection)
    fixed = {"x": x, "weight": _turned(weight), "projection": turned}
    collected = {"hidden": out[0], "cells": out[3], "gates": out[4]}
    done = over_time(b, x.dims[0], backward, fixed, {"h": h, "c": c}, collected, step)
    return [done[name] for name in ("hidden", "h", "c", "cells", "gates")]


@_lowers("xladev.lstm_steps_backward.default", sample="nn.LSTM")
def _lstm_backward(
    b: TensorBuilder,
    out: Sequence[Shape],
    dhidden: Value,
    dh: Value,
    dc: Value,
    cells: Value,
    gates: Value,
    c: Value,
    weight: Value,
    projection: Value | None,
    backward: bool,
) -> list[Value]:
    """Gradients of the gates, the first states and the hidden states of a layer of LSTM."""

    def step(now: Named, at: Callable[[str], Value], t: Value) -> Mapping[str, Value]:
        i, f, g, o = _parts(at("gates"), 4)
        total = now["dh"] + at("dhidden")
        wide = _times(total, now["projection"]) if "projection" in now else total
        active = at("cells").op("tanh")
        dcell = now["dc"] + wide * o * (1 - active.square())
        dgates = _joined(
            dcell * g * i * (1 - i),
            dcell * at("before") * f * (1 - f),
            dcell * i * (1 - g.square()),
            wide * active * o * (1 - o),
        )
        dlast = _times(dgates, now["weight"])
        return {"dh": dlast, "dc": dcell * f, "dx": dgates, "totals": total}

    before = _before(cells, c, backward=backward)
    fixed = {"dhidden": dhidden, "cells": cells, "before": before, "gates": gates,
             "weight": weight, "projection": projection}  # fmt: skip
    collected = {"dx": out[0], "totals": out[3]}
    states = {"dh": dh, "dc": dc}
    done = over_time(b, gates.dims[0], not backward, fixed, states, collected, step)
    return [done[name] for name in ("dx", "dh", "dc", "totals")]


@_lowers("xladev.states_before.default", sample="nn.LSTM")
def _states_before(b: TensorBuilder, out: Shape, states: Value, first: Value, back: bool) -> Value:
    """The state that each step of a recurrent layer started from."""
    return _before(states, first, backward=back)


def _before(states: Value, first: Value, *, backward: bool) -> Value:
    """The state that each step started from."""
    start = first.reshape((1, *first.dims))
    steps = states.dims[0]
    if not backward:
        return start.op("concatenate", states.slice(0, 0, steps - 1), dimensions=(0,))
    later = states.slice(0, 1, steps).op("concatenate", start, dimensions=(0,))
    known = states.builder.steps
    return later if known is None else with_step(later, known - 1, first)


# GRU


@_lowers("xladev.gru_steps.default", sample="nn.GRU")
def _gru(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    h: Value,
    weight: Value,
    bias: Value | None,
    backward: bool,
) -> list[Value]:
    """Hidden states, last state and gates of a layer of GRU."""

    def step(now: Named, at: Callable[[str], Value], t: Value) -> Mapping[str, Value]:
        inner = _times(now["h"], now["weight"])
        r, z, n = _parts(inner + now["bias"] if "bias" in now else inner, 3)
        xr, xz, xn = _parts(at("x"), 3)
        r, z, kept = (xr + r).op("logistic"), (xz + z).op("logistic"), n
        n = (xn + r * kept).op("tanh")
        hidden = (now["h"] - n) * z + n
        return {"h": hidden, "hidden": hidden, "gates": _joined(r, z, n, kept)}

    fixed = {"x": x, "weight": _turned(weight), "bias": bias}
    collected = {"hidden": out[0], "gates": out[2]}
    done = over_time(b, x.dims[0], backward, fixed, {"h": h}, collected, step)
    return [done[name] for name in ("hidden", "h", "gates")]


@_lowers("xladev.gru_steps_backward.default", sample="nn.GRU")
def _gru_backward(
    b: TensorBuilder,
    out: Sequence[Shape],
    dhidden: Value,
    dh: Value,
    hidden: Value,
    gates: Value,
    h: Value,
    weight: Value,
    backward: bool,
) -> list[Value]:
    """Gradients of the gates' two parts and of the first state of a layer of GRU."""

    def step(now: Named, at: Callable[[str], Value], t: Value) -> Mapping[str, Value]:
        r, z, n, inner = _parts(at("gates"), 4)
        total = now["dh"] + at("dhidden")
        dn = total * (1 - z) * (1 - n.square())
        dz = total * (at("before") - n) * z * (1 - z)
        dr = dn * inner * r * (1 - r)
        dinner = _joined(dr, dz, dn * r)
        dlast = total * z + _times(dinner, now["weight"])
        return {"dh": dlast, "dx": _joined(dr, dz, dn), "dinner": dinner}

    before = _before(hidden, h, backward=backward)
    fixed = {"dhidden": dhidden, "before": before, "gates": gates, "weight": weight}
    collected = {"dx": out[0], "dinner": out[1]}
    done = over_time(b, gates.dims[0], not backward, fixed, {"dh": dh}, collected, step)
    return [done[name] for name in ("dx", "dinner", "dh")]


# RNN


@_lowers("xladev.rnn_steps.default", sample="nn.RNN")
def _rnn(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    h: Value,
    weight: Value,
    is_relu: bool,
    backward: bool,
) -> list[Value]:
    """Hidden states and last state of a layer of RNN."""

    def step(now: Named, at: Callable[[str], Value], t: Value) -> Mapping[str, Value]:
        sums = at("x") + _times(now["h"], now["weight"])
        hidden = sums.maximum(0) if is_relu else sums.op("tanh")
        return {"h": hidden, "hidden": hidden}

    fixed = {"x": x, "weight": _turned(weight)}
    done = over_time(b, x.dims[0], backward, fixed, {"h": h}, {"hidden": out[0]}, step)
    return [done["hidden"], done["h"]]


@_lowers("xladev.rnn_steps_backward.default", sample="nn.RNN")
def _rnn_backward(
    b: TensorBuilder,
    out: Sequence[Shape],
    dhidden: Value,
    dh: Value,
    hidden: Value,
    weight: Value,
    is_relu: bool,
    backward: bool,
) -> list[Value]:
    """Gradients of the inputs and of the first state of a layer of RNN."""

    def step(now: Named, at: Callable[[str], Value], t: Value) -> Mapping[str, Value]:
        state = at("hidden")
        total = now["dh"] + at("dhidden")
        dx = state.gt(0).where(total, 0) if is_relu else total * (1 - state.square())
        return {"dh": _times(dx, now["weight"]), "dx": dx}

    fixed = {"dhidden": dhidden, "hidden": hidden, "weight": weight}
    collected = {"dx": out[0]}
    done = over_time(b, hidden.dims[0], not backward, fixed, {"dh": dh}, collected, step)
    return [done["dx"], done["dh"]]
