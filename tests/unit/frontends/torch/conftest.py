"""What tests of `torch.compile` share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is compiled before the test, no program is kept behind it, and seeds are its own."""
    torch = pytest.importorskip("torch")
    from xladev.frontends.torch import records

    records.forget()
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    records.forget()
