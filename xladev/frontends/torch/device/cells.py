"""Recurrent cells as operators that have lowerings.

On devices torch calls them whole (`_thnn_fused_lstm_cell` and its like), and has no decomposition.
Source: the equations of torch's documentation of `torch.nn.LSTM` and `torch.nn.GRU`. What a
workspace holds is of this file alone: forward and backward agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _sum(*parts: Tensor | None) -> Tensor:
    first, *rest = (each for each in parts if each is not None)
    for each in rest:
        first = first + each
    return first


def _lstm(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden state and cell after a step, and the gates for the gradient."""
    gates = _sum(input_gates, hidden_gates, input_bias, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cell + i * g
    return o * new.tanh(), new, torch.cat((i, f, g, o), 1)


def _lstm_gradient(
    grad_hidden: Tensor | None,
    grad_cell: Tensor | None,
    cell: Tensor,
    new: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of gates, of the cell, of the bias."""
    i, f, g, o = workspace.chunk(4, 1)
    seen = new.tanh()
    grad_o, of_cell = None, grad_cell
    if grad_hidden is not None:
        grad_o = grad_hidden * seen * o * (1 - o)
        of_cell = _sum(grad_hidden * o * (1 - seen * seen), grad_cell)
    if of_cell is None:
        return None, None, None
    parts = (
        of_cell * g * i * (1 - i),
        of_cell * cell * f * (1 - f),
        of_cell * i * (1 - g * g),
        torch.zeros_like(o) if grad_o is None else grad_o,
    )
    gates = torch.cat(parts, 1)
    return gates, of_cell * f, gates.sum(0) if has_bias else None


def _gru(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hidden: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Hidden state after a step, and what its gradient needs."""
    input_r, input_z, input_n = _sum(input_gates, input_bias).chunk(3, 1)
    hidden_r, hidden_z, hidden_n = _sum(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return n + z * (hidden - n), torch.cat((r, z, n, hidden, hidden_n), 1)


def _gru_gradient(
    grad: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of input gates, hidden gates, hidden state, and of both biases."""
    r, z, n, hidden, hidden_n = workspace.chunk(5, 1)
    of_n = grad * (1 - z) * (1 - n * n)
    of_r = of_n * hidden_n * r * (1 - r)
    of_z = grad * (hidden - n) * z * (1 - z)
    of_input = torch.cat((of_r, of_z, of_n), 1)
    of_hidden = torch.cat((of_r, of_z, of_n * r), 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, grad * z, *biases


CELLS: Mapping[Any, Callable[..., Any]] = {
    aten._thnn_fused_lstm_cell.default: _lstm,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_gradient,
    aten._thnn_fused_gru_cell.default: _gru,
    aten._thnn_fused_gru_cell_backward.default: _gru_gradient,
}
"""By overload."""
