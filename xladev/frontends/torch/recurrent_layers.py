"""`nn.LSTM`, `nn.GRU` and `nn.RNN` made of single layers, whose steps are one operator each.

Dynamo hands over one call for all layers. torch would take it apart into every step of time,
without dropout between layers (torch 2.13), or into a kernel of MKL-DNN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, linear

from xladev.frontends.torch.recurrent_steps import gru_steps, lstm_steps, rnn_steps

Weights = Sequence[Tensor]
"""Of one layer in one direction: of inputs, of hidden states, their biases if any, projection."""


def _lstm_layer(x: Tensor, state: Sequence[Tensor], own: Weights, back: bool) -> list[Tensor]:
    biases = own[2:4] if len(own) > 3 else ()
    projection = own[-1] if len(own) in (3, 5) else None
    h, c = state
    hidden, h, c, _, _ = lstm_steps(_inputs(x, own[0], *biases), h, c, own[1], projection, back)
    return [hidden, h, c]


def _gru_layer(x: Tensor, state: Sequence[Tensor], own: Weights, back: bool) -> list[Tensor]:
    inner = own[3] if len(own) > 2 else None  # the reset gate acts on what holds this bias
    hidden, h, _ = gru_steps(_inputs(x, own[0], *own[2:3]), state[0], own[1], inner, back)
    return [hidden, h]


def _rnn_layer(
    x: Tensor, state: Sequence[Tensor], own: Weights, back: bool, *, is_relu: bool
) -> list[Tensor]:
    return list(rnn_steps(_inputs(x, own[0], *own[2:4]), state[0], own[1], is_relu, back))


def _inputs(x: Tensor, weight: Tensor, *biases: Tensor) -> Tensor:
    return linear(x, weight, sum(biases) if biases else None)


Layer = Callable[[Tensor, Sequence[Tensor], Weights, bool], list[Tensor]]


def _all_layers(
    layer: Layer,
    x: Tensor,
    state: Sequence[Tensor],
    params: Weights,
    layers: int,
    drop: float,
    is_training: bool,
    directions: int,
) -> list[Tensor]:
    """Hidden states of the last layer, and the last states of all, [layers * directions, ...]."""
    each = len(params) // (layers * directions)
    ends = []
    for n in range(layers):
        outputs = []
        for at in range(n * directions, (n + 1) * directions):
            own = params[at * each : (at + 1) * each]
            out, *end = layer(x, [s[at] for s in state], own, at % directions == 1)
            outputs.append(out)
            ends.append(end)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if drop and is_training and n < layers - 1:
            x = dropout(x, drop)
    return [x, *map(torch.stack, zip(*ends, strict=True))]


def _call(layer: Layer) -> Callable[..., tuple[Tensor, ...]]:
    """What takes the arguments of `torch.lstm` and its like."""

    def call(
        x: Tensor,
        state: Any,
        params: Weights,
        has_biases: bool,
        layers: int,
        drop: float,
        is_training: bool,
        is_bidirectional: bool,
        is_batch_first: bool,
    ) -> tuple[Tensor, ...]:
        states = [state] if isinstance(state, Tensor) else list(state)
        steps = x.transpose(0, 1) if is_batch_first else x
        found = _all_layers(
            layer, steps, states, params, layers, drop, is_training, 1 + is_bidirectional
        )
        found[0] = found[0].transpose(0, 1) if is_batch_first else found[0]
        return tuple(found)

    return call


lstm = _call(_lstm_layer)
gru = _call(_gru_layer)
rnn_tanh = _call(lambda *args: _rnn_layer(*args, is_relu=False))
rnn_relu = _call(lambda *args: _rnn_layer(*args, is_relu=True))

CALLS: Mapping[Any, Callable[..., Any]] = {
    torch.lstm: lstm,
    torch.gru: gru,
    torch.rnn_tanh: rnn_tanh,
    torch.rnn_relu: rnn_relu,
}
"""What stands for each of torch's functions."""

DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten.lstm.input: lstm,
    torch.ops.aten.gru.input: gru,
    torch.ops.aten.rnn_tanh.input: rnn_tanh,
    torch.ops.aten.rnn_relu.input: rnn_relu,
}
"""The same for exported programs, whose operators are torch's own."""


def by_layers(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph that Dynamo captured, its recurrent calls made of single layers."""
    found = [n for n in graph.graph.nodes if n.target in CALLS and not _is_packed(n)]
    for node in found:
        node.target = CALLS[node.target]
    if found:
        graph.recompile()
    return graph


def _is_packed(node: torch.fx.Node) -> bool:
    """Whether a call is of packed sequences: sizes of batches stand behind the data."""
    return not isinstance(node.args[2], (list, tuple))
