"""Exported programs: as HLO, on platforms, from files, by commands."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xladev
from xladev.cli.main import main
from xladev.errors import ArgumentError, UnsupportedError
from xladev.frontends.torch.export import compile_exported, exported_module, exported_weights


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: object) -> object:
        return {"y": self.norm(self.linear(x)).relu()}


def exported() -> tuple[object, object, object]:
    torch.manual_seed(0)
    model, x = Model().eval(), torch.rand(3, 8)
    return model, x, torch.export.export(model, (x,))


def test_it_takes_and_gives_what_the_model_does() -> None:
    model, x, program = exported()
    assert torch.allclose(compile_exported(program, "cpu")(x)["y"], model(x)["y"], atol=1e-6)


def test_arguments_nested_otherwise_are_refused() -> None:
    _, x, program = exported()
    with pytest.raises(ArgumentError, match="nested otherwise") as info:
        compile_exported(program, "cpu")([x])
    assert isinstance(info.value, RuntimeError) and info.value.where == "an exported program"


@pytest.mark.parametrize(
    ("argument", "shown"), [("x", "a str"), (torch.rand(3, 8, device="meta"), "a tensor of meta")]
)
def test_what_is_no_tensor_of_the_host_is_refused(argument: object, shown: str) -> None:
    _, _, program = exported()
    with pytest.raises(ArgumentError, match=f"argument 0 is {shown}") as info:
        compile_exported(program, "cpu")(argument)
    assert isinstance(info.value, RuntimeError)
    assert info.value.why == "the program takes a tensor of torch.float32 there, on torch's cpu"


def test_weights_are_constants_or_parameters() -> None:
    _, _, program = exported()
    assert len(exported_module(program).entry.parameters) == 1
    assert len(exported_module(program, weights="parameters").entry.parameters) > 5
    with pytest.raises(ArgumentError):
        exported_module(program, weights="none")


def test_weights_come_in_the_order_of_the_parameters() -> None:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.rand(3))
            self.register_buffer("shift", torch.rand(3), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.scale + self.shift) ** torch.tensor([1.0, 2.0, 3.0])

    model, x = Held(), torch.rand(3)
    program = torch.export.export(model, (x,))
    weights = exported_weights(program)
    assert list(weights)[0] == "scale" and set(weights) > {"scale", "shift"}
    run = xladev.compile(exported_module(program, weights="parameters"), "cpu")
    (got,) = run(*(each.detach().numpy() for each in weights.values()), x.numpy())
    np.testing.assert_allclose(np.asarray(got), model(x).detach().numpy(), rtol=1e-6)


def test_shapes_are_those_of_tensors_whatever_their_strides() -> None:
    class Turned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(4, 3).t())

        def forward(self, x: torch.Tensor) -> object:
            made = (x * self.weight).transpose(0, 1)
            return made, x, made

    model, x = Turned(), torch.rand(4, 3).t()
    program = torch.export.export(model, (x,))
    module = exported_module(program, weights="parameters")
    assert [p.shape.dims for p in module.entry.parameters] == [(3, 4), (3, 4)]
    run = xladev.compile(module, "cpu")
    got = run(exported_weights(program)["weight"].detach().numpy(), x.numpy())
    for each, wanted in zip(got, model(x), strict=True):
        np.testing.assert_array_equal(np.asarray(each), wanted.detach().numpy())


def test_changes_of_type_that_an_export_checks() -> None:
    class Widened(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.float64) * 2

    x = torch.rand(3)
    program = torch.export.export(Widened(), (x,))
    assert "_assert_tensor_metadata" in program.graph_module.code
    assert torch.equal(compile_exported(program, "cpu")(x), x.double() * 2)


def test_open_sizes_are_compiled_for_when_they_come() -> None:
    model = torch.nn.Linear(8, 4)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(model, (torch.rand(4, 8),), dynamic_shapes=[{0: rows}])
    run = compile_exported(program, "cpu")
    for size in (2, 5):
        x = torch.rand(size, 8)
        assert torch.allclose(run(x), model(x), atol=1e-6)
    with pytest.raises(UnsupportedError, match="sizes that are not fixed"):
        exported_module(program)


@pytest.mark.long  # starts a process with torch
def test_commands_read_files(tmp_path: Path) -> None:
    model, x, program = exported()
    path, arrays = tmp_path / "m.pt2", tmp_path / "m.npz"
    torch.export.save(program, path)
    np.savez(arrays, in_0=x.numpy(), out_0=model(x)["y"].detach().numpy())
    words = ["run", str(path), "--platform", "interpreter"]
    assert main([*words, "--inputs", str(arrays), "--check", str(arrays)]) == 0
