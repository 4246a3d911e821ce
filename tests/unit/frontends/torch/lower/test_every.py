"""The table as a whole: complete, and each entry has samples that try it."""

import pytest

from xladev.frontends.torch.lower.every import FAMILIES, LOWERINGS


def test_no_overload_is_in_two_families() -> None:
    assert len(LOWERINGS) == sum(len(family.lowerings) for family in FAMILIES)


def test_every_entry_says_what_it_is() -> None:
    assert [name for name, each in LOWERINGS.items() if not each.summary.endswith(".")] == []


@pytest.mark.long  # torch's operator database takes seconds to import
def test_samples_are_entries_of_the_database_and_overloads_exist() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    pytest.importorskip("torch._inductor.inductor_prims")  # declares prims.fma
    pytest.importorskip("xladev.frontends.torch.recurrent_steps")  # declares the front end's own
    from torch.testing._internal.common_methods_invocations import op_db

    names = {f"{op.name}.{op.variant_test_name}".rstrip(".") for op in op_db}
    torchs = [
        each
        for name, each in LOWERINGS.items()
        if not name.startswith("xladev.") and "grouped_mm" not in name
    ]
    assert {each.sample for each in torchs} - names == set()
    pytest.importorskip("transformers.integrations.moe")  # declares its own
    for overload in LOWERINGS:
        library, packet, name = overload.split(".")
        assert hasattr(getattr(getattr(torch.ops, library), packet), name), overload
