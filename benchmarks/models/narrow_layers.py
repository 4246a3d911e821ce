"""Linear layers whose weights are kept in 8 or 4 bits, with a scale for each row or group of it.

Numbers of 4 bits are in bytes, two in each, 8 added to them; those of 8 bits have their sign. In
ONNX, which has no such layer, they are ONNX Runtime's ``MatMulNBits``.
"""

from __future__ import annotations

import torch
from torch import nn

ONNX_BLOCK = 128
"""Numbers with a scale of their own in ONNX, at most; it allows powers of two alone."""


class NarrowLinear(nn.Module):
    """The layer.

    Args:
        linear: without a bias.
        bits: 8 or 4.
        group: numbers of a row with a scale of their own; 0 for all.
    """

    numbers: torch.Tensor
    scales: torch.Tensor
    blocks: torch.Tensor
    block_scales: torch.Tensor

    def __init__(self, linear: nn.Linear, bits: int, group: int) -> None:
        super().__init__()
        assert linear.bias is None
        outer, inner = linear.weight.shape
        self.bits, self.group, self.is_for_onnx = bits, group or inner, False
        cut = linear.weight.detach().float().reshape(outer, inner // self.group, self.group)
        most = 2 ** (bits - 1)
        scales = cut.abs().amax(-1, keepdim=True) / (most - 1)
        whole = (cut / scales).round().clamp(-most, most - 1).to(torch.int8).reshape(outer, inner)
        self.register_buffer("numbers", whole if bits == 8 else _packed(whole))
        self.register_buffer("scales", scales.squeeze(-1).to(linear.weight.dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of (..., inner), (..., outer)."""
        if self.is_for_onnx:
            return self._in_onnx(x)
        outer, groups = self.scales.shape
        whole = self.numbers.to(x.dtype)
        if self.bits == 4:
            high = torch.bitwise_right_shift(self.numbers, 4)
            pairs = torch.stack((self.numbers & 15, high), dim=-1)
            whole = pairs.to(x.dtype) - 8
        made = whole.reshape(outer, groups, self.group) * self.scales[..., None]
        return nn.functional.linear(x, made.reshape(outer, groups * self.group))

    def prepare_for_onnx(self) -> None:
        """Lays weights out as ONNX has them; from now on, the layer is what is exported there."""
        outer, groups = self.scales.shape
        block = min(self.group, ONNX_BLOCK)
        held = self.numbers
        if self.bits == 8:
            held = (held.to(torch.int16) + 128).to(torch.uint8)
        self.register_buffer("blocks", held.reshape(outer, -1, block * self.bits // 8))
        scales = self.scales.repeat_interleave(self.group // block, dim=1)
        self.register_buffer("block_scales", scales.contiguous())
        self.is_for_onnx = True

    def _in_onnx(self, x: torch.Tensor) -> torch.Tensor:
        outer, groups = self.scales.shape
        sizes = {"K": groups * self.group, "N": outer, "bits": self.bits}
        return torch.onnx.ops.symbolic(
            "com.microsoft::MatMulNBits",
            (x, self.blocks, self.block_scales),
            {**sizes, "block_size": min(self.group, ONNX_BLOCK)},
            dtype=x.dtype,
            shape=(*x.shape[:-1], outer),
            version=1,
        )


def _packed(whole: torch.Tensor) -> torch.Tensor:
    """Numbers of 4 bits with 8 added to them, the first of two in the low half of a byte."""
    moved = (whole + 8).to(torch.uint8)
    return moved[:, ::2] | moved[:, 1::2] << 4


def narrowed(module: nn.Module, bits: int, group: int = 0) -> nn.Module:
    """The module with all of its linear layers kept in fewer bits, in place."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, NarrowLinear(child, bits, group))
        else:
            narrowed(child, bits, group)
    return module


def read_nbytes(module: nn.Module) -> int:
    """Bytes of all weights but those of which rows are looked up."""
    seen = {
        id(tensor): tensor.nbytes
        for part in module.modules()
        if not isinstance(part, nn.Embedding)
        for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False))
    }
    return sum(seen.values())
