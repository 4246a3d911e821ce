"""Unchanged training scripts on a device of xladev, beside the host: the losses of each step.

    python -m tests.tools.torch_device_scripts                 all of SCRIPTS
    python -m tests.tools.torch_device_scripts gpt2 resnet18 --steps 20 --platform template_npu

Prints for each the largest difference of the losses, when programs were compiled, and what ran on
the host. Any model of benchmarks/torch/models.py may be named, and "trainer".
"""

import argparse
import contextlib
import io
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import xladev.torch
from benchmarks.torch.models import make

SCRIPTS = ("mlp", "gpt2", "generation", "bert", "resnet18", "resnet18 classes", "unet", "lstm",
           "policy gradient")  # fmt: skip


def training(name: str, device: str, steps: int) -> Iterator[float]:
    """A model trained by AdamW; the loss of each step."""
    model, inputs = make(name)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    given = (
        {k: v.to(device) for k, v in inputs.items()}
        if isinstance(inputs, dict)
        else inputs.to(device)
    )
    for _ in range(steps):
        optimizer.zero_grad()
        made = model(**given) if isinstance(given, dict) else model(given)
        first = made[0] if not isinstance(made, torch.Tensor) else made
        loss = first.pow(2).mean() + first.mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def generation(device: str, steps: int) -> Iterator[float]:
    """Tokens that GPT-2 chooses, as numbers."""
    model, inputs = make("gpt2")
    assert isinstance(inputs, dict)
    model.to(device).eval()
    found: Any = model.generate(
        inputs["input_ids"].to(device), max_new_tokens=steps, do_sample=False, pad_token_id=0
    )
    yield from map(float, found.cpu().flatten().tolist())


def policy_gradient(device: str, steps: int) -> Iterator[float]:
    """REINFORCE in a corridor: the policy goes left or right, and is rewarded at the right end."""
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        at, logs, rewards = 3, [], []
        for _ in range(8):
            state = torch.zeros(8, device=device)
            state[at] = 1
            chances = torch.distributions.Categorical(logits=policy(state))
            goes = int(torch.rand((), generator=generator) < chances.probs[1].item())
            logs.append(chances.log_prob(torch.tensor(goes, device=device)))
            at = min(7, max(0, at + 2 * goes - 1))
            rewards.append(float(at == 7))
        returns = torch.tensor(rewards, device=device).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(logs) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def classes(device: str, steps: int) -> Iterator[float]:
    """ResNet-18 learns to tell pictures apart, by SGD with momentum."""
    model, inputs = make("resnet18")
    assert isinstance(inputs, torch.Tensor)
    model.to(device).train()
    x = torch.rand(8, *inputs.shape[1:], generator=torch.Generator().manual_seed(0)).to(device)
    y = torch.arange(8, device=device) % 4
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss.item()


def by_trainer(device: str, steps: int) -> Iterator[float]:
    """A tiny GPT-2 under `transformers.Trainer`, which needs the package accelerate."""
    make("gpt2")  # torchvision without kernels is made bearable for transformers there
    os.environ["ACCELERATE_TORCH_DEVICE"] = device
    from accelerate.state import AcceleratorState
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    AcceleratorState._reset_state(reset_partial_state=True)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                        bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0,
                        attn_pdrop=0)  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(0, 64, (16,), generator=generator) for _ in range(64)]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=4, logging_steps=1,
            report_to=[], save_strategy="no", learning_rate=1e-3, disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(GPT2LMHeadModel(config), options,
                          train_dataset=[{"input_ids": i, "labels": i} for i in ids])  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train()
        assert next(trainer.model.parameters()).device.type == device
        yield from (each["loss"] for each in trainer.state.log_history if "loss" in each)


OWN: dict[str, Callable[[str, int], Iterator[float]]] = {
    "generation": generation,
    "policy gradient": policy_gradient,
    "resnet18 classes": classes,
    "trainer": by_trainer,
}


def script(name: str, device: str, steps: int) -> Iterator[float]:
    """The losses of a script on a device."""
    return OWN[name](device, steps) if name in OWN else training(name, device, steps)


def compared(name: str, steps: int) -> str:
    """What a script gave on both devices, in one line."""
    wanted = list(script(name, "cpu", steps))
    counts = xladev.torch.report()
    counts.clear()
    found, compiled = [], []
    start = time.process_time()
    for loss in script(name, "npu", steps):
        found.append(loss)
        compiled.append(counts.compiled)
    away = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(found, wanted, strict=True))
    last = next(at for at, count in enumerate(compiled) if count == compiled[-1]) + 1
    return (
        f"{name}: {len(found)} numbers, {wanted[0]:.4f} to {wanted[-1]:.4f}, off by {away:.1e}; "
        f"{compiled[-1]} programs, the last at {last}; "
        f"{time.process_time() - start:.1f} s of processor time; "
        f"host {sum(counts.host.values())} {sorted({n for n, _ in counts.host})}"
    )


def nudged(name: str, steps: int) -> str:
    """How far the host's own losses go from a start that differs by rounding."""
    wanted = list(script(name, "cpu", steps))
    usual = nn.Module.to

    def larger(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        with torch.no_grad():
            for param in self.parameters():
                param.mul_(1 + 1e-7)
        return usual(self, *args, **kwargs)

    nn.Module.to = larger
    try:
        found = list(script(name, "cpu", steps))
    finally:
        nn.Module.to = usual
    away = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(found, wanted, strict=True))
    return f"{name}: the host from a start that differs by 1e-7 is off by {away:.1e}"


def main() -> None:
    """Runs scripts."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=SCRIPTS)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--nudge", action="store_true",
                        help="the host beside itself, from weights larger by 1e-7")  # fmt: skip
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.nudge:
        for name in options.names:
            print(nudged(name, options.steps), flush=True)
        return
    xladev.torch.register("npu", platform=options.platform)
    for name in options.names:
        print(compared(name, options.steps), flush=True)


if __name__ == "__main__":
    main()
