"""Names of new backends: what is derived from them, what is refused."""

import pytest

from xladev.cli.scaffold.names import checked_names
from xladev.errors import UsageError


def test_derived_names() -> None:
    names = checked_names("my_npu2", "npu", "Some Vendor ", taken=())
    assert (names.package, names.dashed, names.prefix) == ("xladev_my_npu2", "my-npu2", "MyNpu2")
    assert names.vendor == "Some Vendor"


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("my-npu", "my_npu"), ("MyNpu", "mynpu"), ("2npu", "npu"), ("npu_", "npu"), ("a__b", "a_b"),
        ("", "my_npu"), ("ü", "my_npu"), ("../up", "up"), ("a b", "a_b"), ("x" * 41, "x" * 40),
    ],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_with_a_better_one(name: str, better: str) -> None:
    with pytest.raises(UsageError, match="is no platform name") as caught:
        checked_names(name, "npu", "v", taken=())
    assert (caught.value.hint or "").split()[-1] == better


@pytest.mark.parametrize("name", ["cpu", "cuda", "xladev"])
def test_taken_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is taken"):
        checked_names(name, "npu", "v", taken={"cpu"})


def test_the_kind_is_a_word() -> None:
    with pytest.raises(UsageError, match="'N P U' is no kind"):
        checked_names("a", "N P U", "v", taken=())


@pytest.mark.parametrize("vendor", ['A "B"', "a\nb", "a\\b", " ", "<a>"])
def test_a_vendor_that_would_break_a_file_is_refused(vendor: str) -> None:
    with pytest.raises(UsageError, match="cannot be the vendor"):
        checked_names("a", "npu", vendor, taken=())
