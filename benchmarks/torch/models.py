"""The models: small ones of transformers, torchvision and timm, a diffusion UNet, LSTM and GRU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn

Inputs = dict[str, Any] | torch.Tensor
Maker = Callable[[], tuple[nn.Module, Inputs]]

_SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 37}  # fmt: skip
_IMAGE = {k: v for k, v in _SMALL.items() if k != "vocab_size"} | {"image_size": 64}
_GROUPED = _SMALL | {"num_key_value_heads": 2}
_EXPERTS = _GROUPED | {"intermediate_size": 40, "num_local_experts": 4}
"""Torch's products of groups want rows of whole multiples of 16 bytes."""
_PAIR = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 37,
         "decoder_ffn_dim": 37}  # fmt: skip


def declare_boxes() -> None:
    """Lets torchvision import beside a torch for CPUs alone: its box operators want CUDA's library.

    They cannot be called; no model here does.
    """
    for name in ("nms", "qnms"):
        schema = f"torchvision::{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(schema.split("(")[0], "(" + schema.split("(", 1)[1])


def _ids() -> torch.Tensor:
    return torch.randint(3, 90, (2, 12))


def _text() -> dict[str, Any]:
    return {"input_ids": _ids()}


def _pair() -> dict[str, Any]:
    return {"input_ids": _ids(), "decoder_input_ids": _ids()}


def _image() -> dict[str, Any]:
    return {"pixel_values": torch.rand(2, 3, 64, 64)}


def _transformers(name: str, inputs: Callable[[], Any], config: str, **options: Any) -> Maker:
    def make() -> tuple[nn.Module, Inputs]:
        declare_boxes()
        import transformers

        settings = getattr(transformers, config)(**options)
        for key, value in settings.to_dict().items():
            if "drop" in key and isinstance(value, float):
                setattr(settings, key, 0.0)
        settings.use_cache = False
        return getattr(transformers, name)(settings), inputs()

    return make


def _speech() -> dict[str, Any]:
    return {"input_features": torch.rand(2, 16, 60), "decoder_input_ids": _ids()}


_WHISPER = _PAIR | {"max_source_positions": 30, "num_mel_bins": 16, "pad_token_id": 0,
                    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}  # fmt: skip
_WAVE = {k: v for k, v in _SMALL.items() if k != "vocab_size"} | {
    "conv_dim": (32, 32), "conv_stride": (5, 2), "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0,
}  # fmt: skip
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4,
       "decoder_start_token_id": 0}  # fmt: skip
_DISTILBERT = {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}
_GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4}
_OPT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "ffn_dim": 37, "word_embed_proj_dim": 32}  # fmt: skip
_MAMBA = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
_DINO = {k: v for k, v in _IMAGE.items() if k != "intermediate_size"} | {"patch_size": 16}

TRANSFORMERS: dict[str, Maker] = {
    "bert": _transformers("BertForMaskedLM", _text, "BertConfig", **_SMALL),
    "distilbert": _transformers("DistilBertForMaskedLM", _text, "DistilBertConfig", **_DISTILBERT),
    "roberta": _transformers("RobertaForMaskedLM", _text, "RobertaConfig", **_SMALL),
    "gpt2": _transformers("GPT2LMHeadModel", _text, "GPT2Config", **_GPT2),
    "gptneox": _transformers("GPTNeoXForCausalLM", _text, "GPTNeoXConfig", **_SMALL),
    "opt": _transformers("OPTForCausalLM", _text, "OPTConfig", **_OPT),
    "llama": _transformers("LlamaForCausalLM", _text, "LlamaConfig", **_GROUPED),
    "mistral": _transformers("MistralForCausalLM", _text, "MistralConfig", **_GROUPED),
    "qwen2": _transformers("Qwen2ForCausalLM", _text, "Qwen2Config", **_GROUPED),
    "gemma": _transformers("GemmaForCausalLM", _text, "GemmaConfig", head_dim=8, **_GROUPED),
    "phi": _transformers("PhiForCausalLM", _text, "PhiConfig", **_SMALL),
    "mixtral": _transformers("MixtralForCausalLM", _text, "MixtralConfig", **_EXPERTS),
    "mamba": _transformers("MambaForCausalLM", _text, "MambaConfig", **_MAMBA),
    "t5": _transformers("T5ForConditionalGeneration", _pair, "T5Config", **_T5),
    "bart": _transformers("BartForConditionalGeneration", _pair, "BartConfig", **_PAIR),
    "whisper": _transformers(
        "WhisperForConditionalGeneration", _speech, "WhisperConfig", **_WHISPER
    ),
    "vit": _transformers("ViTForImageClassification", _image, "ViTConfig", **_IMAGE),
    "clip": _transformers("CLIPVisionModel", _image, "CLIPVisionConfig", patch_size=16, **_IMAGE),
    "dinov2": _transformers("Dinov2Model", _image, "Dinov2Config", **_DINO),
    "wav2vec2": _transformers(
        "Wav2Vec2Model", lambda: {"input_values": torch.rand(2, 2000)}, "Wav2Vec2Config", **_WAVE
    ),
}


def _vision(name: str, size: int = 64, **options: Any) -> Maker:
    def make() -> tuple[nn.Module, Inputs]:
        declare_boxes()
        import torchvision.models

        model = getattr(torchvision.models, name)(weights=None, **options)
        return model, torch.rand(2, 3, size, size)

    return make


VISION: dict[str, Maker] = {
    "resnet18": _vision("resnet18"),
    "resnext50": _vision("resnext50_32x4d"),
    "mobilenet_v3": _vision("mobilenet_v3_small"),
    "squeezenet": _vision("squeezenet1_1"),
    "shufflenet": _vision("shufflenet_v2_x0_5"),
    "efficientnet": _vision("efficientnet_b0"),
    "densenet": _vision("densenet121"),
    "convnext": _vision("convnext_tiny"),
    "swin": _vision("swin_t"),
}


def _timm(name: str, size: int = 224) -> Maker:
    def make() -> tuple[nn.Module, Inputs]:
        declare_boxes()
        import timm

        return timm.create_model(name, pretrained=False), torch.rand(2, 3, size, size)

    return make


TIMM: dict[str, Maker] = {
    "timm vit": _timm("vit_tiny_patch16_224"),
    "timm deit": _timm("deit_tiny_patch16_224"),
    "timm convnext": _timm("convnext_atto", 64),
    "timm mobilenet": _timm("mobilenetv3_small_050", 64),
    "timm efficientnet": _timm("efficientnet_lite0", 64),
    "timm mixer": _timm("mixer_s32_224"),
    "timm regnet": _timm("regnetx_002", 64),
    "timm poolformer": _timm("poolformer_s12", 64),
    "timm ghostnet": _timm("ghostnet_050", 64),
    "timm resnet": _timm("resnet18", 64),
}


class Recurrent(nn.Module):
    """A recurrent layer and what reads its last state."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(32, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of (batch, steps, 32), (batch, 10)."""
        seen, _ = self.layer(x)
        return self.head(seen[:, -1])


class Cells(nn.Module):
    """A cell called step by step."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(32, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of (batch, steps, 32), (batch, 10)."""
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class Residual(nn.Module):
    """A residual block of a diffusion network: group norms, SiLU, and a shift by the time."""

    def __init__(self, inside: int, outside: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(4, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1)
        )
        self.shift = nn.Linear(time, outside)
        self.second = nn.Sequential(
            nn.GroupNorm(4, outside), nn.SiLU(), nn.Conv2d(outside, outside, 3, padding=1)
        )
        self.skip = nn.Conv2d(inside, outside, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Of (batch, inside, h, w), (batch, outside, h, w)."""
        h = self.first(x) + self.shift(time)[:, :, None, None]
        return self.skip(x) + self.second(h)


class UNet(nn.Module):
    """A denoising network with two scales, attention at the lower one, and a time."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, 32))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.low = Residual(width, width, 32), Residual(width, 2 * width, 32)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.qkv, self.mix = nn.Conv2d(2 * width, 6 * width, 1), nn.Conv2d(2 * width, 2 * width, 1)
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up, self.head = Residual(2 * width, width, 32), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The noise in (batch, 3, h, w) at the times of (batch, width)."""
        time = self.time(at)
        wide = self.down(self.stem(x), time)
        low = self.low(self.shrink(wide), time)
        q, k, v = self.qkv(low).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        low = low + self.mix(seen.squeeze(1).transpose(1, 2).reshape(low.shape))
        return self.head(self.up(torch.cat([self.grow(low), wide], 1), time))


def _own(model: Callable[[], nn.Module], inputs: Callable[[], Inputs]) -> Maker:
    return lambda: (model(), inputs())


def _steps() -> torch.Tensor:
    return torch.rand(8, 16, 32)


def _noise() -> dict[str, Any]:
    return {"x": torch.rand(2, 3, 32, 32), "at": torch.rand(2, 16)}


def _mlp() -> nn.Module:
    """So small that it is the call that takes time."""
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))


OWN: dict[str, Maker] = {
    "mlp": _own(_mlp, lambda: torch.rand(8, 32)),
    "lstm": _own(lambda: Recurrent("LSTM"), _steps),
    "gru": _own(lambda: Recurrent("GRU"), _steps),
    "lstm cells": _own(lambda: Cells("LSTMCell"), _steps),
    "gru cells": _own(lambda: Cells("GRUCell"), _steps),
    "unet": _own(UNet, _noise),
}


def _wide() -> nn.Module:
    """A perceptron of 33.6 MB."""
    return nn.Sequential(
        nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1024)
    )


LARGE: dict[str, Maker] = {
    "wide mlp": _own(_wide, lambda: torch.rand(64, 1024)),
    "resnet18 224": _vision("resnet18", 224),
    "gpt2 small": _transformers(
        "GPT2LMHeadModel", lambda: {"input_ids": torch.randint(0, 50257, (1, 128))}, "GPT2Config",
            ),
}  # fmt: skip
"""Models of real size, which are measured where they are asked for."""

FAMILIES = {"transformers": TRANSFORMERS, "torchvision": VISION, "timm": TIMM, "own": OWN}
MODELS: dict[str, Maker] = {name: m for family in FAMILIES.values() for name, m in family.items()}
MODELS |= LARGE


def make(name: str) -> tuple[nn.Module, Inputs]:
    """A model with random weights and an input, the same at each call; nothing is dropped.

    Dropout would draw other numbers under each compiler, and their losses could not be compared.
    """
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    for module in model.modules():
        for key, value in vars(module).items():
            if isinstance(value, float) and ("drop" in key or _drops(module, key)):
                setattr(module, key, 0.0)
    return model, inputs


def _drops(module: nn.Module, key: str) -> bool:
    kind = type(module).__name__
    return key == "p" and ("Dropout" in kind or "StochasticDepth" in kind)
