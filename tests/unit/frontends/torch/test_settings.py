"""What torch.compile's mode and options mean."""

import pytest

pytest.importorskip("torch")

from xladev.errors import OptionError
from xladev.frontends.torch.settings import settings_of


def test_options_are_xladevs_and_its_own() -> None:
    found = settings_of(None, {"platform": "npu:0", "fusion": False, "threads": 1})
    assert found.platform == "npu:0"
    assert found.options is not None
    assert (found.options.fusion, found.options.threads) == (False, 1)


def test_modes_change_the_level() -> None:
    found = settings_of("max-autotune", None).options
    assert found is not None
    assert found.optimization_level == 3


@pytest.mark.parametrize(
    ("mode", "options"), [("fastest", None), (None, {"plaform": "cpu"}), (None, {"platform": 3})]
)
def test_what_is_unknown_is_refused(mode: str | None, options: dict[str, object] | None) -> None:
    with pytest.raises(OptionError):
        settings_of(mode, options)
