"""What is damaged: exported programs, StableHLO's cases, XLA's protos, random programs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.unit.hlo.proto.corpus import frozen
from tests.unit.hlo.text.examples import all_examples
from xladev.hlo.proto import write_module
from xladev.testing.random_program import random_program
from xladev.testing.recipes.table import RECIPES

LARGEST_NBYTES = 60_000


@dataclass(frozen=True)
class Seeds:
    """Files to start from, by kind."""

    protos: Sequence[Callable[[], bytes]]
    texts: Sequence[Callable[[], str]]

    def proto(self, draw: random.Random) -> bytes:
        """A serialized module; in one of three cases a random program."""
        if not self.protos or draw.random() < 1 / 3:
            return write_module(random_program(draw.randrange(2**32), RECIPES))
        return draw.choice(self.protos)()

    def text(self, draw: random.Random) -> str:
        """HLO text."""
        return draw.choice(self.texts)()


def find_seeds(programs: Path | None = None, cases: Path | None = None) -> Seeds:
    """The seeds of the project, and those of two folders where they are there."""
    protos: list[Callable[[], bytes]] = [data.__bytes__ for data in frozen().values()]
    texts: list[Callable[[], str]] = [text.__str__ for text in all_examples().values()]
    for folder, pattern in ((programs, "*"), (cases, "*/module")):
        if folder is None:
            continue
        protos += [
            path.read_bytes for path in sorted(folder.glob(f"{pattern}.pb")) if _is_small(path)
        ]
        texts += [
            path.read_text for path in sorted(folder.glob(f"{pattern}.hlo")) if _is_small(path)
        ]
    return Seeds(protos, texts)


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= LARGEST_NBYTES
