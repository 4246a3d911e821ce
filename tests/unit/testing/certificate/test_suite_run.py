"""The suite in one process and in several: the same certificate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xladev.errors import UsageError
from xladev.testing.certificate import suite_run
from xladev.testing.certificate.issue import CERTIFICATE, issue


def test_several_jobs_without_xdist_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "find_spec", lambda name: None)
    suite_run.check_jobs(1)
    with pytest.raises(UsageError, match="needs pytest-xdist") as caught:
        suite_run.check_jobs(2)
    assert "pip install pytest-xdist" in str(caught.value.hint)


@pytest.mark.long
def test_the_certificate_is_the_same_at_any_number_of_jobs(tmp_path: Path) -> None:
    """But for when it was made, and the report, which has times."""
    made = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        outcome = issue("interpreter", 1, folder, quiet=True, jobs=jobs)
        assert outcome.certificate is not None
        data = json.loads((folder / CERTIFICATE).read_text())
        made.append({k: v for k, v in data.items() if k not in _OF_THE_RUN})
    assert json.dumps(made[0]) == json.dumps(made[1])
    assert made[0]["results"]


_OF_THE_RUN = ("date", "report_sha256", "sha256")
