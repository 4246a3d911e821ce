"""Damages files without knowing what they hold: bits of protos, tokens of text."""

import random
import re

from tests.fuzz.strange import INTEGERS, WORDS

_TOKEN = re.compile(r"[\w.\-%]+|\s+|.", re.DOTALL)
_TOKENS = (
    "{", "}", "(", ")", "[", "]", ",", ":", "=", "->", "?", "*", '"', "/*", "%", "ROOT", "ENTRY",
    "nan", "inf", "f32[]", "s4[2]", "f8e4m3fn[3]", "c64[2,2]", "token[]", "pred[]", "<=4", "\x00",
    *map(str, INTEGERS), *WORDS,
)  # fmt: skip


def damaged_bytes(data: bytes, draw: random.Random) -> bytes:
    """Bytes with bits flipped, parts cut, doubled or replaced; or their beginning."""
    made = bytearray(data)
    if draw.random() < 0.1:
        return bytes(made[: draw.randrange(len(made))])
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        at = draw.randrange(len(made))
        what = draw.randrange(5)
        if what < 2:
            made[at] ^= 1 << draw.randrange(8)
        elif what == 2:
            made[at] = draw.choice((0, 1, 127, 128, 255))
        elif what == 3:
            made[at:at] = made[at : at + draw.randrange(1, 40)]
        elif len(made) > 10:
            del made[at : at + draw.randrange(1, 9)]
    return bytes(made)


def damaged_text(text: str, draw: random.Random) -> str:
    """Text with tokens replaced, swapped, doubled or dropped; numbers change most often."""
    tokens = _TOKEN.findall(text)
    numbers = [i for i, token in enumerate(tokens) if token.isdigit()]
    for _ in range(draw.choice((1, 1, 2, 3))):
        at, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        what = draw.random()
        if numbers and what < 0.5:
            tokens[draw.choice(numbers)] = str(draw.choice(INTEGERS))
        elif what < 0.7:
            tokens[at] = draw.choice(_TOKENS)
        elif what < 0.8:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif what < 0.9:
            tokens[at] += tokens[other]
        else:
            tokens[at] = ""
    return "".join(tokens)
