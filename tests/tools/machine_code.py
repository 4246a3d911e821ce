"""Machine code of NVIDIA's GPUs, as nvdisasm prints it: its blocks, its loops, its cheapest path.

What a thread executes is a path through the code. Branches for rare operands (large angles, the
ends of rows) are off the path that counts: of all paths that move the most bytes, the shortest.
Loops are passed once on it; what they do at each iteration is told apart.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

_LINE = re.compile(r"^(\.L_[\w]+):|^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_BRANCH = re.compile(r"\bBRA\b.*`\((\.L_\w+)\)")
_LEAVES = re.compile(r"\b(?:EXIT|RET\.\S+|RET)\b")
_PREDICATE = re.compile(r"^@!?U?P\w+ ")
_ACCESS = re.compile(r"^(?:@!?U?P\w+ )?(LDG|STG)\.(\S+)")
_WIDTHS = (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1))


@dataclass(frozen=True, slots=True)
class Access:
    """One access to memory that blocks share.

    Attributes:
        is_store: whether it writes.
        nbytes: of one thread.
    """

    is_store: bool
    nbytes: int


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions without a branch between them.

    Attributes:
        instructions: in order.
        successors: numbers of the blocks that may follow; none after the last.
    """

    instructions: tuple[str, ...]
    successors: tuple[int, ...]

    @property
    def accesses(self) -> tuple[Access, ...]:
        """In order."""
        return tuple(accesses_of(self.instructions))

    @property
    def moved_nbytes(self) -> tuple[int, int]:
        """What one thread stores and loads."""
        stored = sum(a.nbytes for a in self.accesses if a.is_store)
        return stored, sum(a.nbytes for a in self.accesses) - stored


def accesses_of(instructions: Sequence[str]) -> Iterator[Access]:
    """The accesses to global memory among some instructions."""
    for line in instructions:
        found = _ACCESS.match(line)
        if found:
            words = found.group(2).split(".")
            nbytes = next((n for word, n in _WIDTHS if word in words), 4)
            yield Access(found.group(1) == "STG", nbytes)


@dataclass(frozen=True)
class MachineCode:
    """The blocks of one kernel; the first is its entry."""

    blocks: tuple[Block, ...]

    @cached_property
    def _back_edges(self) -> frozenset[tuple[int, int]]:
        """Branches to a block that is being executed: each closes a loop."""
        found: set[tuple[int, int]] = set()
        done: set[int] = set()
        path, iterators = [0], [iter(self.blocks[0].successors)]
        while path:
            following = next(iterators[-1], None)
            if following is None:
                done.add(path.pop())
                iterators.pop()
            elif following in path:
                found.add((path[-1], following))
            elif following not in done:
                path.append(following)
                iterators.append(iter(self.blocks[following].successors))
        return frozenset(found)

    @cached_property
    def inner_loops(self) -> tuple[tuple[Block, ...], ...]:
        """Loops that have no loop within them."""
        loops: dict[int, set[int]] = {}
        for latch, head in self._back_edges:
            loops.setdefault(head, {head}).update(self._body(latch, head))
        heads = sorted(loops)
        inner = [h for h in heads if not any(o != h and o in loops[h] for o in heads)]
        return tuple(tuple(self.blocks[n] for n in sorted(loops[h])) for h in inner)

    def _body(self, latch: int, head: int) -> set[int]:
        found, pending = {head, latch}, [latch] if latch != head else []
        before: dict[int, list[int]] = {}
        for n, block in enumerate(self.blocks):
            for s in block.successors:
                before.setdefault(s, []).append(n)
        while pending:
            for n in before.get(pending.pop(), ()):
                if n not in found:
                    found.add(n)
                    pending.append(n)
        return found

    @cached_property
    def cheapest_path(self) -> tuple[Block, ...]:
        """Of the paths that store, then load the most bytes, that of the fewest instructions."""
        order = self._in_order()
        best: dict[int, tuple[int, int, int]] = {}
        then: dict[int, int | None] = {}
        for n in reversed(order):
            block = self.blocks[n]
            ways = [(*best[s], s) for s in block.successors if (n, s) not in self._back_edges]
            *rest, following = min(ways) if ways else (0, 0, 0, None)
            own = (*(-nbytes for nbytes in block.moved_nbytes), len(block.instructions))
            best[n] = (rest[0] + own[0], rest[1] + own[1], rest[2] + own[2])
            then[n] = following
        path: list[Block] = []
        at: int | None = 0
        while at is not None:
            path.append(self.blocks[at])
            at = then[at]
        return tuple(path)

    def _in_order(self) -> list[int]:
        """All blocks that can be reached, each before those that follow it."""
        order: list[int] = []
        seen = {0}
        stack = [(0, iter(self.blocks[0].successors))]
        while stack:
            n, successors = stack[-1]
            new = (s for s in successors if (n, s) not in self._back_edges and s not in seen)
            following = next(new, None)
            if following is None:
                order.append(n)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self.blocks[following].successors)))
        return order[::-1]


def parse_machine_code(text: str) -> MachineCode:
    """The code of the first kernel that nvdisasm printed with ``-c``."""
    runs: list[list[str]] = [[]]
    labels: dict[str, int] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        label, instruction = found.groups()
        if label:
            if runs[-1]:
                runs.append([])
            labels[label] = len(runs) - 1
        elif instruction != "NOP":
            runs[-1].append(instruction)
            if _BRANCH.search(instruction) or _LEAVES.search(instruction):
                runs.append([])
    return MachineCode(tuple(_block(n, runs, labels) for n in range(len(runs))))


def _block(number: int, runs: Sequence[list[str]], labels: dict[str, int]) -> Block:
    instructions = runs[number]
    last = instructions[-1] if instructions else ""
    branch, following = _BRANCH.search(last), []
    ends = branch or _LEAVES.search(last)
    if branch:
        following.append(labels[branch.group(1)])
    if (not ends or _PREDICATE.match(last)) and number + 1 < len(runs):
        following.append(number + 1)
    return Block(tuple(instructions), tuple(dict.fromkeys(following)))
