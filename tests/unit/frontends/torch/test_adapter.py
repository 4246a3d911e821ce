"""Versions of torch that the adapter was written for."""

import pytest

pytest.importorskip("torch")

from xladev.errors import UnsupportedError
from xladev.frontends.torch import adapter


def test_another_version_is_one_clear_message() -> None:
    with pytest.raises(UnsupportedError) as caught:
        adapter.check_version("2.99.0")
    assert "torch 2.99.0 is installed" in str(caught.value)
    assert "pip install 'torch==2.13.0'" in str(caught.value)


def test_the_version_tested_is_taken() -> None:
    adapter.check_version("2.13.0+cpu")


def test_nothing_that_is_lowered_is_decomposed_first() -> None:
    names = {str(op) for op in adapter.decompositions({"aten.gelu.default": None})}
    assert "aten.gelu.default" not in names
    assert "aten.addcmul.default" in names
