"""Pages that are generated from code are what the code gives now."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def generator() -> ModuleType:
    """The script docs/gen/all.py as a module."""
    spec = importlib.util.spec_from_file_location("gen_all", ROOT / "docs" / "gen" / "all.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_pages_are_up_to_date(generator: ModuleType) -> None:
    stale = [str(path.relative_to(ROOT)) for path, _ in generator.stale()]
    assert stale == [], "run: python docs/gen/all.py"


def test_a_changed_page_is_noticed(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(generator, "pages", lambda: iter([(page, "new\n")]))
    assert generator.stale() == [(page, "new\n")]
    page.write_text("new\n")
    assert generator.stale() == []
    page.write_text("old\n")
    assert generator.stale() == [(page, "new\n")]
