"""Every example through a serialized proto and back: text and proto carry the same."""

import pytest

from tests.unit.hlo.text.examples import all_examples
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import parse_module, print_module

EXAMPLES = all_examples()

BESIDE_THE_PROTO = {
    "custom-call.3": "to_apply becomes called_computations",
    "everything_in_the_header": "replicas, partitions and propagation are beside the proto",
    "recovery": "the table of original values is not read",
    "shardings": "the number of partitions is beside the proto",
}
"""Examples that a proto does not carry whole, and why."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_protos_carry_what_text_says(name: str) -> None:
    module = parse_module(EXAMPLES[name])
    again = read_module(write_module(module))
    assert (again == module) == (name not in BESIDE_THE_PROTO), BESIDE_THE_PROTO.get(name)


def test_protos_of_32_bit_numbers_read_as_their_shortest_decimal() -> None:
    module = parse_module(EXAMPLES["batch-norm-grad.1"])
    assert read_module(write_module(module)).entry.root["epsilon"] == 1e-5


def test_an_order_that_need_not_be_stable_is_told() -> None:
    """Text means a stable order where it says nothing, a proto one that is not."""
    module = parse_module(EXAMPLES["topk.1"].replace("k=2", "k=2, is_stable=false"))
    assert not module.entry.root["is_stable"]
    assert parse_module(print_module(module)) == module == read_module(write_module(module))
