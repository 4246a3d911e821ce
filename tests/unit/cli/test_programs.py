"""Programs as commands take them: HLO, and StableHLO that jaxlib converts in another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from xladev.cli import programs
from xladev.cli.main import main
from xladev.cli.programs import load_program
from xladev.errors import CompileError, FormatError
from xladev.hlo.load import load

MLIR = """module @double {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""


@pytest.fixture
def stablehlo(tmp_path: Path) -> Path:
    pytest.importorskip("jaxlib.mlir.dialects.stablehlo")
    path = tmp_path / "double.mlir"
    path.write_text(MLIR)
    return path


def test_stablehlo_runs(stablehlo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(stablehlo), "--platform", "interpreter"]) == 0
    assert "double on interpreter:0" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["double.pb", "double.hlo"])
def test_stablehlo_is_converted_to_what_the_name_says(stablehlo: Path, name: str) -> None:
    output = stablehlo.with_name(name)
    assert main(["convert", str(stablehlo), "-o", str(output)]) == 0
    assert output.read_bytes().startswith(b"HloModule") == name.endswith(".hlo")
    assert load(output) == load_program(stablehlo)


def test_an_artefact_of_jax_export_is_read(stablehlo: Path) -> None:
    """Its StableHLO is in a vector of a flatbuffer."""
    jax = pytest.importorskip("jax")
    exported = jax.export.export(jax.jit(lambda x: x + x))(jax.ShapeDtypeStruct((4,), "float32"))
    code = exported.mlir_module_serialized
    path = stablehlo.with_name("double.bin")
    path.write_bytes(bytes(64) + len(code).to_bytes(4, "little") + code + bytes(4))
    assert [i.opcode for i in load_program(path).entry.instructions] == ["parameter", "add"]


def test_damaged_stablehlo_is_told(stablehlo: Path) -> None:
    stablehlo.write_text(MLIR.replace("%y :", "%z :"))
    with pytest.raises(CompileError, match="is StableHLO, and was not converted") as caught:
        load_program(stablehlo)
    assert "undeclared SSA value" in str(caught.value.why)


def test_a_conversion_that_takes_too_long_ends(
    stablehlo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_S", 0.0)
    with pytest.raises(CompileError, match="was not converted in 0 s"):
        load_program(stablehlo)


def test_other_formats_stay_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"\x08\x08\x12\x07pytorch")
    with pytest.raises(FormatError, match="an ONNX model"):
        load_program(path)
