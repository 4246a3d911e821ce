"""What the doctor says of optional packages."""

import pytest

from xladev.cli.doctor import _remark


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.13.0+cpu", 'backend="xladev") works'),
        ("2.99.0", "takes 2.13 alone"),
        ("not installed", ""),
    ],
)
def test_torch_is_remarked_on(version: str, said: str) -> None:
    remark = _remark("torch", version)
    assert said in remark
    assert bool(said) == bool(remark)


def test_other_packages_need_no_remark() -> None:
    assert _remark("numpy", "2.0") == ""
