"""What every test may use: the seed, exported programs, StableHLO's cases, parts of the suite.

The conformance suite passes here too, in environments of vendors that have pytest and no more.
"""

import importlib.util
import os
import random
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.tools import calls_extension, counts, parts, scope

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
PROGRAMS = SHARED / "programs"
CASES_ZIP = SHARED / "stablehlo" / "cases.zip"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --seed, --part and --scope."""
    parser.addoption(
        "--seed",
        type=int,
        default=None,
        help="seed of everything random: by default the number of commits, drawn without history",
    )
    parts.add_options(parser)
    scope.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Fix the seed once, so that xdist's workers share it with the process that reports it.

    Each commit has its own, so that what fails at one fails there again, and the next draws anew.
    Tests compile what they test: nothing comes from the user's cache, or goes there.
    """
    os.environ["XLADEV_CACHE"] = "off"
    calls_extension.provide()
    if config.option.seed is None:
        config.option.seed = parts.commits() or random.SystemRandom().randrange(2**32)
    if importlib.util.find_spec("hypothesis") is not None:
        _configure_hypothesis()
    if config.option.scope == "quick":
        config.pluginmanager.register(scope.Clock(config.option.skipped))


def _configure_hypothesis() -> None:
    import hypothesis

    hypothesis.settings.register_profile("xladev", deadline=None, print_blob=True)
    hypothesis.settings.load_profile("xladev")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what makes this run different from another."""
    seed_line = f"seed: {config.option.seed} (repeat with --seed)"
    return [*scope.describe(config), seed_line, parts.describe(config)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the part and the scope that this run was asked for, and label what is kept."""
    parts.deselect(config, items)
    scope.deselect(config, items)
    counts.label(items)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The run's seed; the header prints it and `--seed` sets it."""
    return int(request.config.option.seed)


@pytest.fixture(scope="session")
def programs_dir() -> Path:
    """The folder of exported programs: NAME.pb, NAME.hlo, NAME.npz and NAME.json."""
    if not PROGRAMS.is_dir():
        pytest.skip("../shared/programs is not here: the exported programs are not tested")
    return PROGRAMS


@pytest.fixture(scope="session")
def stablehlo_cases() -> Path:
    """The folder of StableHLO's cases: NAME/module.pb, NAME/module.hlo, NAME/case.json, data."""
    if not CASES_ZIP.is_file():
        pytest.skip("../shared/stablehlo/cases.zip is not here: StableHLO's cases are not tested")
    return unzipped(CASES_ZIP)


def unzipped(archive: Path) -> Path:
    """A folder with the contents of `archive`, kept between runs until the archive changes."""
    stat = archive.stat()
    cache = Path(tempfile.gettempdir()) / f"xladev-cases-{os.getuid()}"
    folder = cache / f"{archive.stem}-{stat.st_size}-{stat.st_mtime_ns}"
    if folder.is_dir():
        return folder
    cache.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        fresh = Path(scratch) / "cases"
        with zipfile.ZipFile(archive) as source:
            source.extractall(fresh)
        _publish(fresh, folder)
    return folder


def _publish(fresh: Path, folder: Path) -> None:
    """Rename into place; another process that was first wins with the same contents."""
    try:
        fresh.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
