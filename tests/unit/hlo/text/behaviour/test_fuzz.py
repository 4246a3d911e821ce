"""Damaged text: cut off, with tokens swapped, doubled, dropped or replaced. Only XladevErrors."""

import random
import re

import pytest

from tests.unit.hlo.text.examples import all_examples
from xladev.errors import XladevError
from xladev.hlo.text import parse_module, parse_shape, print_module

EXAMPLES = all_examples()
TOKEN = re.compile(r"[\w.\-%]+|\s+|.", re.DOTALL)
STRANGE = [
    "{", "}", "(", ")", "[", "]", ",", ":", "=", "<=", "->", "?", "*", "#", "@", "'", '"', "\\",
    "/*", "//", "%", "-", "-1", "0", "1", "9999999999", "9223372036854775807",
    "18446744073709551616",
    "99999999999999999999999", "1e400", "nan", "-nan(0x1)", "inf", "0x1", "1_1", "2x2", "...",
    "f32[]", "f32[4611686018427387904]", "s4[2]{0:E(4)}", "b(f32[])", "(", "token[]", "ROOT",
    "ENTRY", "HloModule", "true", "mesh", "devices=[2]<=[2]", "\x00", "\ud800", "\u00e9", "",
]  # fmt: skip
RUNS = 40


def survives(text: str) -> None:
    try:
        module = parse_module(text)
    except XladevError as error:
        assert str(error)
        return
    assert parse_module(print_module(module)) == module


def damaged(text: str, draw: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(draw.randint(1, 3)):
        at, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        what = draw.randrange(5)
        if what == 0:
            tokens[at] = draw.choice(STRANGE)
        elif what == 1:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif what == 2:
            tokens.insert(at, tokens[other])
        elif what == 3:
            tokens[at] = ""
        else:
            tokens.insert(at, draw.choice(STRANGE))
    return "".join(tokens)


@pytest.mark.parametrize("name", EXAMPLES)
def test_damaged_examples(name: str, seed: int) -> None:
    draw = random.Random(f"{seed} {name}")
    for _ in range(RUNS):
        survives(damaged(EXAMPLES[name], draw))


@pytest.mark.parametrize("name", [n for n in EXAMPLES if "." not in n])
def test_every_beginning_of_a_module(name: str) -> None:
    text = EXAMPLES[name]
    for end in range(0, len(text), 7):
        survives(text[:end])


def test_damaged_shapes(seed: int) -> None:
    draw = random.Random(seed)
    whole = "(f32[2,<=3]{1,0:T(8,128)(2,1)E(4)S(1)SC(0:1,2)}, (b(s8[4]{0}), token[]), f32[?,4])"
    for _ in range(2000):
        try:
            shape = parse_shape(damaged(whole, draw))
        except XladevError:
            continue
        assert parse_shape(str(shape)) == shape
