"""`xladev aot`: what it writes, and that it writes nothing where something is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.c_programs import C99, TOOLCHAINS, checked
from xladev.cli.main import main

TEXT = """
HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY e {
  w.1 = f32[4] parameter(0)
  x.2 = f32[4] parameter(1)
  product = f32[4] multiply(w.1, x.2)
  scale = f32[] constant(2)
  scales = f32[4] broadcast(scale), dimensions={}
  new_w = f32[4] add(w.1, product)
  ROOT both = (f32[4], f32[4]) tuple(new_w, scales)
}
"""


ROOT = Path(__file__).parents[3]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "step.hlo"
    path.write_text(TEXT)
    return path


def test_writes_everything(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = program.parent / "made" / "here"
    assert main(["aot", str(program), "--name", "demo", "--out", str(out)]) == 0
    assert sorted(os.listdir(out)) == [
        "demo.h", "demo.o", "demo.pc", "demoConfig.cmake", "demo_example.c", "libdemo.a",
    ]  # fmt: skip
    shown = capsys.readouterr().out
    assert "demo: step for " in shown
    assert "argument  w     f32[4]  16     parameter w.1" in shown


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_output_is_said_as_to_other_commands(program: Path, option: str) -> None:
    out = program.parent / "out"
    assert main(["aot", str(program), "--name", "demo", option, str(out)]) == 0
    assert (out / "demo.h").is_file()


def test_webassembly_has_an_example_in_javascript(program: Path) -> None:
    out = program.parent / "out"
    assert main(["aot", str(program), "--target", "wasm32", "--out", str(out)]) == 0
    assert (out / "step_example.mjs").is_file()


def test_feeds_fetches_and_constants(program: Path) -> None:
    TOOLCHAINS["gcc"].require()
    out = program.parent / "out"
    words = ["--feed", "weights=0", "--constant", "x.2=[1, 2, 3, 4]", "--fetch", "sum=new_w"]
    assert main(["aot", str(program), "--name", "p", "--out", str(out), *words, "--apart"]) == 0
    header = (out / "p.h").read_text()
    assert "p_set_arg_weights(p_context *context, const float *data)" in header
    assert "p_result_sum(" in header and "#define P_ARGUMENT_COUNT 1" in header
    checked(["gcc", *C99, "p_example.c", "-L.", "-lp", "-o", "p"], out)
    assert checked(["./p"], out) == "sum = f32[4] 0 0 0 0\n"


def test_a_result_takes_the_place_of_an_argument_unless_told_otherwise(program: Path) -> None:
    for words, setter in (([], "float *data"), (["--apart"], "const float *data")):
        out = program.parent / f"out{len(words)}"
        assert main(["aot", str(program), "--out", str(out), *words]) == 0
        assert f"step_set_arg_w(step_context *context, {setter})" in (out / "step.h").read_text()


def test_options_win_over_the_file(program: Path) -> None:
    config = program.parent / "aot.toml"
    config.write_text(
        "name = 'configured'\ntarget = 'riscv64-linux-gnu'\nin_place = false\n"
        "[[fetch]]\nwhat = 'product'\nname = 'p'\n[options]\noptimization_level = 1\n"
    )
    out = program.parent / "out"
    words = ["--config", str(config), "--target", "aarch64-linux-gnu", "--out", str(out)]
    assert main(["aot", str(program), *words]) == 0
    header = (out / "configured.h").read_text()
    assert "Code for aarch64-unknown-linux-gnu" in header
    assert "configured_result_p(" in header


def test_the_c_code_of_the_guide_builds(tmp_path: Path) -> None:
    TOOLCHAINS["gcc"].require()
    guide = (ROOT / "docs/how-to/ship-without-python.md").read_text("utf-8")
    (code,) = re.findall(r"```c\n(.*?)```", guide, re.DOTALL)
    predict = ROOT / "examples/mnist_softmax/programs/predict_64.pb"
    assert main(["aot", str(predict), "--name", "predict", "--out", str(tmp_path)]) == 0
    end = "#include <stdio.h>\nint main(void) { return (int)first_digit(); }\n"
    (tmp_path / "main.c").write_text(code + end)
    checked(["gcc", *C99, "main.c", "-L.", "-lpredict", "-o", "main"], tmp_path)
    checked(["./main"], tmp_path)


WRONG: dict[str, tuple[list[str], str]] = {
    "architecture": (["--target", "arch64-linux-gnu"], "did you mean 'aarch64'"),
    "system": (["--target", "x86_64-windows"], "unknown system"),
    "level": (["--target", "x86_64-linux-gnu", "--cpu", "x86-64-v9"], "processor level"),
    "two levels": (["--target", "x86_64-linux-gnu:x86-64-v3", "--cpu", "x86-64-v2"], "--cpu"),
    "name": (["--name", "my-net"], "--name my_net"),
    "feed": (["--feed", "=x"], "NAME=WHAT"),
    "feed of nothing": (["--feed", "y=nothing"], "is no instruction"),
    "name of a feed": (["--feed", "a-b=x.2"], "cannot be named"),
    "fetch": (["--fetch", "9"], "no such part"),
    "constant": (["--constant", "x.2"], "WHAT=VALUE"),
    "constant of another size": (["--constant", "x.2=[1, 2]"], "not of sizes"),
    "config": (["--config", "missing.toml"], "missing.toml"),
    "platform": (["--platform", "template_npu"], "exports no object files"),
    "option": (["--option", "fusion=perhaps"], "fusion"),
    "devices": (["--option", "num_replicas=2"], "one processor"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_and_nothing_is_written(
    case: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = WRONG[case]
    out = program.parent / "out"
    assert main(["aot", str(program), "--out", str(out), *words]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_full_disk_leaves_nothing(program: Path) -> None:
    code = (
        "import resource, signal, sys; from xladev.cli.main import main; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
        "sys.exit(main(sys.argv[1:]))"
    )
    out = program.parent / "out"
    done = subprocess.run(
        [sys.executable, "-c", code, "aot", str(program), "--out", str(out)],
        env={**os.environ, "XLADEV_CACHE": "off", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "cannot write" in done.stderr, done.stderr
    assert not out.exists()


def test_dynamic_sizes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dynamic.hlo"
    path.write_text("ENTRY e { x = f32[<=4] parameter(0)  ROOT n = f32[<=4] negate(x) }")
    assert main(["aot", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "x is f32[<=4]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_python_would_run_is_refused_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "host.hlo"
    path.write_text(
        "ENTRY e { s = u64[2] rng-get-and-update-state(), delta=1  ROOT n = u64[2] not(s) }"
    )
    assert main(["aot", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "s (rng-get-and-update-state): " in error
    assert not (tmp_path / "out").exists()
