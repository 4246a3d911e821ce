"""The must-pass list that is committed names every case of the suite, each at its tier."""

from tests.tools.must_pass import current_text
from xladev.testing.certificate.must_pass import FILE
from xladev.testing.conformance.location import suite_folder


def test_the_list_is_up_to_date() -> None:
    now = (suite_folder() / FILE).read_text("utf-8").splitlines()
    wanted = current_text().splitlines()
    missing, extra = sorted(set(wanted) - set(now)), sorted(set(now) - set(wanted))
    assert (missing, extra) == ([], []), "run: python -m tests.tools.must_pass"
    assert now == wanted
