"""The lists that are committed hold what the suite's cases give."""

import pytest

from tests.tools.must_pass import LISTS
from xladev.errors import FormatError
from xladev.testing.conformance.location import suite_folder
from xladev.testing.conformance.single_op import read_single_op, share_of
from xladev.testing.conformance.status import CaseResult, CaseStatus


@pytest.mark.parametrize("name", LISTS)
def test_the_lists_are_up_to_date(name: str) -> None:
    now = (suite_folder() / name).read_text("utf-8").splitlines()
    wanted = LISTS[name]().splitlines()
    missing, extra = sorted(set(wanted) - set(now)), sorted(set(now) - set(wanted))
    assert (missing, extra) == ([], []), "run: python -m tests.tools.must_pass"
    assert now == wanted


def test_the_share_counts_what_was_run_of_the_list() -> None:
    listed = read_single_op(suite_folder())
    ids = sorted(listed.cases)[:4]
    statuses = (CaseStatus.PASS, CaseStatus.FALLBACK, CaseStatus.FAIL, CaseStatus.PASS)
    results = [CaseResult(i, s) for i, s in zip(ids, statuses, strict=True)]
    share = share_of([*results, CaseResult("other::case", CaseStatus.PASS)], listed)
    assert (share.run, share.on_device, share.share) == (4, 2, 0.5)
    assert share.to_json()["sha256"] == listed.sha256


@pytest.mark.parametrize("text", ["", "single-op x\n", "single-op 1\nno id\n"])
def test_a_damaged_list_is_refused(tmp_path, text: str) -> None:
    (tmp_path / "single_op.txt").write_text(text)
    with pytest.raises(FormatError):
        read_single_op(tmp_path)
