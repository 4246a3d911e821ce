"""Programs compiled ahead of time give what XLA's CPU gave, on every kind of machine.

Built by GCC, clang and Debian's cross compilers, run here, under QEMU and under Node. The example
that comes with each program is what runs: it links no more than the object file and libc.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.conftest import PROGRAMS
from tests.tools.c_programs import C99, TOOLCHAINS, Array, Toolchain, build, checked, run_example
from tests.tools.programs import ExportedProgram, program_names
from xladev.aot.build import Bundle, compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.dtype import by_name

NAMES = program_names(PROGRAMS)
SHOWN = ("mnist_softmax_train", "cnn_train_adam_dropout", "transformer_block_fwd_bwd")
MEMORY_FUNCTIONS = {"memcpy", "memmove", "memset"}

# See tests/acceptance/test_programs.py: one gradient is the rounding noise of a sum.
ROUNDING_NOISE = {"cnn_train_adam_dropout": "result 3: 1 of 4608 differ"}

pytestmark = pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")


@cache
def bundle_of(name: str, target: str | None, *, prefix: str = "prog") -> Bundle:
    return compile(ExportedProgram(PROGRAMS, name).module(), prefix, target=target)


def check(name: str, chain: str, folder: Path, *flags: str) -> None:
    """Builds a program and its example, runs it on the inputs and compares."""
    toolchain = TOOLCHAINS[chain]
    toolchain.require(*flags)
    program = ExportedProgram(PROGRAMS, name)
    bundle = bundle_of(name, toolchain.target)
    command = build(bundle, folder, toolchain, *flags)
    compare(program, run_example(bundle, command, folder, program.inputs()))


def compare(program: ExportedProgram, results: list[Array]) -> None:
    problem = program.problem_of(results)
    if not problem.startswith(ROUNDING_NOISE.get(program.name, "none of these")):
        assert problem == ""


@pytest.mark.parametrize("chain", TOOLCHAINS)
def test_training_step_on_every_machine(chain: str, tmp_path: Path) -> None:
    check("mnist_softmax_train", chain, tmp_path)


@pytest.mark.rotating
@pytest.mark.parametrize("chain", TOOLCHAINS)
@pytest.mark.parametrize("name", SHOWN[1:])
def test_larger_programs_on_every_machine(name: str, chain: str, tmp_path: Path) -> None:
    check(name, chain, tmp_path)


@pytest.mark.rotating
@pytest.mark.parametrize("name", [n for n in NAMES if n != "collectives_shard_map"])
def test_every_program_here(name: str, tmp_path: Path) -> None:
    check(name, "gcc", tmp_path)


@cache
def shared_bundle(name: str, target: str | None) -> Bundle:
    options = CompileOptions(threads=4)
    return compile(ExportedProgram(PROGRAMS, name).module(), "prog", target=target, options=options)


@pytest.mark.parametrize("flags", [(), ("-g", "-fsanitize=thread"), ("-g", "-fsanitize=address")])
@pytest.mark.parametrize("chain", ["gcc", "clang"])
def test_threads_change_no_bit(chain: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    toolchain = TOOLCHAINS[chain]
    toolchain.require(*flags)
    program = ExportedProgram(PROGRAMS, "mlp_train_momentum")
    found = []
    for number, make in enumerate((bundle_of, shared_bundle)):
        bundle = make(program.name, None)
        folder = tmp_path / str(number)
        command = build(bundle, folder, toolchain, *flags)
        found.append(run_example(bundle, command, folder, program.inputs()))
    assert b"xladev_parallel" in shared_bundle(program.name, None).code
    for alone, together in zip(*found, strict=True):
        assert alone.tobytes() == together.tobytes()


@pytest.mark.rotating
@pytest.mark.parametrize("chain", ["aarch64", "armv7", "riscv64"])
def test_threads_on_other_machines(chain: str, tmp_path: Path) -> None:
    toolchain = TOOLCHAINS[chain]
    toolchain.require()
    program = ExportedProgram(PROGRAMS, "mlp_train_momentum")
    bundle = shared_bundle(program.name, toolchain.target)
    command = build(bundle, tmp_path, toolchain)
    compare(program, run_example(bundle, command, tmp_path, program.inputs()))


def test_a_program_whose_results_replace_arguments(tmp_path: Path) -> None:
    bundle = bundle_of("tf_mnist_softmax_train", None)
    assert [a.alias for a in bundle.interface.arguments if a.alias] == ["1", "2"]
    check("tf_mnist_softmax_train", "gcc", tmp_path)


@pytest.mark.parametrize("chain", ["gcc", "aarch64", "armv7", "riscv64", "wasm32"])
def test_nothing_is_undefined_but_memory_functions(chain: str, tmp_path: Path) -> None:
    if shutil.which("llvm-nm") is None:
        pytest.skip("llvm-nm is not here (apt-get install llvm)")
    bundle = bundle_of("mnist_softmax_train", TOOLCHAINS[chain].target)
    bundle.write(tmp_path)
    shown = checked(["llvm-nm", "-u", "prog.o"], tmp_path)
    wanted = {line.split()[-1] for line in shown.splitlines()}
    allowed = {"__linear_memory", "__stack_pointer"} if chain == "wasm32" else MEMORY_FUNCTIONS
    assert wanted <= allowed
    seen = checked(["llvm-nm", "--extern-only", "--defined-only", "prog.o"], tmp_path)
    assert [line.split()[-1] for line in seen.splitlines()] == [bundle.interface.entry]


def test_android_gets_the_same_kind_of_object(tmp_path: Path) -> None:
    data = bundle_of("mnist_softmax_train", "aarch64-linux-android").code
    assert data[:5] == b"\x7fELF\x02" and data[18] == 183  # 64 bits, EM_AARCH64


def test_example_is_clean_under_valgrind(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not here (apt-get install valgrind)")
    toolchain = TOOLCHAINS["gcc"]
    toolchain.require()
    program = ExportedProgram(PROGRAMS, "mnist_softmax_train")
    bundle = bundle_of(program.name, None)
    valgrind = ("valgrind", "--error-exitcode=9", "--leak-check=full", "--quiet")
    command = (*valgrind, *build(bundle, tmp_path, toolchain, "-g"))
    compare(program, run_example(bundle, command, tmp_path, program.inputs()))


def test_example_is_clean_under_sanitizers(tmp_path: Path) -> None:
    check("mnist_softmax_train", "gcc", tmp_path, "-g", "-fsanitize=address,undefined")


def test_example_needs_only_libc_at_run_time(tmp_path: Path) -> None:
    """Static, in an empty environment, away from every library."""
    toolchain = Toolchain(None, ("gcc", "-static", *C99))
    toolchain.require()
    bundle = bundle_of("mnist_softmax_train", None)
    (command,) = build(bundle, tmp_path, toolchain)
    done = subprocess.run([command], env={}, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "2 = f32[] 2.30258"


TYPES = (
    "pred", "s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64",
    "f16", "bf16", "f8e5m2", "f8e4m3fn", "f32", "f64", "c64", "c128",
)  # fmt: skip


@pytest.mark.parametrize("chain", ["gcc", "armv7", "wasm32"])
def test_every_element_type_goes_in_and_out(chain: str, tmp_path: Path) -> None:
    toolchain = TOOLCHAINS[chain]
    toolchain.require()
    lines = [f"x_{t} = {t}[3,2] parameter({n})" for n, t in enumerate(TYPES)]
    lines += [f"r_{t} = {t}[3,2] reverse(x_{t}), dimensions={{0}}" for t in TYPES]
    shapes, results = (", ".join(s.format(t) for t in TYPES) for s in ("{}[3,2]", "r_{}"))
    lines.append(f"ROOT all = ({shapes}) tuple({results})")
    module = xladev.parse("ENTRY e {\n" + "\n".join(lines) + "\n}")
    bundle = compile(module, "types", target=toolchain.target)
    random = np.random.default_rng(0)
    given = [random.integers(0, 2, (3, 2)).astype(by_name(t).np) for t in TYPES]
    found = run_example(bundle, build(bundle, tmp_path, toolchain), tmp_path, given)
    for array, result in zip(given, found, strict=True):
        assert result.tobytes() == array[::-1].tobytes(), array.dtype


TWO = """
#include <stdio.h>
#include "first.h"
#include "second.h"

static unsigned char memory[2][FIRST_MEMORY_NBYTES + SECOND_MEMORY_NBYTES + 64];
static unsigned char space[8][1 << 20];

int main(void) {
  first_context a;
  second_context b;
  size_t i;
  if (first_init(&a, first_align(memory[0]), FIRST_MEMORY_NBYTES) != FIRST_OK) return 1;
  if (second_init(&b, second_align(memory[1]), SECOND_MEMORY_NBYTES) != SECOND_OK) return 1;
  for (i = 0; i < FIRST_ARGUMENT_COUNT; ++i) a.arguments[i] = first_align(space[i]);
  for (i = 0; i < SECOND_ARGUMENT_COUNT; ++i) b.arguments[i] = second_align(space[4 + i]);
  if (first_run(&a) != FIRST_OK || second_run(&b) != SECOND_OK) return 2;
  printf("%g %g\\n", (double)*first_result_2(&a), (double)*second_result_2(&b));
  return 0;
}
"""


def test_two_programs_in_one_binary(tmp_path: Path) -> None:
    TOOLCHAINS["gcc"].require()
    for prefix in ("first", "second"):
        bundle_of("mnist_softmax_train", None, prefix=prefix).write(tmp_path)
    (tmp_path / "two.c").write_text(TWO)
    command = ["gcc", *C99, "two.c", "-L.", "-lfirst", "-lsecond", "-o", "two"]
    checked(command, tmp_path)
    assert checked(["./two"], tmp_path) == "2.30258 2.30258\n"


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_linkers_find_the_library(linker: str, tmp_path: Path) -> None:
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"ld.{linker} is not here (apt-get install binutils lld)")
    check("mnist_softmax_train", "gcc", tmp_path, f"-fuse-ld={linker}")


def test_pkg_config_finds_it(tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not here (apt-get install pkg-config)")
    bundle_of("mnist_softmax_train", None).write(tmp_path)
    variables = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path)}
    done = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "prog"],
        env=variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    command = ["gcc", *C99, "prog_example.c", *done.stdout.split(), "-o", "example"]
    checked(command, tmp_path)
    assert "2.30258" in checked(["./example"], tmp_path)


CMAKE = """
cmake_minimum_required(VERSION 3.13)
project(demo C)
find_package(prog CONFIG REQUIRED PATHS "${CMAKE_CURRENT_SOURCE_DIR}/made")
add_executable(demo made/prog_example.c)
target_link_libraries(demo PRIVATE prog::prog)
"""


def test_cmake_finds_it(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not here (apt-get install cmake)")
    bundle_of("mnist_softmax_train", None).write(tmp_path / "made")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    checked(["cmake", "-S", ".", "-B", "build"], tmp_path)
    checked(["cmake", "--build", "build"], tmp_path)
    assert "2.30258" in checked(["build/demo"], tmp_path)


@pytest.mark.long
def test_several_devices_are_refused_by_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "xladev", "aot", str(PROGRAMS / "collectives_shard_map.pb")]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "psum.5 (all-reduce): it is about several devices" in done.stderr
    assert list(tmp_path.iterdir()) == []
