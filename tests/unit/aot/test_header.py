"""The header, with a program behind it that is written in C here: what it checks and computes."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.c_programs import TOOLCHAINS, checked
from xladev.aot.example import example, web_example
from xladev.aot.header import header
from xladev.aot.interface import CValue, Interface
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array

TYPES = (
    dt.PRED, dt.S4, dt.U2, dt.S8, dt.S16, dt.S32, dt.S64, dt.U8, dt.U64, dt.F16, dt.BF16,
    dt.F8E5M2, dt.F32, dt.F64, dt.C64, dt.C128,
)  # fmt: skip


def interface(
    arguments: tuple[CValue, ...], results: tuple[CValue, ...], name: str = "prog"
) -> Interface:
    entry = f"{name}_entry"
    return Interface(name, arguments, results, 100, 16, entry, "host */ /*", "module */")


def value(name: str, *dims: int, type_: dt.PrimitiveType = dt.F32) -> CValue:
    return CValue(name, f"parameter {name}.1", array(type_, dims).with_default_layout())


PLAIN = interface((value("x", 2, 3), value("n", type_=dt.S32)), (value("0", 6), value("none", 0)))
IN_PLACE = interface(
    (replace(value("w", 4), alias="0", partner=0),),
    (replace(value("0", 4), alias="w", partner=0),),
)

ENTRY = """
int32_t prog_entry(void *reserved, const void *const *arguments, void *const *results, void *s) {
  const float *in = (const float *)arguments[0];
  float *out = (float *)results[0];
  int i;
  ((unsigned char *)s)[99] = 1;
  for (i = 0; i < 4; ++i) out[i] = 2 * in[i];
  return reserved == NULL ? 0 : 1;
}
"""


def run_c(folder: Path, made: Interface, body: str, chain: str = "gcc") -> str:
    """What a C program prints whose `main` is `body`; built without a warning."""
    toolchain = TOOLCHAINS[chain]
    toolchain.require()
    (folder / "prog.h").write_text(header(made))
    text = (
        f'#include "prog.h"\n#include <stdio.h>\n{ENTRY}\nint main(void) {{\n{body}\nreturn 0; }}\n'
    )
    (folder / "main.c").write_text(text)
    checked([*toolchain.compiler, "main.c", "-o", "main"], folder)
    return checked([str(folder / "main")], folder)


SET_UP = """
  static unsigned char space[1024];
  unsigned char *memory = (unsigned char *)prog_align(space);
  static float x[8];
  float *in = (float *)prog_align(space + 512);
  prog_context c;
  prog_status s;
  const char *who;
  (void)x; (void)who; (void)in;
"""


@pytest.mark.parametrize("chain", ["gcc", "clang", "g++"])
def test_runs_and_gives_results(tmp_path: Path, chain: str) -> None:
    body = f"""{SET_UP}
      int i; int32_t n = 0; int32_t *np = (int32_t *)(in + 16);
      *np = n;
      for (i = 0; i < 6; ++i) in[i] = (float)i;
      s = prog_init(&c, memory, PROG_MEMORY_NBYTES);
      printf("%s\\n", prog_status_string(s));
      prog_set_arg_x(&c, in);
      prog_set_arg_n(&c, np);
      printf("%s\\n", prog_status_string(prog_run(&c)));
      printf("%g %g\\n", (double)prog_result_0(&c)[1], (double)prog_result_0(&c)[3]);
      printf("%d %d\\n", prog_arg_x(&c) == in, prog_arg_n(&c) == np);
      printf("%d %d %d\\n", PROG_ARG_X_SIZE, PROG_ARG_X_DIM1, PROG_ARG_N_RANK);
      prog_set_result_0(&c, in + 32);
      s = prog_run(&c);
      printf("%d %g\\n", (int)s, (double)in[33]);
      printf("%s %s\\n", prog_arguments()[1].name, prog_arguments()[1].element_type);
    """
    shown = run_c(tmp_path, PLAIN, body, chain).splitlines()
    assert shown == ["success", "success", "2 6", "1 1", "6 3 0", "0 2", "n s32"]


def test_what_is_wrong_with_a_context_is_told(tmp_path: Path) -> None:
    body = f"""{SET_UP}
      printf("%d ", (int)prog_init(NULL, memory, 512));
      printf("%d ", (int)prog_init(&c, NULL, 512));
      printf("%d ", (int)prog_init(&c, memory + 1, 512));
      printf("%d ", (int)prog_init(&c, memory, PROG_MEMORY_NBYTES - 1));
      printf("%d\\n", (int)prog_init(&c, memory, PROG_MEMORY_NBYTES));
      who = prog_culprit(&c, &s); printf("%s %d\\n", who, (int)s);
      prog_set_arg_x(&c, in);
      who = prog_culprit(&c, &s); printf("%s %d\\n", who, (int)s);
      prog_set_arg_n(&c, (const int32_t *)(in + 1));
      who = prog_culprit(&c, &s); printf("%s %d %d\\n", who, (int)s, (int)prog_run(&c));
      prog_set_arg_n(&c, (const int32_t *)(in + 8));
      prog_set_result_0(&c, NULL);
      who = prog_culprit(&c, &s); printf("%s %d\\n", who, (int)s);
      prog_set_result_0(&c, in + 16); prog_set_result_none(&c, NULL);
      printf("%d\\n", prog_culprit(&c, NULL) == NULL);
      who = prog_culprit(NULL, &s); printf("%s %d\\n", who, (int)s);
    """
    shown = run_c(tmp_path, PLAIN, body).splitlines()
    assert shown == ["1 1 2 3 0", "x 1", "n 1", "n 2 2", "0 1", "1", "context 1"]


def test_a_result_in_place_is_where_its_argument_is(tmp_path: Path) -> None:
    body = f"""{SET_UP}
      prog_init(&c, memory, PROG_MEMORY_NBYTES);
      in[0] = 3;
      prog_set_arg_w(&c, in);
      s = prog_run(&c);
      printf("%d %g %d\\n", (int)s, (double)in[0], prog_result_0(&c) == in);
      c.results[0] = in + 16;
      printf("%d\\n", (int)prog_run(&c));
    """
    assert run_c(tmp_path, IN_PLACE, body).splitlines() == ["0 6 1", "4"]


@pytest.mark.parametrize("chain", ["gcc", "clang", "g++"])
def test_every_element_type_builds_and_prints(tmp_path: Path, chain: str) -> None:
    values = tuple(value(f"v_{t.name}", 2, type_=t) for t in TYPES)
    made = interface(values, tuple(replace(v, name=f"r_{v.name}") for v in values))
    toolchain = TOOLCHAINS[chain]
    toolchain.require()
    (tmp_path / "prog.h").write_text(header(made))
    (tmp_path / "entry.c").write_text(
        '#include "prog.h"\nint32_t prog_entry(void *a, const void *const *b, void *const *c, '
        "void *d) { (void)a; (void)b; (void)c; (void)d; return 0; }\n"
    )
    (tmp_path / "main.c").write_text(example(made))
    checked([*toolchain.compiler, "main.c", "entry.c", "-o", "main"], tmp_path)
    shown = checked([str(tmp_path / "main")], tmp_path).splitlines()
    assert len(shown) == len(TYPES)
    assert "r_v_c64 = c64[2] (0, 0) (0, 0)" in shown


def test_a_program_without_arguments_or_results_builds(tmp_path: Path) -> None:
    body = """
      static unsigned char space[256];
      prog_context c;
      return (int)prog_init(&c, prog_align(space), PROG_MEMORY_NBYTES)
          || prog_culprit(&c, NULL) != NULL;
    """
    assert run_c(tmp_path, interface((), ()), body) == ""


@pytest.mark.parametrize("chain", ["gcc", "clang", "g++"])
@pytest.mark.parametrize("made", [interface((), ()), interface((), PLAIN.results)])
def test_examples_without_arguments_build(made: Interface, chain: str, tmp_path: Path) -> None:
    toolchain = TOOLCHAINS[chain]
    toolchain.require()
    (tmp_path / "prog.h").write_text(header(made))
    (tmp_path / "main.c").write_text(example(made))
    checked([*toolchain.compiler, "-c", "main.c", "-o", "main.o"], tmp_path)


def test_names_of_modules_stay_in_their_comments() -> None:
    made = replace(PLAIN, module="a\nthrow 1; // */ b")
    (line,) = (each for each in web_example(made).splitlines() if "throw 1" in each)
    assert line.startswith("//")
    assert header(made).splitlines()[0].endswith("from HLO module a throw 1; // * / b.")


def test_memory_holds_scratch_and_results_apart() -> None:
    assert PLAIN.result_offsets == (128, 192)
    assert PLAIN.memory_nbytes == 192
    assert IN_PLACE.result_offsets == (None,)
    assert IN_PLACE.memory_nbytes == 128
