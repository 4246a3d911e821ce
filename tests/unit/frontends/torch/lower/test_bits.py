"""`view(dtype)` with elements of another width, beside eager torch."""

import pytest

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("fresh")

TYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


@pytest.mark.parametrize("given", TYPES)
def test_view_of_each_type_as_each(given: "torch.dtype") -> None:
    x = torch.arange(64).reshape(2, 32).to(given)
    wanted = [to for to in TYPES if not (torch.bool in (given, to) and given != to)]

    def function(x: "torch.Tensor") -> "list[torch.Tensor]":
        return [x.view(to).view(torch.uint8) for to in wanted]

    made = torch.compile(function, backend="xladev", options={"platform": "cpu", "strict": True})
    for found, expected in zip(made(x), function(x), strict=True):
        assert torch.equal(found, expected)


def test_truth_values_are_bytes() -> None:
    flags = torch.tensor([True, False, True, True])
    counts = torch.tensor([0x00010001, 0x01000000], dtype=torch.int32)

    def function(flags: "torch.Tensor", counts: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
        return flags.view(torch.int32), counts.view(torch.bool)

    made = torch.compile(function, backend="xladev", options={"platform": "cpu", "strict": True})
    for found, expected in zip(made(flags, counts), function(flags, counts), strict=True):
        assert torch.equal(found, expected)


def test_numbers_without_dimensions() -> None:
    x = torch.tensor(1.5)

    def function(x: "torch.Tensor") -> "torch.Tensor":
        return x.view(torch.int32)

    made = torch.compile(function, backend="xladev", options={"platform": "cpu", "strict": True})
    assert torch.equal(made(x), function(x))
