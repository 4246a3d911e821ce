"""Graphs compiled: as one program, in parts, for the sizes that come, in place."""

import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import records

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(function: object, **options: object) -> object:
    return torch.compile(function, backend="xladev", options={"platform": "cpu", **options})


def test_one_graph_is_one_program() -> None:
    f = compiled(lambda x, y: (x @ y).softmax(-1) + 1)
    x, y = torch.rand(3, 4), torch.rand(4, 5)
    assert torch.allclose(f(x, y), (x @ y).softmax(-1) + 1)
    (record,) = records.compiled_graphs()
    assert (record.kind, len(record.programs), record.fallbacks) == ("inference", 1, ())


def test_what_has_no_lowering_runs_in_torch_with_its_reason() -> None:
    def f(x: object) -> object:
        y = x * 2
        return torch.histogram(y, bins=4)[0] + 1, y.sum()

    x = torch.rand(10)
    for found, wanted in zip(compiled(f)(x), f(x), strict=True):
        assert torch.allclose(found, wanted)
    (fallback,) = records.fallbacks()
    assert fallback.operator == "aten.histogram.bin_ct"
    assert "has no lowering" in fallback.reason


def chosen_rows(x: Any) -> Any:
    return x[x[:, 0] > 0.5].sum(1) * 2


def first_rows(x: Any) -> Any:
    return (x * 2)[: x.sum().to(torch.int64).item() % 4 + 1] + 1


def positions(x: Any) -> Any:
    return (x > 0.5).nonzero()


@pytest.mark.parametrize("function", [chosen_rows, first_rows, positions])
def test_sizes_that_depend_on_elements_are_torchs_where_it_captures_them(function: Any) -> None:
    """Dynamo breaks the graph at them, unless these switches are on."""
    config = torch._dynamo.config
    with config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        f = torch.compile(function, backend="xladev", fullgraph=True, options={"platform": "cpu"})
        for seed in range(4):
            torch.manual_seed(seed)
            x = torch.rand(6, 5)
            assert torch.allclose(f(x).float(), function(x).float())
    reasons = [fallback.reason for fallback in records.fallbacks()]
    assert any("not known before the graph runs" in reason for reason in reasons)


def test_gradients_of_rows_chosen_by_their_elements() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(lambda x: chosen_rows(x).square().sum())
        for seed in range(4):
            torch.manual_seed(seed)
            x = torch.rand(6, 5, requires_grad=True)
            (found,) = torch.autograd.grad(f(x), x)
            (wanted,) = torch.autograd.grad(chosen_rows(x).square().sum(), x)
            assert torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("has_parts", [False, True])
def test_constants_are_part_of_the_program(has_parts: bool) -> None:
    def f(x: object) -> object:
        y = x * torch.tensor([1.0, 2.0, 3.0])
        y = y + torch.histogram(y, bins=3)[0] if has_parts else y
        return y * torch.tensor([4.0, 5.0, 6.0])

    x = torch.rand(3)
    assert torch.allclose(compiled(f)(x), f(x))


def test_sizes_without_bounds_are_compiled_for_up_to_a_number() -> None:
    def function(x: object) -> object:
        return x.sort(0)[0] * 2

    f = compiled(function, specialised_sizes=3)
    for size in range(4, 12):
        x = torch.rand(size, 8)
        assert torch.equal(f(x), function(x))
    programs = [record for record in records.compiled_graphs() if record.programs]
    assert len(programs) == 1 + 3  # the first size, then three more
    (fallback,) = records.fallbacks()
    assert "sort" in fallback.reason


def test_sizes_share_programs_with_bounds() -> None:
    model = torch.nn.Linear(8, 2)
    f = compiled(model)
    for size in range(4, 40):
        x = torch.rand(size, 8)
        assert torch.allclose(f(x), model(x), atol=1e-6)
    bounds = [record.sizes for record in records.compiled_graphs() if record.is_bound]
    assert bounds == [(8,), (16,), (32,), (64,)]
    assert len(records.compiled_graphs()) == 1 + 2 + len(bounds)
    assert not records.fallbacks()


def test_gradients_with_sizes_that_change() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    f = compiled(model)
    for size in (3, 4, 5):
        x = torch.rand(size, 8)
        found, wanted = (
            torch.autograd.grad(each(x).square().sum(), list(model.parameters()))
            for each in (f, model)
        )
        torch.testing.assert_close(found, wanted)


def test_a_buffer_is_changed_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(*_: object) -> None:
        raise AssertionError("the new value was written elsewhere and copied")

    buffer = torch.zeros(1000)

    def add(x: object) -> object:
        buffer.add_(x)
        return buffer.sum()

    address = buffer.data_ptr()
    with torch.no_grad():
        f = compiled(add)
        f(torch.zeros(1000))
        monkeypatch.setattr(torch.Tensor, "copy_", copy)
        assert [float(f(torch.ones(1000))) for _ in range(2)] == [1000, 2000]
    assert buffer.data_ptr() == address
    assert buffer[0] == 2
    assert records.compiled_graphs()[0].programs[0].program.donors


def test_what_the_gradient_needs_of_the_inputs_is_no_result() -> None:
    x, y = (torch.rand(4, 4, requires_grad=True) for _ in range(2))
    compiled(torch.matmul)(x, y).sum().backward()
    forward = records.compiled_graphs()[0].programs[0].program
    assert len(forward.signature.result.tuple_shapes) == 1
    assert torch.allclose(x.grad, y.sum(1).expand(4, 4))


def test_layouts_are_torchs() -> None:
    convolution = torch.nn.Conv2d(3, 5, 3)
    x = torch.rand(2, 3, 6, 6).to(memory_format=torch.channels_last)
    found, wanted = compiled(convolution)(x), convolution(x)
    assert found.stride() == wanted.stride()
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "complex64", "int8", "float64"])
def test_types_cross(dtype: str) -> None:
    x = torch.ones(3, dtype=getattr(torch, dtype))
    found = compiled(lambda x: (x, torch.cat([x, x])))(x)[1]
    assert found.dtype == x.dtype
    assert torch.equal(found, torch.cat([x, x]))


def test_manual_seed_fixes_what_is_drawn() -> None:
    f = compiled(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.randn(1000))
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = f(x), f(x)
    torch.manual_seed(3)
    assert torch.equal(f(x), first)
    assert not torch.equal(first, second)


def test_torch_draws_where_asked_to() -> None:
    f = compiled(lambda x: x + torch.randn(8), fallback_random=True)
    torch.manual_seed(3)
    found = f(torch.ones(8))
    torch.manual_seed(3)
    assert torch.equal(found, torch.ones(8) + torch.randn(8))


def test_a_singular_matrix_is_torchs_error() -> None:
    f = compiled(torch.linalg.inv)
    assert torch.allclose(f(torch.eye(3) * 2), torch.eye(3) / 2)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        f(torch.zeros(3, 3))
    assert not records.fallbacks()


def test_threads_share_a_program() -> None:
    f = compiled(lambda x: x * 2 + 1)
    f(torch.ones(4))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(20):
            x = torch.full((4,), float(seed))
            if not torch.equal(f(x), x * 2 + 1):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_another_platform() -> None:
    f = compiled(lambda x: x.softmax(-1) @ x, platform="template_npu")
    x = torch.rand(4, 4)
    assert torch.allclose(f(x), x.softmax(-1) @ x, atol=1e-6)
    (record,) = records.compiled_graphs()
    assert record.programs[0].devices[0].platform == "template_npu"


def test_autocast_and_inference_mode() -> None:
    model = torch.nn.Linear(8, 2)
    x = torch.rand(3, 8)
    with torch.inference_mode():
        assert torch.allclose(compiled(model)(x), model(x), atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, wanted = compiled(model)(x), model(x)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found, wanted, atol=1e-2)


def test_attention_is_one_kernel() -> None:
    from xladev.instrument import collect_decisions

    q, k, v = (torch.rand(2, 4, 64, 32) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    with collect_decisions() as decisions:
        found = compiled(lambda q, k, v: attention(q, k, v, is_causal=True))(q, k, v)
    assert torch.allclose(found, attention(q, k, v, is_causal=True), atol=1e-5)
    assert any("attention" in str(each) for each in decisions)
