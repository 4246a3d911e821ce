"""Real programs from JAX, TensorFlow and PyTorch: read, printed, read again."""

from pathlib import Path

import pytest

from xladev.hlo.load import load
from xladev.hlo.text import LONG, SHORT, parse_module, print_module

PROGRAMS = Path(__file__).parents[6] / "shared" / "programs"
NAMES = sorted(p.stem for p in PROGRAMS.glob("*.hlo"))

pytestmark = pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")


def text_of(name: str) -> str:
    return (PROGRAMS / f"{name}.hlo").read_text()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [SHORT, LONG], ids=["short", "long"])
def test_text_reads_back_equal(name: str, options: object) -> None:
    module = parse_module(text_of(name))
    assert parse_module(print_module(module, options)) == module  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_both_styles_are_told_from_protos(name: str) -> None:
    assert load(text_of(name).encode()) == parse_module(text_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_proto_printed_as_text_reads_back_equal(name: str) -> None:
    module = load(PROGRAMS / f"{name}.pb")
    assert parse_module(print_module(module)) == module


@pytest.mark.parametrize("name", NAMES)
def test_text_and_proto_say_the_same(name: str) -> None:
    text, proto = parse_module(text_of(name)), load(PROGRAMS / f"{name}.pb")
    shown, hidden = sketch(text), sketch(proto)
    assert shown == hidden


def sketch(module: object) -> list[tuple[str, list[str]]]:
    """Opcodes, shapes and operands per computation, without constants' values."""
    return [
        (c.name, [f"{i.name} = {i.shape} {i.opcode} {i.operands}" for i in c.instructions])
        for c in module.computations  # type: ignore[attr-defined]
    ]
