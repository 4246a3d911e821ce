"""Trains a small convolutional network on handwritten digits with PyTorch, compiled by xladev.

python train.py                            the platform of highest priority
python train.py --platform template_npu    a simulated accelerator
python train.py --device                   tensors on the device ``npu``, no compilation asked for
python train.py --eager                    PyTorch's own kernels, to compare with
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import xladev.torch

DIGITS = Path(__file__).parents[1] / "mnist_softmax" / "digits.npz"
TEST_IMAGES = 500
BATCH = 100


def read_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pixels from 0 to 1 and labels: those to train with, then those to test with."""
    with np.load(DIGITS) as file:
        x = file["images"].reshape(-1, 1, 8, 8).astype(np.float32) / 16
        y = file["labels"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(x))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return tuple(map(torch.from_numpy, (x[train], y[train], x[test], y[test])))


def make_network() -> nn.Module:
    """Two convolutions and two layers, with batch normalisation and dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.GELU(), nn.Flatten(),
        nn.Linear(512, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 10),
    )  # fmt: skip


def main() -> None:
    """Trains, and prints the share of test digits that are recognised after each pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--platform", help="platform or device of xladev")
    parser.add_argument("--device", action="store_true", help="tensors on a device of xladev")
    parser.add_argument("--eager", action="store_true", help="without xladev")
    options = parser.parse_args()
    device = torch.device("cpu")
    if options.device:
        device = xladev.torch.register("npu", platform=options.platform)
    torch.manual_seed(0)  # of the device, too
    x, y, test_x, test_y = (each.to(device) for each in read_digits())
    network = make_network().to(device)
    run = network
    if not options.eager and not options.device:
        given = {"platform": options.platform} if options.platform else {}
        run = torch.compile(network, backend="xladev", options=given)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for number in range(options.passes):
        network.train()
        order = torch.randperm(len(x))
        for part in order[: len(x) // BATCH * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(x[part]), y[part])
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            share = (run(test_x).argmax(1) == test_y).float().mean()
        print(f"pass {number}: loss {loss.item():.4f}, {100 * share.item():.1f} % of test digits")


if __name__ == "__main__":
    main()
