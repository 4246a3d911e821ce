"""StableHLO's cases on every host platform, each check as strict as its kind says."""

import zipfile
from pathlib import Path

import pytest

from tests.conftest import CASES_ZIP
from tests.tools.cases import Case

PLATFORMS = ("interpreter", "cpu")


def case_names() -> list[str]:
    """The folders in the archive; none where it is not there."""
    if not CASES_ZIP.is_file():
        return []
    with zipfile.ZipFile(CASES_ZIP) as archive:
        return sorted({name.partition("/")[0] for name in archive.namelist()})


@pytest.mark.rotating
@pytest.mark.skipif(not CASES_ZIP.is_file(), reason="../shared/stablehlo/cases.zip is not here")
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", case_names())
@pytest.mark.counts("StableHLO cases on {platform}")
def test_case(stablehlo_cases: Path, name: str, platform: str) -> None:
    assert Case(stablehlo_cases / name).problem(platform) == ""


@pytest.mark.rotating
@pytest.mark.skipif(not CASES_ZIP.is_file(), reason="../shared/stablehlo/cases.zip is not here")
@pytest.mark.parametrize("name", case_names())
@pytest.mark.counts("StableHLO cases read as text")
def test_text_says_the_same(stablehlo_cases: Path, name: str) -> None:
    case = Case(stablehlo_cases / name)
    assert case.problem("interpreter", "hlo") == ""
