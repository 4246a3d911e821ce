"""Trains a small transformer on a text, then lets it write; PyTorch, compiled by xladev.

python train.py                            the platform of highest priority
python train.py --platform template_npu    a simulated accelerator
python train.py --eager                    PyTorch's own kernels, to compare with
"""

import argparse

import torch
from torch import Tensor, nn

TEXT = "the cat sat on the mat; the dog sat on the log; the cow lay in the hay. " * 20
LETTERS = sorted(set(TEXT))
WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 64, 4, 2, 32, 16


class Block(nn.Module):
    """Attention to what came before, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, letters, width], and the same again."""
        batch, length, _ = x.shape
        split = self.qkv(self.first(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))


class Writer(nn.Module):
    """Scores of the letter that follows each letter."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS)))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, letters, how many letters there are]."""
        places = torch.arange(x.shape[1])
        return self.head(self.blocks(self.letters(x) + self.places(places)))


def write(run: nn.Module, start: str, count: int) -> str:
    """A text continued letter by letter, each the likeliest."""
    text = start
    for _ in range(count):
        last = text[-CONTEXT:].rjust(CONTEXT)
        x = torch.tensor([[LETTERS.index(c) for c in last]])
        with torch.no_grad():
            text += LETTERS[int(run(x)[0, -1].argmax())]
    return text


def main() -> None:
    """Trains, prints the loss, and the text that the network writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--platform", help="platform or device of xladev")
    parser.add_argument("--eager", action="store_true", help="without xladev")
    options = parser.parse_args()
    torch.manual_seed(0)
    data = torch.tensor([LETTERS.index(c) for c in TEXT])
    network = Writer()
    run = network
    if not options.eager:
        given = {"platform": options.platform} if options.platform else {}
        run = torch.compile(network, backend="xladev", options=given)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for step in range(options.steps):
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,)).tolist()
        rows = torch.stack([data[at : at + CONTEXT + 1] for at in starts])
        optimizer.zero_grad()
        scores = run(rows[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    print(write(run, TEXT[:CONTEXT], 60))
    print(f"last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
