"""The command line as its users see it: output, exit codes, errors."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, null_spec
from xladev.cli.main import main
from xladev.hlo.load import is_text
from xladev.runtime.registry import Registry, using_registry

PROGRAM = """HloModule scale
ENTRY e {
  x = f32[4]{0} parameter(0)
  h = bf16[2]{0} parameter(1)
  r = f32[4]{0} sqrt(x)
  s = bf16[2]{0} add(h, h)
  ROOT t = (f32[4]{0}, bf16[2]{0}) tuple(r, s)
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "scale.hlo"
    path.write_text(PROGRAM)
    return path


def test_the_package_is_the_command() -> None:
    called = [sys.executable, "-m", "xladev", "devices", "--json"]
    shown = subprocess.run(called, capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(shown)


CHATTY = """
import ctypes, os, sys
from xladev.platforms.interpreter.plugin import InterpreterCompiler, InterpreterPlatform
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
print("chatty: imported")
ctypes.CDLL(None).puts(b"chatty: driver 3.2, licensed to nobody")
@hookimpl
def xladev_platforms():
    print("chatty: asked")
    os.write(1, b"chatty: straight to the descriptor\\n")
    return PlatformSpec("chatty", InterpreterPlatform, compiler=InterpreterCompiler, priority=1)
"""


@pytest.mark.parametrize("command", ["devices", "doctor"])
def test_what_a_plugin_prints_is_no_part_of_a_document(tmp_path: Path, command: str) -> None:
    info = tmp_path / "chatty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chatty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[xladev.platforms]\nchatty = chatty\n")
    (tmp_path / "chatty.py").write_text(CHATTY)
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "xladev", command, "--json"], capture_output=True, text=True,
        timeout=60, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert "chatty" in str(json.loads(done.stdout))
    for words in ("imported", "driver 3.2", "asked", "descriptor"):
        assert words in done.stderr


def test_run_prints_results(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(program), "--platform", "interpreter"]) == 0
    shown = capsys.readouterr().out
    assert "scale on interpreter:0" in shown
    assert "f32[4]" in shown
    assert "bf16[2]" in shown
    assert "nan" not in shown


def test_saved_arrays_serve_as_inputs_and_as_expected_results(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "x.npz"
    assert main(["run", str(program), "--platform", "interpreter", "--save", str(saved)]) == 0
    assert main(["run", str(program), "--platform", "cpu", "--check", str(saved)]) == 0
    assert "passed" in capsys.readouterr().out


def test_check_allows_what_the_dtype_allows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One unit in the last place of bf16 is 0.8 percent; the same is wrong in f32."""
    saved, moved = tmp_path / "x.npz", tmp_path / "moved.npz"
    for dtype, factor, code in (("bf16", 1, 0), ("f32", 1 + 2**-7, 1), ("bf16", 8, 1)):
        path = tmp_path / "exp.hlo"
        path.write_text(f"ENTRY e {{ x = {dtype}[64] parameter(0) ROOT r = {dtype}[64] exp(x) }}")
        path.write_text(path.read_text().replace("exp(", "exponential("))
        run = ["run", str(path), "--platform", "interpreter"]
        assert main([*run, "--save", str(saved)]) == 0
        arrays = dict(np.load(saved))
        # the bits of bf16 are saved as integers
        arrays["out_0000"] = (
            arrays["out_0000"] + factor
            if dtype == "bf16"
            else (arrays["out_0000"] * np.float32(factor))
        )
        arrays["out_0000"] = arrays["out_0000"].astype(dict(np.load(saved))["out_0000"].dtype)
        np.savez(moved, **arrays)
        assert main([*run, "--check", str(moved)]) == code
        assert ("passed" if code == 0 else "FAILED") in capsys.readouterr().out


def test_arrays_of_bounded_shape_are_saved_and_checked_by_their_live_part(tmp_path: Path) -> None:
    program, saved = tmp_path / "bounded.hlo", tmp_path / "x.npz"
    program.write_text("r = f32[<=4,3] negate(f32[<=4,3] x)")
    np.savez(saved, in_0000=np.ones((2, 3), np.float32), out_0000=-np.ones((2, 3), np.float32))
    run = ["run", str(program), "--platform", "interpreter", "--check", str(saved)]
    assert main(run) == 0
    for shape in ((5, 3), (2, 2), (2,)):
        np.savez(saved, in_0000=np.ones(shape, np.float32), out_0000=-np.ones((2, 3), np.float32))
        assert main(run) == 2


def test_a_wrong_result_is_exit_code_1(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "x.npz"
    main(["run", str(program), "--platform", "interpreter", "--save", str(saved)])
    arrays = dict(np.load(saved))
    arrays["out_0000"] = arrays["out_0000"] + 1
    np.savez(saved, **arrays)
    assert main(["run", str(program), "--platform", "interpreter", "--check", str(saved)]) == 1
    assert "result 0: 4 of 4 differ, first at [0]" in capsys.readouterr().out


def test_against_and_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", str(program), "--platform", "cpu", "--against", "interpreter", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert report["problems"] == {"interpreter": []}
    assert report["device"] == "cpu:0"
    assert [r["shape"] for r in report["results"]] == ["f32[4]", "bf16[2]"]


def test_convert_there_and_back(program: Path, tmp_path: Path) -> None:
    proto, text = tmp_path / "m.pb", tmp_path / "m.txt"
    assert main(["convert", str(program), "-o", str(proto)]) == 0
    assert main(["convert", str(proto), "-o", str(text)]) == 0
    assert "sqrt" in text.read_text()
    assert main(["convert", str(text), "--to", "proto", "-o", str(tmp_path / "n.pb")]) == 0
    assert (tmp_path / "n.pb").read_bytes() == proto.read_bytes()


def test_opt_lists_and_applies_passes(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list"]) == 0
    assert "cse" in capsys.readouterr().out
    assert main(["opt", str(program), "--passes", "cse,dce"]) == 0
    assert "ENTRY" in capsys.readouterr().out


def test_devices_and_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    assert "cpu:0 *" in capsys.readouterr().out
    assert main(["doctor"]) == 0
    assert "healthy" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["platforms"]


def test_options_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options"]) == 0
    shown = capsys.readouterr().out
    assert "strict" in shown
    assert "template_npu.double_buffer" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "no/such/file"], "cannot read"),
        (["opt"], "no file was given"),
        (["run", "{program}", "--platform", "tpu"], "tpu"),
        (["run", "{program}", "--platform", "template_np"], "did you mean 'template_npu'"),
        (["run", "{program}", "--option", "fuson=1"], "fusion"),
        (["run", "{program}", "--option", "template_npu.dubble_buffer=1"], "double_buffer"),
        (["run", "{program}", "--iterations", "0"], "--iterations is 0"),
        (["run", "{program}", "--seed", "-1"], "--seed is -1"),
        (["run", "{program}", "--rtol", "nan"], "--rtol is nan"),
        (["run", "{program}", "--check", "no/such.npz"], "[FILE] cannot read arrays from no/such"),
        (["run", "{program}", "--save", "no/such/x.npz"], "[FILE] cannot write no/such/x.npz"),
        (["convert", "{program}", "-o", "no/such/x"], "[FILE] cannot write no/such/x"),
        (["opt", "{program}", "--rounds", "0"], "--rounds is 0"),
        (["run", "{program}", "--inputs", "{program}"], "cannot read arrays"),
        (["opt", "{program}", "--passes", "csee"], "cse"),
    ],
)
def test_errors_say_what_and_what_next(
    program: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [a.replace("{program}", str(program)) for a in arguments]
    assert main(filled) == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert "Traceback" not in shown


def test_a_device_that_does_not_open_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    driver = Driver()
    driver.fail("create_executor", *[ValueError("no\ndriver")] * 9)
    registry = Registry(find=lambda: ())
    registry.register(null_spec(driver, name="npu"))
    with using_registry(registry):
        assert main(["devices"]) == 1
    heading, npu, hint, _ = capsys.readouterr().out.splitlines()
    assert "raised ValueError in Platform.create_executor" in npu
    assert "xladev doctor" in hint


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "say what is installed" in capsys.readouterr().err


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_an_error_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.redirect_stdout(FullDisk()):
        assert main(["options"]) == 2
    assert capsys.readouterr().err.startswith("xladev: error: ")


def test_what_a_file_is_says_its_contents(program: Path, tmp_path: Path) -> None:
    unnamed, other = tmp_path / "unnamed", tmp_path / "other"
    unnamed.write_text(PROGRAM)
    assert main(["convert", str(unnamed), "-o", str(other)]) == 0
    assert not is_text(other.read_bytes())


def test_a_command_reads_no_other_ones_modules() -> None:
    code = (
        "import sys; from xladev.cli.main import main\n"
        "sys.argv = ['xladev', 'devices', '--json']; main()\n"
        "print(sorted(m for m in sys.modules if m.startswith('xladev.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "['xladev.cli.devices', 'xladev.cli.main', 'xladev.cli.output']\n"


def test_help_lists_every_command_and_unknown_ones_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name in ("run", "isolate", "graph", "certify"):
        assert f"    {name} " in shown
    with pytest.raises(SystemExit) as caught:
        main(["rum"])
    assert caught.value.code == 2
    assert "invalid choice: 'rum'" in capsys.readouterr().err
