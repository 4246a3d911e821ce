"""Random sequences of views, writes, reads, deletions and gradients on a device of torch.

    python -m tests.tools.torch_device_sequences --count 1000 --platform interpreter
    python -m tests.tools.torch_device_sequences --seed 17 --count 1 --show
    XLADEV_CACHE=off python -m tests.tools.torch_device_sequences --count 90000 --eager

Each sequence runs on the host and on the device, step beside step: both give equal values, shapes,
gradients and kinds of errors, and both tensors do or do not want a gradient. Numbers are small
integers, so sums are exact in any order. After a sequence nothing of it is left on the device, but
where the host keeps its tensors, too: autograd refers to itself in some errors' wake.
With ``--eager`` each operator is a program of its own, which serves all sequences: views, writes
and gradients are the same, and sequences run up to three times as fast. Programs are forgotten
after a batch, so that memory does not grow.
"""

import argparse
import gc
import random
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import xladev.torch
from xladev.frontends.torch.device import program
from xladev.frontends.torch.device.node import Node

Pair = tuple[torch.Tensor, torch.Tensor]
Step = Callable[[torch.Tensor, list[torch.Tensor]], Any]
LENGTH = 14
"""Steps of a sequence."""
BATCH = 100
"""Sequences after which what is left is counted, and programs are forgotten."""


REPLAY = "new_fn INTERNAL ASSERT FAILED"
"""What torch says of a write to a view whose base does not want a gradient any more, where views
are made again for it, as on all devices whose operators are functional."""


class Different(Exception):
    """The device gave something else than the host."""


class Ended(Exception):
    """What follows cannot be compared."""


@dataclass
class Sequence:
    """What lives, as pairs of host and device.

    Attributes:
        draw: chooses steps; every choice depends on the seed alone.
        device: name of the device.
        pairs: tensors that live.
        is_unwanted: whether a tensor has been told not to want a gradient any more, or a view to
            want one.
        is_replaced: whether a view has got other data; the host's gradients then take the strides
            of these for those of the base.
        told: steps so far, as text.
        counts: steps by kind, and errors.
    """

    draw: random.Random
    device: str
    counts: Counter[str]
    pairs: list[Pair] = field(default_factory=list)
    is_unwanted: bool = False
    is_replaced: bool = False
    told: list[str] = field(default_factory=list)

    def run(self) -> None:
        """All steps.

        Raises:
            Different: with the steps that led there.
        """
        self.make()
        for _ in range(LENGTH):
            kind = self.draw.choices(list(KINDS), list(WEIGHTS.values()))[0]
            self.counts[kind] += 1
            KINDS[kind](self)
        for at in range(len(self.pairs)):
            self.compare(at)

    def make(self) -> None:
        """A new leaf of integers from -3 to 3."""
        rank = self.draw.randint(0, 3)
        sizes = [self.draw.randint(1, 3) for _ in range(rank)]
        count = 1
        for size in sizes:
            count *= size
        values = [float(self.draw.randint(-3, 3)) for _ in range(count)]
        wants = self.draw.random() < 0.3
        self.told.append(f"t{len(self.pairs)} = tensor{sizes} {values} requires_grad={wants}")
        host = _watched(np.array(values, np.float32).reshape(sizes))
        device = host.to(self.device).requires_grad_(wants)
        self.pairs.append((host.requires_grad_(wants), device))

    def view(self) -> None:
        """A view of a tensor, or what torch makes where there is none."""
        at = self.chosen()
        name, step = _view(self.draw, self.pairs[at][0])
        self.both(f"t{len(self.pairs)} = {name} of t{at}", at, [], step)

    def compute(self) -> None:
        """A new tensor of one or two others."""
        at, other = self.chosen(), self.chosen()
        name = self.draw.choice(list(COMPUTED))
        text = f"t{len(self.pairs)} = {name} of t{at}, t{other}"
        self.both(text, at, [other], COMPUTED[name])

    def write(self) -> None:
        """A change in place; the result is the tensor itself and is not kept.

        Where elements have one place together, what several writes to it leave depends on their
        order: there, all that write the same to it are tried, and those that the host refuses. What
        is read from other places of the memory that is written to depends on the order as well,
        and the host refuses it where both are without gaps.
        """
        at, other = self.chosen(), self.chosen()
        name = self.draw.choice(list(WRITES))
        host = self.pairs[at][0]
        self.is_unwanted |= name == "detach_"
        self.is_replaced |= name == "data = other" and host._is_view()
        if name not in ALIKE and _is_shared(host) and not (_is_expanded(host) and name in REFUSED):
            return
        if name in MAY_BE_VIEWS and _reads_written(host, self.pairs[other][0]):
            return
        with torch.set_grad_enabled(self.draw.random() < 0.6):
            text = f"{name} on t{at}, t{other}, grad {torch.is_grad_enabled()}"
            self.both(text, at, [other], WRITES[name], keep=False)

    def read(self) -> None:
        """Values of one tensor."""
        self.compare(self.chosen())

    def delete(self) -> None:
        """One tensor goes; its views stay."""
        if len(self.pairs) > 1:
            at = self.chosen()
            self.told.append(f"del t{at}; t{len(self.pairs) - 1} is t{at} now")
            self.pairs[at] = self.pairs[-1]
            self.pairs.pop()

    def want(self) -> None:
        """A leaf wants a gradient, or does not any more."""
        at, wants = self.chosen(), self.draw.random() < 0.6

        def step(tensor: torch.Tensor, _: list[torch.Tensor]) -> torch.Tensor:
            return tensor.requires_grad_(wants)

        self.is_unwanted |= not wants or self.pairs[at][0]._is_view()
        self.both(f"t{at}.requires_grad_({wants})", at, [], step, keep=False)

    def backward(self) -> None:
        """Gradients of all leaves for one tensor; the graph behind it is used up."""
        at = self.chosen()

        def step(tensor: torch.Tensor, _: list[torch.Tensor]) -> None:
            (tensor * tensor).sum().backward()

        self.both(f"(t{at} * t{at}).sum().backward()", at, [], step, keep=False)
        if self.is_replaced:
            raise Ended("replaced")
        for each in range(len(self.pairs)):
            self.compare_gradients(each)

    def forget(self) -> None:
        """The gradient of one tensor goes, or becomes zero."""
        at, how = self.chosen(), self.draw.choice(("none", "zero"))
        self.told.append(f"t{at}.grad: {how}")
        for tensor in self.pairs[at]:
            if _answer(ASKED["is_leaf"], tensor) is True and tensor.grad is not None:
                if how == "none":
                    tensor.grad = None
                else:
                    tensor.grad.zero_()

    def compile(self) -> None:
        """What is recorded runs."""
        self.told.append("step()")
        xladev.torch.step()

    def chosen(self) -> int:
        """A place among what lives."""
        return self.draw.randrange(len(self.pairs))

    def both(self, text: str, at: int, others: list[int], step: Step, *, keep: bool = True) -> None:
        """One step on both sides: what it gives is kept where both succeed."""
        self.told.append(text)
        made: list[Any] = []
        errors: list[Exception | None] = []
        for side in (0, 1):
            try:
                made.append(step(self.pairs[at][side], [self.pairs[o][side] for o in others]))
                errors.append(None)
            except (RuntimeError, IndexError, ValueError) as error:
                errors.append(error)
        if REPLAY in str(errors[1]):
            raise Ended("replay")
        wants = ("view of a leaf", "does not require grad", "only change requires_grad flags")
        if self.is_unwanted and not all(errors) and any(w in str(errors) for w in wants):
            raise Ended("unwanted")
        if not isinstance(errors[1], type(errors[0])):
            raise Different(f"host: {errors[0]!r}\ndevice: {errors[1]!r}")
        if errors[0] is not None:
            self.counts["error"] += 1
            self.told[-1] += f"  # {str(errors[0]).splitlines()[0][:100]}"
        elif keep and len(self.pairs) < 12:
            self.pairs.append((made[0], made[1]))

    def compare(self, at: int) -> None:
        """Values and what torch says of a tensor."""
        host, device = self.pairs[at]
        self.told.append(f"read t{at}")
        for name, ask in ASKED.items():
            wanted, found = _answer(ask, host), _answer(ask, device)
            if found == REPLAY:
                raise Ended("replay")
            if wanted != found and self.is_unwanted:
                raise Ended("unwanted")
            if wanted != found:
                raise Different(f"{name} of t{at}: {wanted} on the host, {found}")
        _equal(f"t{at}", host, device)

    def compare_gradients(self, at: int) -> None:
        """Gradients of a leaf."""
        host, device = self.pairs[at]
        if _answer(ASKED["is_leaf"], host) is True and device.is_leaf:
            if (host.grad is None) != (device.grad is None):
                raise Different(f"gradient of t{at}: {host.grad} on the host, {device.grad}")
            if host.grad is not None and device.grad is not None:
                _equal(f"the gradient of t{at}", host.grad, device.grad)


def _answer(ask: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> Any:
    try:
        return ask(tensor)
    except RuntimeError as error:  # of a view whose gradient cannot be had any more
        return REPLAY if REPLAY in str(error) else "error"


def _equal(name: str, host: torch.Tensor, device: torch.Tensor) -> None:
    wanted, found = host.detach(), device.detach().cpu()
    if not torch.equal(wanted.nan_to_num(77), found.nan_to_num(77)):
        raise Different(f"{name} is {found.tolist()}, on the host {wanted.tolist()}")


def _is_expanded(tensor: torch.Tensor) -> bool:
    """Whether an index moves nothing."""
    return any(n > 1 and not s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def _is_shared(tensor: torch.Tensor) -> bool:
    """Whether two elements have one place."""
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    places = torch.arange(last + 1).as_strided(tensor.shape, tensor.stride())
    return places.unique().numel() < tensor.numel()


def _reads_written(written: torch.Tensor, read: torch.Tensor) -> bool:
    """Whether an element is read where another is written, in tensors that have gaps."""
    if written.untyped_storage().data_ptr() != read.untyped_storage().data_ptr():
        return False
    ours, theirs = (_places(each) for each in (written, read))
    dense = all(each.size == each.max() - each.min() + 1 for each in (ours, theirs))
    try:
        theirs = np.broadcast_to(theirs, ours.shape)
    except ValueError:  # refused, by both sides
        return False
    return not dense and bool(np.isin(theirs[ours != theirs], ours).any())


def _places(tensor: torch.Tensor) -> np.ndarray:
    """Where in memory each element is."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    places = torch.arange(size)
    return places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).numpy()


def _watched(array: np.ndarray) -> torch.Tensor:
    """A tensor over an array, which is in `KEPT` as long as the tensor's memory lives."""
    KEPT.add(key := id(array))
    weakref.finalize(array, KEPT.discard, key)
    return torch.from_numpy(array)


def _set_data(tensor: torch.Tensor, other: torch.Tensor) -> None:
    made = other.detach().clone().expand_as(tensor).clone()
    tensor.data = _watched(made.numpy()) if made.device.type == "cpu" else made


KEPT: set[int] = set()
"""Memory of the host's leaves, and of what was put in their place."""

ASKED: dict[str, Callable[[torch.Tensor], Any]] = {
    "shape": lambda t: tuple(t.shape),
    "dtype": lambda t: t.dtype,
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
}

KINDS: dict[str, Callable[[Sequence], None]] = {
    "make": Sequence.make,
    "view": Sequence.view,
    "compute": Sequence.compute,
    "write": Sequence.write,
    "read": Sequence.read,
    "delete": Sequence.delete,
    "want": Sequence.want,
    "backward": Sequence.backward,
    "forget": Sequence.forget,
    "compile": Sequence.compile,
}
WEIGHTS = {"make": 1, "view": 6, "compute": 3, "write": 6, "read": 1, "delete": 2, "want": 1,
           "backward": 1, "forget": 1, "compile": 0.3}  # fmt: skip


def _view(draw: random.Random, tensor: torch.Tensor) -> tuple[str, Step]:
    """A view that suits the tensor's rank, by the choices of the seed."""
    rank = tensor.dim()
    if not rank:
        return draw.choice([
            ("unsqueeze(0)", lambda t, _: t.unsqueeze(0)),
            ("detach", lambda t, _: t.detach()),
            ("expand(2)", lambda t, _: t.expand(2)),
            ("view(1)", lambda t, _: t.view(1)),
        ])  # fmt: skip
    dim, other = draw.randrange(rank), draw.randrange(rank)
    size = tensor.shape[dim]
    start = draw.randrange(size)
    length = draw.randint(1, size - start)
    order = draw.sample(range(rank), rank)
    views: list[tuple[str, Step]] = [
        (f"select({dim}, {start})", lambda t, _: t.select(dim, start)),
        (f"narrow({dim}, {start}, {length})", lambda t, _: t.narrow(dim, start, length)),
        (f"[{start}::2]", lambda t, _: t[min(start, t.shape[0] - 1) :: 2]),
        (f"transpose({dim}, {other})", lambda t, _: t.transpose(dim, other)),
        (f"permute{order}", lambda t, _: t.permute(order)),
        (f"unsqueeze({dim})", lambda t, _: t.unsqueeze(dim)),
        ("squeeze", lambda t, _: t.squeeze()),
        ("reshape(-1)", lambda t, _: t.reshape(-1)),
        ("view(-1)", lambda t, _: t.view(-1)),
        ("detach", lambda t, _: t.detach()),
        (f"chunk(2, {dim})[-1]", lambda t, _: t.chunk(2, dim)[-1]),
        (f"unbind({dim})[{start}]", lambda t, _: t.unbind(dim)[start]),
        (f"unfold({dim}, {length}, 1)", lambda t, _: t.unfold(dim, length, 1)),
        ("expand in front", lambda t, _: t.expand(2, *t.shape)),
        ("view_as", lambda t, _: t.view_as(t)),
        ("alias by [...]", lambda t, _: t[...]),
    ]
    if rank > 1:
        first, second = draw.sample(range(rank), 2)
        views.append((f"diagonal(0, {first}, {second})", lambda t, _: t.diagonal(0, first, second)))
    return draw.choice(views)


def _small(tensor: torch.Tensor) -> torch.Tensor:
    """Keeps numbers so small that sums and products of them are exact."""
    return tensor.clamp(-8, 8)


COMPUTED: dict[str, Step] = {
    "add": lambda t, o: _small(t + o[0]),
    "sub with alpha": lambda t, o: _small(torch.sub(t, o[0], alpha=2)),
    "mul": lambda t, o: _small(t * o[0]),
    "times -2": lambda t, _: _small(t * -2),
    "relu": lambda t, _: t.relu(),
    "sum": lambda t, _: _small(t.sum()),
    "sum of the last": lambda t, _: _small(t.sum(-1)),
    "clone": lambda t, _: t.clone(),
    "contiguous": lambda t, _: t.contiguous(),
    "where positive": lambda t, o: torch.where(t > 0, t, o[0]),
    "cat": lambda t, o: torch.cat([t, o[0]]),
    "stack": lambda t, _: torch.stack([t, t], -1),
    "index by a list": lambda t, _: t[[0, -1]],
    "transpose_": lambda t, _: t.clone().transpose_(0, -1),
    "unsqueeze_": lambda t, _: t.clone().unsqueeze_(0),
    "squeeze_": lambda t, _: t.clone().squeeze_(),
    "flip": lambda t, _: t.flip(0),
}

WRITES: dict[str, Step] = {
    "add_ 1": lambda t, _: t.add_(1),
    "add_ other": lambda t, o: t.add_(o[0].clone()).clamp_(-8, 8),
    "mul_ -1": lambda t, _: t.mul_(-1),
    "mul_ other": lambda t, o: t.mul_(o[0].clone()).clamp_(-8, 8),
    "copy_": lambda t, o: t.copy_(o[0].clone()),
    "zero_": lambda t, _: t.zero_(),
    "fill_ 2": lambda t, _: t.fill_(2),
    "relu_": lambda t, _: t.relu_(),
    "masked_fill_": lambda t, _: t.masked_fill_(t.detach() > 0, -1),
    "[0] = 3": lambda t, _: t.__setitem__(0, 3),
    "[-1] = other": lambda t, o: t.__setitem__(-1, o[0].clone()),
    "[..., ::2] += 1": lambda t, _: t[..., ::2].add_(1),
    "[mask] = 0": lambda t, _: t.__setitem__(t.detach() < 0, 0),
    "[[0]] = other": lambda t, o: t.__setitem__([0], o[0].clone()),
    "index_fill_": lambda t, _: t.index_fill_(0, torch.tensor([0], device=t.device), 4),
    "index_add_": lambda t, _: t.index_add_(
        0, torch.tensor([0], device=t.device), t.detach()[:1].clone()
    ),
    "data = other": lambda t, o: _set_data(t, o[0]),
    "detach_": lambda t, _: t.detach_(),
    "add_ what may be a view": lambda t, o: t.add_(o[0]).clamp_(-8, 8),
    "copy_ what may be a view": lambda t, o: t.copy_(o[0]),
}

MAY_BE_VIEWS = {"add_ what may be a view", "copy_ what may be a view"}
"""Writes of other tensors as they are."""

ALIKE = {"zero_", "fill_ 2", "relu_", "masked_fill_", "[0] = 3", "[mask] = 0", "index_fill_",
         "data = other", "detach_"}  # fmt: skip
"""Writes by which all elements of one place become the same."""

REFUSED = {"add_ 1", "mul_ -1", "copy_", "add_ other", "mul_ other", "index_add_"}
"""Writes that the host refuses where an index moves nothing."""


def attempt(seed: int, device: str, counts: Counter[str], *, show: bool = False) -> str:
    """Why a sequence differs from the host's, with its steps; empty if it does not."""
    sequence = Sequence(random.Random(seed), device, counts)
    why = ""
    try:
        sequence.run()
    except Ended as error:
        counts[str(error)] += 1
    except Different as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 (the device may raise anything)
        why = f"{type(error).__name__}: {error}"
    steps = "\n  ".join(sequence.told)
    if show:
        print(f"seed {seed}\n  {steps}")
    return f"seed {seed}: {why}\n  {steps}" if why else ""


@dataclass(slots=True)
class Left:
    """What lives although no tensor does.

    Attributes:
        nodes: of the device, after batches of which the host keeps nothing.
        leaves: kept by the host, or else its tensors that want a gradient.
    """

    nodes: int = 0
    leaves: int = 0

    def count(self) -> None:
        """Looks at all new objects, and forgets programs."""
        program._programs.clear()
        gc.collect()
        found = gc.get_objects()
        kept = len(KEPT) or sum(map(_is_of_host, found))
        if not kept:
            self.nodes += sum(type(each) is Node for each in found)
        self.leaves += kept
        KEPT.clear()
        gc.freeze()

    def __str__(self) -> str:
        return (
            f"{self.nodes} nodes left where the host kept nothing, {self.leaves} kept by the host"
        )


def _is_of_host(each: object) -> bool:
    """A tensor of the host that wants a gradient."""
    return type(each) is torch.Tensor and each.device.type == "cpu" and each.requires_grad


def main(arguments: list[str] | None = None) -> int:
    """Runs sequences; 1 if one differs or leaves something."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--platform", default="interpreter")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first sequence")
    parser.add_argument("--seconds", type=float, default=1e9, help="start none after so long")
    parser.add_argument("--show", action="store_true", help="print all steps")
    parser.add_argument("--eager", action="store_true", help="run each operator at once")
    options = parser.parse_args(arguments)
    xladev.torch.register("npu", platform=options.platform)
    xladev.torch.set_eager(options.eager)
    torch.set_num_threads(1)
    gc.freeze()
    start, counts, failed, ran, left = time.monotonic(), Counter[str](), 0, 0, Left()
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() - start > options.seconds:
            break
        why = attempt(seed, "npu", counts, show=options.show)
        ran += 1
        if why:
            failed += 1
            print(why, flush=True)
        if ran % BATCH == 0:
            left.count()
        if ran % (10 * BATCH) == 0:
            print(f"{ran} sequences, {failed} differ; {left}", flush=True)
    left.count()
    print(f"{ran} sequences, {failed} differ; {dict(counts)}; {left}")
    print(str(xladev.torch.report()).splitlines()[0])
    return bool(failed or left.nodes)


if __name__ == "__main__":
    sys.exit(main())
