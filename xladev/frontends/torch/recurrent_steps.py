"""Operators of one recurrent layer in one direction: all steps of time, and their gradients.

Inputs are multiplied by their weights before, for all steps at once: ``x`` is
[steps, batch, gates * hidden], hidden states are [batch, hidden] (LSTM with a projection:
[batch, projected]). Each operator has a kernel of torch's operators for graphs that torch runs, and
a lowering to a loop (`lower/recurrent.py`). ``backward`` means from the last step to the first.

Gates lie as torch keeps them: of LSTM in, forget, cell, out; of GRU reset, update, new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]


def _operator(name: str, schema: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"xladev::{name}", mutates_args=(), schema=schema)


def _sizes_of(operator: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what gives results without elements."""
    register: Callable[..., Any] = operator.register_fake
    return register


def _times(count: int, backward: bool) -> Iterable[int]:
    return reversed(range(count)) if backward else range(count)


@_operator("states_before", "(Tensor states, Tensor first, bool backward) -> Tensor")
def states_before(states: Tensor, first: Tensor, backward: bool) -> Tensor:
    """The state that each step started from, [steps, batch, hidden]."""
    start = first[None]
    return torch.cat((states[1:], start) if backward else (start, states[:-1]))


@_sizes_of(states_before)
def _(states: Tensor, first: Tensor, backward: bool) -> Tensor:
    return torch.empty_like(states)


# LSTM


@_operator(
    "lstm_steps",
    "(Tensor x, Tensor h, Tensor c, Tensor weight, Tensor? projection, bool backward)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def lstm_steps(
    x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Tensor | None, backward: bool
) -> Tensors:
    """Hidden states of all steps, the last two states, and what the gradient needs.

    Returns:
        hidden [steps, batch, projected], last hidden, last cell, cells [steps, batch, hidden] and
        gates [steps, batch, 4 * hidden].
    """
    steps = len(x)
    hidden, cells, gates = [h] * steps, [c] * steps, [x[0]] * steps
    for t in _times(steps, backward):
        i, f, g, o = (x[t] + h @ weight.T).chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        h = h if projection is None else h @ projection.T
        hidden[t], cells[t], gates[t] = h, c, torch.cat((i, f, g, o), 1)
    return torch.stack(hidden), h.clone(), c.clone(), torch.stack(cells), torch.stack(gates)


@_sizes_of(lstm_steps)
def _(x: Tensor, h: Tensor, c: Tensor, weight: Tensor, projection: Any, backward: bool) -> Tensors:
    steps = x.shape[0]
    return (
        x.new_empty(steps, *h.shape),
        torch.empty_like(h),
        torch.empty_like(c),
        x.new_empty(steps, *c.shape),
        torch.empty_like(x),
    )


@_operator(
    "lstm_steps_backward",
    "(Tensor dhidden, Tensor dh, Tensor dc, Tensor cells, Tensor gates, Tensor c, Tensor weight,"
    " Tensor? projection, bool backward) -> (Tensor, Tensor, Tensor, Tensor)",
)
def lstm_steps_backward(
    dhidden: Tensor,
    dh: Tensor,
    dc: Tensor,
    cells: Tensor,
    gates: Tensor,
    c: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    backward: bool,
) -> Tensors:
    """Gradients of the gates before their functions, of the first states, and of hidden states.

    Returns:
        [steps, batch, 4 * hidden], [batch, projected], [batch, hidden], and
        [steps, batch, projected], which holds what later steps add to ``dhidden``.
    """
    steps = len(gates)
    dx, totals = [gates[0]] * steps, [dh] * steps
    order = list(_times(steps, not backward))
    for t, before in zip(order, [*order[1:], None], strict=True):
        i, f, g, o = gates[t].chunk(4, 1)
        total = totals[t] = dh + dhidden[t]
        wide = total if projection is None else total @ projection
        active = cells[t].tanh()
        dc = dc + wide * o * (1 - active * active)
        last = c if before is None else cells[before]
        parts = (
            dc * g * i * (1 - i),
            dc * last * f * (1 - f),
            dc * i * (1 - g * g),
            wide * active * o * (1 - o),
        )
        dx[t] = torch.cat(parts, 1)
        dh, dc = dx[t] @ weight, dc * f
    return torch.stack(dx), dh.clone(), dc.clone(), torch.stack(totals)


@_sizes_of(lstm_steps_backward)
def _(
    dhidden: Tensor,
    dh: Tensor,
    dc: Tensor,
    cells: Tensor,
    gates: Tensor,
    c: Tensor,
    weight: Tensor,
    projection: Any,
    backward: bool,
) -> Tensors:
    made = (gates, dh, dc, dhidden)
    return tuple(torch.empty_like(each, memory_format=torch.contiguous_format) for each in made)


def _keep_lstm(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
    _, h, c, weight, projection, ctx.backward = inputs
    hidden, _, _, cells, gates = output
    ctx.save_for_backward(h, c, weight, projection, hidden, cells, gates)


def _lstm_gradient(ctx: Any, dhidden: Tensor, dh: Tensor, dc: Tensor, *_: Any) -> tuple[Any, ...]:
    h, c, weight, projection, hidden, cells, gates = ctx.saved_tensors
    dx, dfirst, dcell, totals = lstm_steps_backward(
        dhidden, dh, dc, cells, gates, c, weight, projection, ctx.backward
    )
    dprojection = None
    if projection is not None:
        wide = gates[..., -c.shape[1] :] * cells.tanh()
        dprojection = _summed_products(totals, wide)
    dweight = _summed_products(dx, states_before(hidden, h, ctx.backward))
    return dx, dfirst, dcell, dweight, dprojection, None


torch.library.register_autograd("xladev::lstm_steps", _lstm_gradient, setup_context=_keep_lstm)


def _summed_products(left: Tensor, right: Tensor) -> Tensor:
    """Outer products summed over steps and batch."""
    return left.flatten(0, 1).T @ right.flatten(0, 1)


# GRU


@_operator(
    "gru_steps",
    "(Tensor x, Tensor h, Tensor weight, Tensor? bias, bool backward) -> (Tensor, Tensor, Tensor)",
)
def gru_steps(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None, backward: bool) -> Tensors:
    """Hidden states of all steps, the last one, and what the gradient needs.

    Returns:
        hidden [steps, batch, hidden], last hidden, and [steps, batch, 4 * hidden]: the gates and
        the hidden state's part of the new gate.
    """
    steps = len(x)
    hidden, gates = [h] * steps, [x[0]] * steps
    for t in _times(steps, backward):
        r, z, n = torch.nn.functional.linear(h, weight, bias).chunk(3, 1)
        xr, xz, xn = x[t].chunk(3, 1)
        r, z, inner = (xr + r).sigmoid(), (xz + z).sigmoid(), n
        n = (xn + r * inner).tanh()
        h = (h - n) * z + n
        hidden[t], gates[t] = h, torch.cat((r, z, n, inner), 1)
    return torch.stack(hidden), h.clone(), torch.stack(gates)


@_sizes_of(gru_steps)
def _(x: Tensor, h: Tensor, weight: Tensor, bias: Any, backward: bool) -> Tensors:
    steps, (batch, size) = x.shape[0], h.shape
    return (
        x.new_empty(steps, batch, size),
        torch.empty_like(h),
        x.new_empty(steps, batch, 4 * size),
    )


@_operator(
    "gru_steps_backward",
    "(Tensor dhidden, Tensor dh, Tensor hidden, Tensor gates, Tensor h, Tensor weight,"
    " bool backward) -> (Tensor, Tensor, Tensor)",
)
def gru_steps_backward(
    dhidden: Tensor,
    dh: Tensor,
    hidden: Tensor,
    gates: Tensor,
    h: Tensor,
    weight: Tensor,
    backward: bool,
) -> Tensors:
    """Gradients of the inputs' and of the hidden states' parts of the gates, and of the first.

    Returns:
        [steps, batch, 3 * hidden] twice, and [batch, hidden].
    """
    steps, size = len(gates), h.shape[1]
    dx, dinner = ([gates[0][:, : 3 * size]] * steps for _ in range(2))
    order = list(_times(steps, not backward))
    for t, before in zip(order, [*order[1:], None], strict=True):
        r, z, n, inner = gates[t].chunk(4, 1)
        total = dh + dhidden[t]
        last = h if before is None else hidden[before]
        dn = total * (1 - z) * (1 - n * n)
        dz = total * (last - n) * z * (1 - z)
        dr = dn * inner * r * (1 - r)
        dx[t] = torch.cat((dr, dz, dn), 1)
        dinner[t] = torch.cat((dr, dz, dn * r), 1)
        dh = total * z + dinner[t] @ weight
    return torch.stack(dx), torch.stack(dinner), dh.clone()


@_sizes_of(gru_steps_backward)
def _(
    dhidden: Tensor,
    dh: Tensor,
    hidden: Tensor,
    gates: Tensor,
    h: Tensor,
    weight: Tensor,
    backward: bool,
) -> Tensors:
    steps, batch, size = hidden.shape
    dx = hidden.new_empty(steps, batch, 3 * size)
    return dx, torch.empty_like(dx), torch.empty_like(dh)


def _keep_gru(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
    _, h, weight, bias, ctx.backward = inputs
    ctx.has_bias = bias is not None
    hidden, _, gates = output
    ctx.save_for_backward(h, weight, hidden, gates)


def _gru_gradient(ctx: Any, dhidden: Tensor, dh: Tensor, *_: Any) -> tuple[Any, ...]:
    h, weight, hidden, gates = ctx.saved_tensors
    dx, dinner, dfirst = gru_steps_backward(dhidden, dh, hidden, gates, h, weight, ctx.backward)
    dweight = _summed_products(dinner, states_before(hidden, h, ctx.backward))
    dbias = dinner.sum((0, 1)) if ctx.has_bias else None
    return dx, dfirst, dweight, dbias, None


torch.library.register_autograd("xladev::gru_steps", _gru_gradient, setup_context=_keep_gru)


# RNN


@_operator(
    "rnn_steps",
    "(Tensor x, Tensor h, Tensor weight, bool is_relu, bool backward) -> (Tensor, Tensor)",
)
def rnn_steps(x: Tensor, h: Tensor, weight: Tensor, is_relu: bool, backward: bool) -> Tensors:
    """Hidden states of all steps, [steps, batch, hidden], and the last one."""
    hidden = [h] * len(x)
    for t in _times(len(x), backward):
        sums = x[t] + h @ weight.T
        h = hidden[t] = sums.relu() if is_relu else sums.tanh()
    return torch.stack(hidden), h.clone()


@_sizes_of(rnn_steps)
def _(x: Tensor, h: Tensor, weight: Tensor, is_relu: bool, backward: bool) -> Tensors:
    return torch.empty_like(x), torch.empty_like(h)


@_operator(
    "rnn_steps_backward",
    "(Tensor dhidden, Tensor dh, Tensor hidden, Tensor weight, bool is_relu, bool backward)"
    " -> (Tensor, Tensor)",
)
def rnn_steps_backward(
    dhidden: Tensor, dh: Tensor, hidden: Tensor, weight: Tensor, is_relu: bool, backward: bool
) -> Tensors:
    """Gradients of the inputs, [steps, batch, hidden], and of the first hidden state."""
    dx = [dh] * len(hidden)
    for t in _times(len(hidden), not backward):
        now = hidden[t]
        dx[t] = (dh + dhidden[t]) * ((now > 0) if is_relu else (1 - now * now))
        dh = dx[t] @ weight
    return torch.stack(dx), dh.clone()


@_sizes_of(rnn_steps_backward)
def _(
    dhidden: Tensor, dh: Tensor, hidden: Tensor, weight: Tensor, is_relu: bool, backward: bool
) -> Tensors:
    return torch.empty_like(hidden), torch.empty_like(dh)


def _keep_rnn(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
    _, h, weight, ctx.is_relu, ctx.backward = inputs
    ctx.save_for_backward(h, weight, output[0])


def _rnn_gradient(ctx: Any, dhidden: Tensor, dh: Tensor) -> tuple[Any, ...]:
    h, weight, hidden = ctx.saved_tensors
    dx, dfirst = rnn_steps_backward(dhidden, dh, hidden, weight, ctx.is_relu, ctx.backward)
    dweight = _summed_products(dx, states_before(hidden, h, ctx.backward))
    return dx, dfirst, dweight, None, None


torch.library.register_autograd("xladev::rnn_steps", _rnn_gradient, setup_context=_keep_rnn)
