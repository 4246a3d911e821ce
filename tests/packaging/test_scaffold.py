"""What `xladev new` writes is green in an environment that has only xladev's wheel."""

from pathlib import Path

import pytest

from tests.tools.environment import Environment, make_environment

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    builder = make_environment(folder / "venv")
    code, shown = builder.run("pip", "wheel", "--no-deps", "-w", ".", str(ROOT), cwd=folder)
    assert code == 0, shown
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture
def clean(tmp_path: Path, wheel: Path) -> Environment:
    """An environment with the wheel and its dependencies."""
    made = make_environment(tmp_path / "venv")
    install = ("pip", "install", "--no-deps", "--ignore-installed", str(wheel))
    code, shown = made.run(*install, cwd=tmp_path)
    assert code == 0, shown
    return made


def test_a_minimal_backend_starts_green(clean: Environment, tmp_path: Path) -> None:
    shown = steps(clean, tmp_path, "new", "my_npu", "--minimal", "--vendor", "Some Vendor")
    assert "my_npu:0" in shown["xladev devices"]
    assert "4 instructions ran on the host" in shown["xladev run"]


def test_a_whole_backend_starts_green(clean: Environment, tmp_path: Path) -> None:
    shown = steps(clean, tmp_path, "new", "my_npu")
    assert "my_npu:0" in shown["xladev devices"]
    assert "ran on the host" not in shown["xladev run"]


@pytest.mark.rotating
@pytest.mark.parametrize(("kind", "level"), [(("--minimal",), 1), ((), 6)])
def test_what_is_scaffolded_is_certified(
    kind: tuple[str, ...], level: int, clean: Environment, tmp_path: Path
) -> None:
    for folder, command in (
        (tmp_path, ("xladev", "new", "my_npu", *kind)),
        (tmp_path / "my_npu", ("pip", "install", ".")),
    ):
        code, shown = clean.run(*command, cwd=folder)
        assert code == 0, shown
    code, shown = clean.run(
        "xladev",
        "certify",
        "my_npu",
        "--level",
        str(level),
        "--quiet",
        cwd=tmp_path,
        timeout_s=1500,
    )
    assert code == 0, shown
    assert f"my_npu reaches level {level}" in shown
    file = "certificate/CERTIFICATE.json"
    code, shown = clean.run("xladev", "certify", "--verify", file, "--sample", "20", cwd=tmp_path)
    assert code == 0, shown
    assert "20 of 20 cases hold" in shown
    page = (tmp_path / "certificate" / "STATEMENT.md").read_text("utf-8")
    assert "installed from a working tree" not in page


def steps(environment: Environment, folder: Path, *new: str) -> dict[str, str]:
    """Runs the command, and then what it says comes next; the output by command."""
    project = folder / "my_npu"
    run = ("xladev", "run", "examples/dense.hlo", "--platform", "my_npu")
    shown = {}
    for cwd, command in (
        (folder, ("xladev", *new)),
        (project, ("pip", "install", "-e", ".[test]")),
        (project, ("pytest", "-q")),
        (project, ("xladev", "devices")),
        (project, run),
    ):
        code, output = environment.run(*command, cwd=cwd)
        assert code == 0, f"{command}\n{output}"
        shown[" ".join(command[:2])] = output
    return shown
