"""Models of the package transformers, small and with random weights, trained beside eager torch.

    python -m tests.tools.torch_models            all
    python -m tests.tools.torch_models gpt2 bert

Prints for each the largest difference of 20 losses (AdamW), graphs, breaks, and what torch ran.
"""

import copy
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf
from torch._dynamo.utils import counters

from xladev.frontends.torch import records

STEPS = 20
_SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 37}  # fmt: skip
_IMAGE = {k: v for k, v in _SMALL.items() if k != "vocab_size"} | {"image_size": 32}


def _text(cls: str, config: str, **options: Any) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def make() -> tuple[Any, dict[str, Any]]:
        ids = torch.randint(3, 90, (2, 12))
        model = getattr(hf, cls)(getattr(hf, config)(**options))
        return model, {"input_ids": ids, "labels": ids}

    return make


def _image(cls: str, config: str, **options: Any) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def make() -> tuple[Any, dict[str, Any]]:
        model = getattr(hf, cls)(getattr(hf, config)(num_labels=4, **options))
        labels = torch.randint(0, 4, (2,))
        return model, {"pixel_values": torch.rand(2, 3, 32, 32), "labels": labels}

    return make


_GROUPED = _SMALL | {"num_key_value_heads": 2}
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4,
       "decoder_start_token_id": 0}  # fmt: skip
MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "gpt2": _text("GPT2LMHeadModel", "GPT2Config", vocab_size=99, n_embd=32, n_layer=2, n_head=4),
    "bert": _text("BertForMaskedLM", "BertConfig", **_SMALL),
    "llama": _text("LlamaForCausalLM", "LlamaConfig", **_GROUPED),
    "t5": _text("T5ForConditionalGeneration", "T5Config", **_T5),
    "vit": _image("ViTForImageClassification", "ViTConfig", **_IMAGE, patch_size=8),
    "mistral": _text("MistralForCausalLM", "MistralConfig", **_GROUPED),
    "qwen2": _text("Qwen2ForCausalLM", "Qwen2Config", **_GROUPED),
    "gemma": _text("GemmaForCausalLM", "GemmaConfig", head_dim=8, **_GROUPED),
    "phi": _text("PhiForCausalLM", "PhiConfig", **_SMALL),
    "gptneox": _text("GPTNeoXForCausalLM", "GPTNeoXConfig", **_SMALL),
}


def losses(model: Any, run: Any, inputs: dict[str, Any]) -> list[float]:
    """The losses of the first steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = run(**inputs).loss
        loss.backward()
        optimizer.step()
        found.append(float(loss))
    return found


def main(names: list[str]) -> None:
    """Trains each model twice."""
    for name in names or list(MODELS):
        records.forget()
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        model.eval()  # dropout draws other numbers than torch's
        if hasattr(model.config, "use_cache"):
            model.config.use_cache = False
        other = copy.deepcopy(model)
        wanted = losses(other, other, inputs)
        start = time.process_time()
        run = torch.compile(model, backend="xladev", options={"platform": "cpu"})
        found = losses(model, run, inputs)
        away = max(abs(a - b) for a, b in zip(found, wanted, strict=True))
        kinds = Counter(record.kind for record in records.compiled_graphs())
        breaks = sum(counters["graph_break"].values())
        print(f"{name}: losses {wanted[0]:.4f} to {wanted[-1]:.4f}, off by {away:.1e}; "
              f"{dict(kinds)}, {breaks} breaks, {time.process_time() - start:.0f} s of processor "
              f"time; torch runs {sum(records.fallbacks().values())} {list(records.fallbacks())}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
