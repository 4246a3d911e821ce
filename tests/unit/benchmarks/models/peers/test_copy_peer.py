"""A copy of as many bytes as weights have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cpu.child import Job, Refused
from benchmarks.models.model_rows import FACTS, MODEL
from benchmarks.models.peers.copy_peer import Copy


def job(folder: Path, threads: int) -> Job:
    return Job(MODEL, {"folder": str(folder)}, None, threads, [])


@pytest.mark.parametrize("threads", [1, 2])
def test_bytes_of_the_weights_are_copied(threads: int, tmp_path: Path) -> None:
    (tmp_path / FACTS).write_text(json.dumps({"read_nbytes": 1001}))
    prepared = Copy().prepare(job(tmp_path, threads))
    assert prepared.memory == {"copied": 1001}
    targets = [target for target, _ in prepared.call()]
    assert sum(target.size for target in targets) == 1001
    assert all((target == 1).all() for target in targets)


def test_models_that_read_more_than_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no step of decoding"):
        Copy().prepare(job(tmp_path, 1))
