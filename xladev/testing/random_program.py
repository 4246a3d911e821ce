"""Random programs over the whole opset, from a seed.

Each step draws an opcode, and the opcode's recipe draws operands and attributes that make a legal
instruction. What surrounds the instructions is drawn too: layouts of the interface, results that
share buffers with parameters, replicas.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, ModuleHeader, ProgramShape
from xladev.hlo.names import with_unique_names
from xladev.hlo.shape import Shape, tuple_of
from xladev.testing.draw import Draw, Recipe

MOST_STEPS = 40


def random_program(
    seed: int,
    recipes: Mapping[str, Recipe],
    *,
    steps: int | None = None,
    opcodes: Sequence[str] | None = None,
    wild: bool = False,
) -> HloModule:
    """A random program.

    Args:
        seed: fixes every choice.
        recipes: by opcode.
        steps: number of opcodes drawn; by default 1 to 8, seldom up to 40.
        opcodes: drawn from these alone.
        wild: constants hold NaN, extremes and random bits too.
    """
    source = random.Random(seed)
    draw = Draw(source, HloBuilder(f"random.{seed}"), recipes, wild=wild)
    draw.replicas = source.choice((1, 2, 4))
    draw.most_elements = 5000 if source.random() < 0.03 else 400
    made = draw.steps(steps or _step_count(source), sorted(opcodes or recipes))
    results = list(dict.fromkeys(made))
    entry = draw.builder.build(_root(draw, results))
    return with_unique_names(HloModule(entry.name, entry, _header(draw, entry)))


def _step_count(source: random.Random) -> int:
    if source.random() < 0.05:
        return source.randint(9, MOST_STEPS)
    return min(source.randint(1, 8), source.randint(1, 8))


def _root(draw: Draw, results: list[HloInstruction]) -> HloInstruction:
    """The only result, or a tuple of all; sometimes one twice, or a parameter among them."""
    if draw.values and draw.chance(0.1):
        results = [*results, draw.pick(draw.values)]
    if len(results) == 1 and draw.chance(0.9):
        return results[0]
    return draw.builder.op("tuple", *results)


def _header(draw: Draw, entry: HloComputation) -> ModuleHeader:
    parameters = tuple(p.shape for p in entry.parameters)
    result = entry.root.shape
    layout = None
    if draw.chance(2 * draw.layouts):
        layout = ProgramShape(parameters, _with_layouts(draw, result))
    return ModuleHeader(
        replica_count=draw.replicas if any(map(_joins_devices, entry.instructions)) else 1,
        aliases=_aliases(draw, parameters, result) if draw.chance(0.2) else (),
        entry_layout=layout,
    )


def _joins_devices(instruction: HloInstruction) -> bool:
    return instruction.op.category in ("collective", "async") and instruction.opcode != "shuffle"


def _with_layouts(draw: Draw, shape: Shape) -> Shape:
    if shape.is_tuple:
        return tuple_of(*(_with_layouts(draw, part) for part in shape.tuple_shapes))
    return shape.with_layout(draw.layout(shape.rank)).with_default_layout()


def _aliases(draw: Draw, parameters: Sequence[Shape], result: Shape) -> tuple[ModuleAlias, ...]:
    """Results that take the buffer of a parameter of the same shape."""
    free = [n for n, shape in enumerate(parameters) if shape.is_array]
    made: list[ModuleAlias] = []
    for index, leaf in result.leaves():
        fitting = [n for n in free if parameters[n].equal_ignoring_layout(leaf)]
        if fitting and draw.chance(0.7):
            number = draw.pick(fitting)
            free.remove(number)
            made.append(ModuleAlias(index, number, ()))
    return tuple(made)
