"""`torch.autocast`: which operators compute in the lower type, and which in f32.

The lists follow those of CUDA in torch's documentation, "Automatic Mixed Precision".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xladev.frontends.torch.device import hooks

LOWER = (
    "mm", "bmm", "addmm", "addbmm", "baddbmm", "addmv", "addr", "mv", "matmul", "linear",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input",
    "conv_transpose3d.input", "convolution", "prelu", "scaled_dot_product_attention",
    "chain_matmul", "linalg_multi_dot", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
)  # fmt: skip
"""Operators that compute in the type of `torch.autocast`."""

IN_F32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p",
    "reciprocal", "rsqrt", "sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar",
    "softplus", "layer_norm", "group_norm", "norm.Scalar", "nuclear_norm", "cosine_similarity",
    "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss",
    "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "cross_entropy_loss",
    "binary_cross_entropy_with_logits", "dist", "cdist", "renorm", "logsumexp", "softmax.int",
    "log_softmax.int", "cumprod", "cumsum", "prod", "sum",
)  # fmt: skip
"""Operators that compute in f32."""


def register_autocast(library: torch.library.Library, every: torch.library.Library) -> None:
    """Gives torch the kernels of its autocast key.

    Args:
        library: of ATen.
        every: of all namespaces, for operators without a kernel of the key: they run as they are.
    """
    every.fallback(torch.library.fallthrough_kernel, f"Autocast{hooks.KEY}")
    for name in LOWER:
        _put(library, name, lambda: torch.get_autocast_dtype(_device()))
    for name in IN_F32:
        _put(library, name, lambda: torch.float32)


def _device() -> str:
    found = hooks.registered_name()
    assert found is not None
    return found


def _put(library: torch.library.Library, name: str, wanted: Callable[[], torch.dtype]) -> None:
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        to = wanted()
        with hooks.without_autocast():
            return op(*_cast(args, to), **_cast(kwargs, to))

    library.impl(f"aten::{name}", kernel, f"Autocast{hooks.KEY}")


def _cast(value: Any, to: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        fits = value.is_floating_point() and value.dtype != torch.float64
        return value.to(to) if fits and value.dtype != to else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(each, to) for each in value)
    if isinstance(value, dict):
        return {name: _cast(each, to) for name, each in value.items()}
    return value
