"""For each operator, how its results are filled, and which of its operands are to be masked first.

An operator that is not here, and works on each element alone, keeps the dimensions of its operands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xladev.frontends.torch.bounds.extents import (
    Extent,
    Extents,
    broadcast,
    is_filled,
    merged,
    plain,
    seen_as,
    size_of,
)
from xladev.frontends.torch.bounds.plan import Call, Rule
from xladev.frontends.torch.lower.table import NotLowered

RULES: dict[str, Rule] = {}


def _rule(*overloads: str) -> Callable[[Rule], Rule]:
    def put(rule: Rule) -> Rule:
        RULES.update((f"aten.{name}" if "xladev" not in name else name, rule) for name in overloads)
        return rule

    return put


def _with(extents: Extents, at: int, extent: Extent) -> Extents:
    made = list(extents)
    made[at] = extent
    return tuple(made)


# Numbers that are sizes


@_rule("div.Scalar", "mul.Scalar", "div.Tensor", "mul.Tensor")
def _scaled(call: Call) -> Extents:
    call.read_sizes()
    return broadcast(call.tensors())


# The same elements seen otherwise


@_rule("view.default", "_unsafe_view.default", "reshape.default")
def _view(call: Call) -> Extents:
    return seen_as(call.extents(call.args[0]), [size_of(e) for e in call.traced])


@_rule("alias.default", "detach.default", "clone.default", "_to_copy.default",
       "zeros_like.default", "ones_like.default", "empty_like.default", "rand_like.default",
       "randn_like.default", "bernoulli.p", "lift_fresh_copy.default")  # fmt: skip
def _alike(call: Call) -> Extents:
    return call.extents(call.args[0])


@_rule("flip.default")
def _flip(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    call.refuse_filled(*(extents[d] for d in call.args[1]))
    return extents


@_rule("cumsum.default")
def _cumsum(call: Call) -> Extents:
    call.fill(call.args[0], "zero")
    return call.extents(call.args[0])


@_rule("tril.default", "triu.default")
def _triangle(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    if any(is_filled(e) and len(e) > 1 for e in extents[-2:]):
        raise NotLowered("a triangle of dimensions of several factors")
    return extents


@_rule("native_dropout.default")
def _dropout(call: Call) -> Any:
    return (call.extents(call.args[0]),) * 2


@_rule("t.default")
def _t(call: Call) -> Extents:
    return call.extents(call.args[0])[::-1]


@_rule("transpose.int")
def _transpose(call: Call) -> Extents:
    made = list(call.extents(call.args[0]))
    a, b = call.args[1:3]
    made[a], made[b] = made[b], made[a]
    return tuple(made)


@_rule("permute.default")
def _permute(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    return tuple(extents[d] for d in call.args[1])


@_rule("unsqueeze.default")
def _unsqueeze(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    at = call.args[1] % (len(extents) + 1)
    return (*extents[:at], (), *extents[at:])


@_rule("squeeze.dim", "squeeze.dims")
def _squeeze(call: Call) -> Extents:
    extents, dims = call.extents(call.args[0]), call.args[1]
    gone = {d % len(extents) for d in ([dims] if isinstance(dims, int) else dims)}
    return tuple(e for d, e in enumerate(extents) if d not in gone or e != ())


@_rule("expand.default")
def _expand(call: Call) -> Extents:
    return broadcast([call.extents(call.args[0]), _sized(call)])


def _sized(call: Call) -> Extents:
    """Dimensions that torch's sizes tell: those of one symbol or number need no guess."""
    for extent in call.traced:
        if is_filled(extent) and len(extent) > 1:
            raise NotLowered("new elements in a dimension of several factors")
    found: Extents = call.traced
    return found


@_rule("full.default", "zeros.default", "ones.default", "empty.memory_format",
       "new_zeros.default", "new_ones.default", "new_full.default", "new_empty.default",
       "rand.default", "randn.default")  # fmt: skip
def _made(call: Call) -> Extents:
    value = call.arg(2 if "new_full" in str(call.node.target) else 1)
    if "full" in str(call.node.target) and not isinstance(value, (bool, int, float)):
        raise NotLowered("a number that is not known")
    return _sized(call)


@_rule("arange.default", "arange.start_step")
def _arange(call: Call) -> Extents:
    starts_at_zero = len(call.args) < 2 or call.args[0] == 0
    if not starts_at_zero or call.arg(2, 1) != 1:
        raise NotLowered("a range that does not count from 0 by 1")
    return _sized(call)


@_rule("select.int")
def _select(call: Call) -> Any:
    extents = call.extents(call.args[0])
    at = call.args[1] % len(extents)
    _index_from_the_end(call, extents[at], call.args[2])
    return *extents[:at], *extents[at + 1 :]


def _index_from_the_end(call: Call, extent: Extent, index: int) -> None:
    """Notes an index that is counted from an end which is not known."""
    if is_filled(extent) and len(extent) > 1:
        raise NotLowered("an element of a dimension of several factors")
    if is_filled(extent) and index < 0:
        call.change.from_end = extent[0].symbol


@_rule("unbind.int")
def _unbind(call: Call) -> Any:
    extents = call.extents(call.args[0])
    at = call.arg(1, 0) % len(extents)
    call.refuse_filled(extents[at])
    return ((*extents[:at], *extents[at + 1 :]),) * size_of(extents[at])


@_rule("slice.Tensor")
def _slice(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    at = call.arg(1, 0) % len(extents)
    start, step, made = call.arg(2, 0) or 0, call.arg(4, 1), call.traced[at]
    if is_filled(extents[at]) and made == extents[at] and start == 0:
        return extents  # all of it
    if not (is_filled(extents[at]) or is_filled(made)):
        return _with(extents, at, made)
    if (start, step) != (0, 1) or len(extents[at]) > 1 or len(made) > 1:
        raise NotLowered("part of a dimension that is open, not from its beginning")
    return _with(extents, at, made)


@_rule("split.Tensor", "split_with_sizes.default")
def _split(call: Call) -> Any:
    extents = call.extents(call.args[0])
    at = call.arg(2, 0) % len(extents)
    call.refuse_filled(extents[at])
    return tuple(_with(extents, at, part[at]) for part in call.traced)


@_rule("cat.default", "stack.default")
def _cat(call: Call) -> Extents:
    parts = [call.extents(each) for each in call.args[0]]
    rank = len(call.traced)
    at = call.arg(1, 0) % rank
    if "stack" in str(call.node.target):
        parts = [(*p[:at], (), *p[at:]) for p in parts]
    call.refuse_filled(*(part[at] for part in parts))
    rest = broadcast([_with(part, at, ()) for part in parts])
    return _with(rest, at, call.traced[at])


@_rule("select_scatter.default")
def _select_scatter(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    _index_from_the_end(call, extents[call.args[2]], call.args[3])
    return extents


@_rule("slice_scatter.default")
def _slice_scatter(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    at, start, end = call.arg(2, 0), call.arg(3), call.arg(4)
    is_whole = not start and (end is None or end == sys.maxsize) and call.arg(5, 1) == 1
    if not is_whole or call.extents(call.args[1])[at] != extents[at]:
        call.refuse_filled(extents[at])
    return extents


@_rule("copy.default", "copy_.default")
def _copy(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    if "copy_" in str(call.node.target):
        call.refuse_filled(*extents)
    return broadcast([extents, call.extents(call.args[1])])


# Products


def _product(call: Call, x: Any, y: Any, batch: int) -> Extents:
    left, right = call.extents(x), call.extents(y)
    if left[-1] != right[batch]:
        raise NotLowered("a product along dimensions that are open in different ways")
    if is_filled(left[-1]):
        call.fill(x, "zero")
        call.fill(y, "zero")
    both = broadcast([left[:batch], right[:batch]])
    return (*both, *left[batch:-1], *right[batch + 1 :])


@_rule("mm.default", "mv.default", "dot.default")
def _mm(call: Call) -> Extents:
    return _product(call, call.args[0], call.args[1], 0)


@_rule("bmm.default")
def _bmm(call: Call) -> Extents:
    return _product(call, call.args[0], call.args[1], 1)


@_rule("addmm.default", "addmv.default")
def _addmm(call: Call) -> Extents:
    return broadcast([call.extents(call.args[0]), _product(call, call.args[1], call.args[2], 0)])


@_rule("baddbmm.default")
def _baddbmm(call: Call) -> Extents:
    return broadcast([call.extents(call.args[0]), _product(call, call.args[1], call.args[2], 1)])


# Reductions

_FILLS: Mapping[str, str] = {
    "sum.default": "zero", "sum.dim_IntList": "zero", "nansum.default": "zero",
    "mean.default": "zero", "mean.dim": "zero", "prod.default": "one", "prod.dim_int": "one",
    "any.default": "zero", "any.dim": "zero", "any.dims": "zero", "all.default": "one",
    "all.dim": "one", "all.dims": "one", "amax.default": "lowest", "max.default": "lowest",
    "amin.default": "highest", "min.default": "highest", "argmax.default": "lowest",
    "argmin.default": "highest", "max.dim": "lowest", "min.dim": "highest",
    "logsumexp.default": "lowest", "linalg_vector_norm.default": "zero",
}  # fmt: skip
"""What does not change each reduction."""

_DIMS_AT = {"linalg_vector_norm.default": 2}
"""Where dimensions stand among the arguments, if not second."""


def _reduction(call: Call) -> Any:
    name = str(call.node.target).removeprefix("aten.")
    extents = call.extents(call.args[0])
    at = _DIMS_AT.get(name, 1)
    dims = _dims(call.arg(at), len(extents))
    open_dims = [d for d in dims if is_filled(extents[d])]
    if name == "linalg_vector_norm.default" and open_dims and call.arg(1, 2) in (0, float("-inf")):
        raise NotLowered("a norm that counts zeros")
    if name in _PLACES and open_dims and not _counts_places(extents, dims, open_dims):
        raise NotLowered("the place of an element where dimensions are open")
    if open_dims:
        call.fill(call.args[0], _FILLS[name])
    if "mean" in name:
        call.change.divisor = tuple(extents[d] for d in open_dims)
    keep = bool(call.arg(at + 1, False))
    made = tuple(() if d in dims else e for d, e in enumerate(extents) if keep or d not in dims)
    return (made, made) if name in ("max.dim", "min.dim") else made


_PLACES = ("argmax.default", "argmin.default", "max.dim", "min.dim")


def _counts_places(extents: Extents, dims: set[int], open_dims: Sequence[int]) -> bool:
    """Whether elements that do not count stand behind all others, and change no place."""
    is_first = open_dims == [0] or len(dims) == 1
    return is_first and all(len(extents[d]) == 1 for d in open_dims)


def _dims(given: Any, rank: int) -> set[int]:
    if given is None or given == []:
        return set(range(rank))
    return {d % rank for d in ([given] if isinstance(given, int) else given)} if rank else set()


for _name in _FILLS:
    _rule(_name)(_reduction)


@_rule("_softmax.default", "_log_softmax.default", "_safe_softmax.default")
def _softmax(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    if is_filled(extents[call.args[1]]):
        call.fill(call.args[0], "lowest")
    return extents


@_rule("_softmax_backward_data.default", "_log_softmax_backward_data.default")
def _softmax_backward(call: Call) -> Extents:
    extents = broadcast([call.extents(each) for each in call.args[:2]])
    if is_filled(extents[call.args[2]]):
        for each in call.args[:2]:
            call.fill(each, "zero")
    return extents


# Normalisation, convolution and pooling: the batch may be open


@_rule("native_layer_norm.default")
def _layer_norm(call: Call) -> Any:
    extents = call.extents(call.args[0])
    inner = len(call.args[1])
    call.refuse_filled(*extents[-inner:])
    stats = (*extents[:-inner], *[()] * inner)
    return extents, stats, stats


@_rule("native_layer_norm_backward.default")
def _layer_norm_backward(call: Call) -> Any:
    gradient, x, shape, mean, rstd, weight, bias = call.args[:7]
    extents, inner = call.extents(gradient), len(call.args[2])
    call.refuse_filled(*extents[-inner:])
    for each in dict.fromkeys((gradient, x, mean, rstd)):
        call.fill(each, "zero")
    own = extents[-inner:]
    return extents, *(None if part is None else own for part in call.traced[1:])


def _batch_alone(call: Call, extents: Extents) -> Extent:
    call.refuse_filled(*extents[1:])
    return extents[0]


@_rule("convolution.default", "_adaptive_avg_pool2d.default", "avg_pool2d.default",
       "upsample_nearest2d.default", "constant_pad_nd.default")  # fmt: skip
def _by_batch(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    for other in call.tensors()[1:]:
        call.refuse_filled(*other)
    if len(extents) != len(call.traced) or call.traced[0] != extents[0]:
        raise NotLowered("a batch that is not the first dimension")
    return _with(call.traced, 0, _batch_alone(call, extents))


@_rule("max_pool2d_with_indices.default")
def _max_pool(call: Call) -> Any:
    extents = call.extents(call.args[0])
    if len(extents) != 4:
        raise NotLowered("a batch that is not the first dimension")
    batch = _batch_alone(call, extents)
    return tuple(_with(part, 0, batch) for part in call.traced)


@_rule("_adaptive_avg_pool2d_backward.default", "avg_pool2d_backward.default",
       "max_pool2d_with_indices_backward.default")  # fmt: skip
def _pool_backward(call: Call) -> Extents:
    extents = call.extents(call.args[1])
    call.refuse_filled(*(e for each in call.tensors() for e in each[1:]))
    return extents


@_rule("convolution_backward.default")
def _convolution_backward(call: Call) -> Any:
    gradient, x, weight = call.args[:3]
    call.refuse_filled(*call.extents(gradient)[1:], *call.extents(x)[1:], *call.extents(weight))
    call.fill(gradient, "zero")
    call.fill(x, "zero")
    parts = (call.extents(x), call.extents(weight), call.traced[2])
    return tuple(t and p for t, p in zip(call.traced, parts, strict=True))


@_rule("_native_batch_norm_legit_no_training.default")
def _batch_norm(call: Call) -> Any:
    extents = call.extents(call.args[0])
    call.refuse_filled(*extents[1:])
    return extents, *call.traced[1:]


@_rule("native_group_norm.default")
def _group_norm(call: Call) -> Any:
    extents = call.extents(call.args[0])
    _batch_alone(call, extents)
    stats = (extents[0], call.traced[1][1])
    return extents, stats, stats


@_rule("native_group_norm_backward.default")
def _group_norm_backward(call: Call) -> Any:
    extents = call.extents(call.args[1])
    _batch_alone(call, extents)
    for each in dict.fromkeys(call.args[:4]):
        call.fill(each, "zero")
    return extents, *call.traced[1:]


# Attention


def _attention_keys(call: Call, q: Any, k: Any, causal: Any) -> None:
    """Keys that do not count are not seen; behind as many queries nobody sees them anyway."""
    queries, keys = call.extents(q)[2], call.extents(k)[2]
    if is_filled(keys) and not (causal and queries == keys and len(keys) == 1):
        call.change.keys = keys


@_rule("_scaled_dot_product_flash_attention_for_cpu.default")
def _attention(call: Call) -> Any:
    q, k, v = call.args[:3]
    call.refuse_filled(call.extents(q)[3], call.extents(v)[3])
    _attention_keys(call, q, k, call.arg(4, False))
    if is_filled(call.extents(k)[2]):
        call.fill(v, "zero")
    extents = call.extents(q)
    made = (*extents[:3], call.extents(v)[3])
    sums = extents[:3] if size_of(call.traced[1][1]) == size_of(extents[1]) else (
        extents[0], extents[2], extents[1]
    )  # fmt: skip
    return made, sums


@_rule("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def _attention_backward(call: Call) -> Any:
    gradient, q, k, v, y, sums, _, causal = call.args[:8]
    _attention_keys(call, q, k, causal)
    for each in dict.fromkeys((gradient, q, k, v, y, sums)):
        call.fill(each, "zero")
    return call.extents(q), call.extents(k), call.extents(v)


# Indexing


@_rule("embedding.default")
def _embedding(call: Call) -> Extents:
    weight, indices = map(call.extents, call.args[:2])
    call.refuse_filled(*weight)
    return (*indices, weight[1])


@_rule("embedding_dense_backward.default")
def _embedding_backward(call: Call) -> Extents:
    gradient, indices = call.args[:2]
    call.fill(gradient, "zero")
    call.fill(indices, "zero")
    return plain(size_of(call.traced[0])), call.extents(gradient)[-1]


@_rule("gather.default")
def _gather(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    call.refuse_filled(extents[call.args[1]])
    return call.extents(call.args[2])


@_rule("scatter.value", "scatter.src")
def _scatter(call: Call) -> Extents:
    extents = call.extents(call.args[0])
    call.refuse_filled(extents[call.args[1]])
    rest = [_with(each, call.args[1], ()) for each in (extents, call.extents(call.args[2]))]
    if rest[0] != rest[1]:
        raise NotLowered("places in dimensions that are open in different ways")
    return extents


@_rule("index.Tensor")
def _index(call: Call) -> Extents:
    extents, places = call.extents(call.args[0]), call.args[1]
    if any(place is None for place in places):
        raise NotLowered("places along some dimensions alone")
    call.refuse_filled(*extents[: len(places)])
    return (*broadcast([call.extents(p) for p in places]), *extents[len(places) :])


@_rule("index_put.default", "_unsafe_index_put.default")
def _index_put(call: Call) -> Extents:
    x, places, values = call.args[:3]
    found = [p for p in places if p is not None]
    call.refuse_filled(*call.extents(x))
    if any(is_filled(e) for p in (*found, values) for e in call.extents(p)):
        if not call.arg(3, False):
            raise NotLowered("elements put in places that are open")
        for each in dict.fromkeys((values, *found)):
            call.fill(each, "zero")
    return call.extents(x)


# Recurrent layers


def _steps(call: Call, extent: Extent) -> None:
    """How many steps there are, if that is open."""
    if not is_filled(extent):
        return
    if len(extent) > 1:
        raise NotLowered("steps of several factors")
    call.change.steps = extent[0].symbol


@_rule("xladev.lstm_steps.default")
def _lstm(call: Call) -> Any:
    x, h, c = map(call.extents, call.args[:3])
    call.refuse_filled(x[2], h[1], c[1])
    _steps(call, x[0])
    lead = (x[0], x[1])
    return (*lead, h[1]), (x[1], h[1]), (x[1], c[1]), (*lead, c[1]), x


@_rule("xladev.lstm_steps_backward.default")
def _lstm_backward(call: Call) -> Any:
    dhidden, dh, dc, _, gates = map(call.extents, call.args[:5])
    _steps(call, gates[0])
    return gates, dh, dc, dhidden


@_rule("xladev.gru_steps.default")
def _gru(call: Call) -> Any:
    x, h = map(call.extents, call.args[:2])
    _steps(call, x[0])
    return (*x[:2], h[1]), h, (*x[:2], merged([*plain(4), *h[1]]))


@_rule("xladev.gru_steps_backward.default")
def _gru_backward(call: Call) -> Any:
    dh, hidden = call.extents(call.args[1]), call.extents(call.args[2])
    _steps(call, hidden[0])
    wide = (*hidden[:2], merged([*plain(3), *hidden[2]]))
    return wide, wide, dh


@_rule("xladev.rnn_steps.default")
def _rnn(call: Call) -> Any:
    x, h = map(call.extents, call.args[:2])
    _steps(call, x[0])
    return x, h


@_rule("xladev.rnn_steps_backward.default")
def _rnn_backward(call: Call) -> Any:
    dh, hidden = call.extents(call.args[1]), call.extents(call.args[2])
    _steps(call, hidden[0])
    return hidden, dh


@_rule("xladev.states_before.default")
def _states_before(call: Call) -> Extents:
    states = call.extents(call.args[0])
    _steps(call, states[0])
    return states
