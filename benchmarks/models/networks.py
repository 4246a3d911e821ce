"""The models, written in PyTorch, with random weights: the same in every process.

Sizes are those of the models as published; where a name says so, a part of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn

from benchmarks.models.narrow_layers import narrowed
from benchmarks.models.training import ClassLoss, TextLoss
from benchmarks.torch.models import UNet, declare_boxes

declare_boxes()

Tensors = tuple[torch.Tensor, ...]
Made = tuple[nn.Module, Tensors]

TOKENS = 128
"""Of a text, and those that a decoding step finds in its cache."""


@dataclass(frozen=True, slots=True)
class Network:
    """A model of the benchmark.

    Attributes:
        make: module and inputs for a batch.
        batches: that are measured.
        is_training: a step of training, which gives a loss; else an inference.
        is_decoding: a step of decoding, which reads each weight once.
        is_exported_by_torchscript: its ONNX file is made by the exporter that keeps a recurrent
            layer as one operator.
    """

    make: Callable[[int], Made]
    batches: tuple[int, ...] = (1, 8)
    is_training: bool = False
    is_decoding: bool = False
    is_exported_by_torchscript: bool = False


def make(name: str, batch: int) -> Made:
    """A model and inputs for it; as every process that asks makes them.

    Raises:
        KeyError: no such model.
    """
    torch.manual_seed(0)
    network = NETWORKS[name]
    module, inputs = network.make(batch)
    return module.train(network.is_training), inputs


class Only(nn.Module):
    """One result of a model of transformers, whose others are nobody's."""

    def __init__(self, model: nn.Module, result: str) -> None:
        super().__init__()
        self.model, self.result = model, result

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """The result of the only input."""
        return getattr(self.model(given), self.result)


class Decode(nn.Module):
    """One step of a decoder: the logits after a token, with keys and values of those before."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> torch.Tensor:
        """Of (batch, 1) and keys and values of each layer (batch, heads, before, width)."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        return self.model(input_ids=ids, past_key_values=cache, use_cache=True).logits


def _ids(batch: int, count: int, words: int) -> torch.Tensor:
    return torch.randint(0, words, (batch, count))


def _bert(batch: int) -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig()
    return Only(BertModel(config), "last_hidden_state"), (_ids(batch, TOKENS, config.vocab_size),)


def _gpt2() -> tuple[nn.Module, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False)
    return GPT2LMHeadModel(config), config


def _gpt2_prefill(batch: int) -> Made:
    model, config = _gpt2()
    return Only(model, "logits"), (_ids(batch, TOKENS, config.vocab_size),)


def _gpt2_decode(batch: int) -> Made:
    model, config = _gpt2()
    return Decode(model), (
        _ids(batch, 1, config.vocab_size),
        *_past(batch, config.n_layer, config.n_head, config.n_embd // config.n_head),
    )


def _gpt2_training(batch: int) -> Made:
    """Without dropout, which each library would draw otherwise."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return TextLoss(GPT2LMHeadModel(config)), (_ids(batch, TOKENS, config.vocab_size),)


def _past(batch: int, layers: int, heads: int, width: int) -> Tensors:
    return tuple(torch.randn(batch, heads, TOKENS, width) for _ in range(2 * layers))


def _llama() -> tuple[nn.Module, Any]:
    """Four layers as wide as those of the model of 1.1 billion weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32_000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=4,
        num_attention_heads=32, num_key_value_heads=4, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), config


def _llama_prefill(batch: int, dtype: torch.dtype = torch.float32) -> Made:
    model, config = _llama()
    return Only(model.to(dtype), "logits"), (_ids(batch, TOKENS, config.vocab_size),)


def _llama_decode(
    batch: int, dtype: torch.dtype = torch.float32, bits: int = 0, group: int = 0
) -> Made:
    model, config = _llama()
    if bits:
        narrowed(model, bits, group)
    past = _past(batch, config.num_hidden_layers, config.num_key_value_heads, 64)
    ids = _ids(batch, 1, config.vocab_size)
    return Decode(model.to(dtype)), (ids, *(each.to(dtype) for each in past))


def _whisper(batch: int) -> Made:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536
    )
    return Only(WhisperEncoder(config), "last_hidden_state"), (torch.randn(batch, 80, 3000),)


def _vision(name: str) -> Callable[[int], Made]:
    def made(batch: int) -> Made:
        import torchvision.models

        model = getattr(torchvision.models, name)(weights=None)
        return model, (torch.rand(batch, 3, 224, 224),)

    return made


def _resnet_training(batch: int) -> Made:
    import torchvision.models

    model = torchvision.models.resnet18(weights=None)
    return ClassLoss(model), (torch.rand(batch, 3, 224, 224), _ids(batch, 1, 1000)[:, 0])


class Recurrent(nn.Module):
    """Two layers of LSTM, 512 wide."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(512, 512, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of (batch, steps, 512), states of the last layer in all steps."""
        return self.layers(x)[0]


def _lstm(batch: int) -> Made:
    return Recurrent(), (torch.rand(batch, 32, 512),)


def _unet(batch: int) -> Made:
    return UNet(128), (torch.randn(batch, 3, 64, 64), torch.rand(batch, 128))


def _decode(dtype: torch.dtype = torch.float32, bits: int = 0, group: int = 0) -> Network:
    return Network(
        lambda batch: _llama_decode(batch, dtype, bits, group), batches=(1,), is_decoding=True
    )


NETWORKS: dict[str, Network] = {
    "BERT-base, 128 tokens": Network(_bert),
    "GPT-2 prefill, 128 tokens": Network(_gpt2_prefill),
    "GPT-2 decode, cache of 128": Network(_gpt2_decode, is_decoding=True),
    "ResNet-50": Network(_vision("resnet50")),
    "ViT-B/16": Network(_vision("vit_b_16")),
    "MobileNetV2": Network(_vision("mobilenet_v2")),
    "LSTM 2 x 512, 32 steps": Network(_lstm, is_exported_by_torchscript=True),
    "EfficientNet-B0": Network(_vision("efficientnet_b0")),
    "UNet step, 64 x 64": Network(_unet),
    "Whisper-tiny encoder": Network(_whisper, batches=(1,)),
    "LLaMA-like prefill, 4 layers": Network(_llama_prefill, batches=(1,)),
    "LLaMA-like decode, 4 layers": _decode(),
    "LLaMA-like decode, 4 layers, bf16": _decode(torch.bfloat16),
    "LLaMA-like decode, 4 layers, int8": _decode(bits=8),
    "LLaMA-like decode, 4 layers, int4 in groups of 128": _decode(bits=4, group=128),
    "LLaMA-like decode, 4 layers, int4 in groups of 32": _decode(bits=4, group=32),
    "LLaMA-like decode, 4 layers, int4 in groups of 128, bf16": _decode(
        torch.bfloat16, bits=4, group=128
    ),
    "GPT-2 training step, 128 tokens": Network(_gpt2_training, batches=(1,), is_training=True),
    "ResNet-18 training step": Network(_resnet_training, batches=(8,), is_training=True),
}
