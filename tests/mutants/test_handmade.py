"""The conformance suite catches the wrong backends written by hand, and its report names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.async_npu.driver.library import c_compiler
from tests.mutants.campaign import mutant_worker
from tests.mutants.handmade import MUTANTS, OWN, names_it, run
from tests.mutants.wrong import WrongBackend
from xladev.testing.worker import Worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with mutant_worker() as made:
        yield made


@pytest.mark.long
@pytest.mark.rotating
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_it_is_caught_and_named(mutant: WrongBackend, worker: Worker) -> None:
    if mutant.backend == "async_npu" and c_compiler() is None:
        pytest.skip("there is no C compiler for the driver of async_npu")
    verdict = run(worker, mutant)
    assert verdict.status == "caught", f"{verdict.met} cases passed"
    assert names_it(mutant, verdict), f"{verdict.case} says nothing of {mutant.opcodes}"


def test_there_are_forty() -> None:
    assert len({m.name for m in OWN}) == len(OWN) >= 40
