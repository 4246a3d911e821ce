"""Long constants go around jaxlib's converter, and come out as it would have made them."""

import io
from typing import Any

import numpy as np
import pytest

from xladev.frontends.jax import adapter, conversion
from xladev.frontends.jax.adapter_constants import CALL, take_constants
from xladev.frontends.jax.conversion import MLIR, read_program
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

DTYPES = ["float32", "bfloat16", "float16", "int8", "uint16", "int32", "bool", "complex64"]


def bytecode(function: Any, *arguments: Any) -> bytes:
    """The StableHLO of a function, as bytecode."""
    written = io.BytesIO()
    jax.jit(function).lower(*arguments).compiler_ir().operation.write_bytecode(written)
    return written.getvalue()


def literals(module: HloModule) -> list[Any]:
    return [
        i["literal"] for c in module.computations for i in c.instructions if i.opcode == "constant"
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_programs_mean_what_jaxlib_makes_of_them(
    dtype: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of constants, which jaxlib folds, constants in loops, splats and short ones."""
    numbers = np.random.default_rng(seed).integers(0, 2, (3, 100, 400))
    long, short = jnp.asarray(numbers, dtype), jnp.asarray(numbers[0, :2, :2], dtype)
    splat, looped = np.full((100, 400), 3, np.float32), long + long

    def function(x: Any) -> Any:
        inside = jax.lax.fori_loop(0, 2, lambda n, y: y + looped[n].astype(np.float32), x)
        return inside + splat, long[2], short, long

    x = np.random.default_rng(seed).random((100, 400), np.float32)
    code = bytecode(function, x)
    read = read_program(code, MLIR).module
    monkeypatch.setattr(adapter, "take_constants", lambda _: [])
    wanted = read_program(code, MLIR).module
    for got, expected in zip(evaluated(read, x), evaluated(wanted, x), strict=True):
        assert got.dtype == expected.dtype and got.tobytes() == expected.tobytes()
    longest = [max(literals(m), key=lambda each: each.shape.nbytes) for m in (read, wanted)]
    assert longest[0] == longest[1] and not longest[0].is_short


def evaluated(module: HloModule, *arguments: Any) -> list[Any]:
    """Results of a module, by the evaluator."""
    found = HloEvaluator().run(module, *arguments)
    return list(found) if isinstance(found, (tuple, list)) else [found]


def test_jaxlib_does_not_see_long_constants(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(seed).random((200, 300), dtype=np.float32)
    code = bytecode(lambda x: x @ weights, np.ones((4, 200), np.float32))
    seen: list[bytes] = []
    convert = adapter.hlo_proto

    def converted(given: bytes) -> bytes:
        seen.append(given)
        return convert(given)

    monkeypatch.setattr(conversion.adapter, "hlo_proto", converted)
    (literal,) = literals(read_program(code, MLIR).module)
    np.testing.assert_array_equal(literal.array, weights)
    assert len(seen[0]) < weights.nbytes / 10 and CALL.encode() in seen[0]


def test_attributes_of_constants_are_kept() -> None:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    numbers = ", ".join(map(str, range(20_000)))
    with mlir.make_ir_context():
        module = ir.Module.parse(f"""func.func @main() -> tensor<20000xi32> {{
          %c = stablehlo.constant {{mhlo.frontend_attributes = {{a = "b"}}}}
            dense<[{numbers}]> : tensor<20000xi32>
          return %c : tensor<20000xi32> }}""")
        (array,) = take_constants(module)
        assert array.tolist() == list(range(20_000))
        assert 'a = "b"' in str(module) and "stablehlo.constant" not in str(module)
