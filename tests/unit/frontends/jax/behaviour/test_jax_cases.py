"""JAX's own cases of its primitives give on xladev what they give on JAX's CPU."""

import pytest

from tests.tools import parts
from tests.tools.jax_child import require_modules, run_jax

pytestmark = pytest.mark.long

SHARDS = 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cases_of_jax_agree_with_its_cpu(shard: int, request: pytest.FixtureRequest) -> None:
    part = parts.chosen(request.config.option.part)
    part = part if part.isdigit() else "all"  # as `make full` asks for each test once
    require_modules("absl")
    code = f"import sys; sys.argv[1:] = ['--part={part}', '--shard={shard}/{SHARDS}']\nfrom tests.tools import jax_cases; jax_cases.main()"  # noqa: E501
    shown = run_jax(code, timeout_s=1200)
    passed, _, total, *_ = shown.splitlines()[-1].split()
    assert passed == total != "0", shown
