"""Every opcode and attribute: printed, read back, and said the same way by two jaxlibs."""

import re
from typing import Any

import pytest

from tests.tools import oracle
from tests.unit.hlo.text import jaxlib_record
from tests.unit.hlo.text.examples import all_examples
from xladev.hlo.ir import HloModule
from xladev.hlo.opset import OPSET
from xladev.hlo.text import LONG, PrintOptions, parse_module, print_module

EXAMPLES = all_examples()
RECORD = jaxlib_record.load()

NO_EXAMPLE = {
    ("collective-broadcast", "constrain_layout"),
    ("ragged-all-to-all", "constrain_layout"),
}
"""Attributes of the opset that no version of XLA reads or prints."""

SAID_OTHERWISE = {
    "async_chain_said_again": "what the start says is not said again",
    "custom-call.3": "to_apply becomes called_computations",
    "scan.1": "an unknown associativity becomes false",
    "recovery": "the modules inside the table are printed anew",
}
"""Examples that XLA prints with another meaning than it was given, and how."""

NOT_IN_ANY = {"call.2", "ragged-dot.3"}
"""Examples of attributes that only protos have."""

NOT_IN_0_10 = re.compile(
    r"collective-broadcast.2|collective-reduce.*|convolution.[567]|dot.[34]|exp2.*|log2.*"
    r"|jaxlib_0_12|async_update_in_place|shuffle.1|topk.*"
)
"""Examples of what jaxlib 0.10 does not know yet."""

each_example = pytest.mark.parametrize("name", EXAMPLES)


def attributes_of(module: HloModule) -> set[tuple[str, str]]:
    return {(i.opcode, a) for c in module.computations for i in c.instructions for a in i.attrs}


def test_every_attribute_is_in_some_example() -> None:
    used = set[tuple[str, str]]().union(
        *(attributes_of(parse_module(text)) for text in EXAMPLES.values())
    )
    wanted = {(op.name, attr.name) for op in OPSET.values() for attr in op.attrs}
    assert wanted - used - NO_EXAMPLE == set()


def test_every_opcode_is_in_some_example() -> None:
    used = {
        i.opcode
        for text in EXAMPLES.values()
        for c in parse_module(text).computations
        for i in c.instructions
    }
    assert set(OPSET) - used == set()


@each_example
@pytest.mark.parametrize(
    "options",
    [PrintOptions(), LONG, PrintOptions(percent=True), PrintOptions(signatures=True)],
    ids=["short", "long", "percent", "signatures"],
)
def test_printed_text_reads_back_equal(name: str, options: PrintOptions) -> None:
    module = parse_module(EXAMPLES[name])
    assert parse_module(print_module(module, options)) == module


@each_example
def test_printing_is_stable(name: str) -> None:
    printed = print_module(parse_module(EXAMPLES[name]))
    assert print_module(parse_module(printed)) == printed


@each_example
def test_the_record_is_of_what_is_printed_today(name: str) -> None:
    assert RECORD[name]["printed"] == print_module(parse_module(EXAMPLES[name])), (
        "record jaxlib's answers again: see jaxlib_record.py"
    )


def meaning(module: HloModule) -> dict[str, Any]:
    """A module's parts, whatever the order of instructions and computations."""
    texts = print_module(module).split("\n\n")
    bodies = [t.splitlines() for t in texts if t.rstrip().endswith(("}", '"'))]
    return {
        "header": texts[0],
        "computations": {b[0]: sorted(line.strip() for line in b[1:]) for b in bodies},
        "stack frames": module.header.stack_frames,
    }


@each_example
@pytest.mark.parametrize("version", jaxlib_record.VERSIONS)
def test_xla_prints_the_same_meaning(name: str, version: str) -> None:
    answer = jaxlib_record.answer(RECORD[name], version)
    if isinstance(answer, dict):
        known = name in NOT_IN_ANY or (version == "0.10.2" and NOT_IN_0_10.fullmatch(name))
        assert known, f"jaxlib {version} refuses what is printed: {answer['refused']}"
        return
    theirs, ours = meaning(parse_module(answer)), meaning(parse_module(EXAMPLES[name]))
    assert (theirs == ours) == (name not in SAID_OTHERWISE), SAID_OTHERWISE.get(name)


def test_an_xla_here_and_now_says_what_the_record_says() -> None:
    names = list(RECORD)
    answers = oracle.reprinted([RECORD[name]["printed"] for name in names])
    told = {
        name: None if isinstance(a, oracle.Refusal) else a.strip()
        for name, a in zip(names, answers, strict=True)
    }
    recorded = [
        {n: a if isinstance(a := jaxlib_record.answer(RECORD[n], v), str) else None for n in names}
        for v in jaxlib_record.VERSIONS
    ]
    assert told in recorded
