"""`nn.LSTM`, `nn.GRU` and `nn.RNN` beside eager torch: one program, whatever the length."""

import copy

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import records
from xladev.frontends.torch.export import compile_exported, exported_module

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh")]

KINDS = {
    "lstm": ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "lstm one layer": ("LSTM", {}),
    "lstm projected": ("LSTM", {"proj_size": 3, "bidirectional": True}),
    "lstm projected bare": ("LSTM", {"proj_size": 3, "bias": False}),
    "gru": ("GRU", {"num_layers": 2, "bidirectional": True}),
    "gru bare": ("GRU", {"batch_first": True, "bias": False}),
    "tanh": ("RNN", {"num_layers": 2}),
    "relu": ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
}


def made(kind: str, **more: object) -> object:
    name, settings = KINDS[kind]
    return getattr(torch.nn, name)(6, 5, **{**settings, **more})


def compiled(model: object, **options: object) -> object:
    settings = {"platform": "cpu", **options}
    return torch.compile(model, backend="xladev", fullgraph=True, options=settings)


def flat(results: object) -> list[object]:
    sequence, state = results
    return [sequence, *(state if isinstance(state, tuple) else (state,))]


@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_are_eagers(kind: str) -> None:
    model = made(kind)
    other = copy.deepcopy(model)
    x = torch.randn(3, 4, 6)
    xs = [x.clone().requires_grad_() for _ in range(2)]
    results = [flat(each(x)) for each, x in zip((compiled(model), other), xs, strict=True)]
    for each in results:
        sum((r * torch.linspace(-1, 1, r.shape[-1])).sum() for r in each).backward()
    found, wanted = (
        [*r, x.grad, *(p.grad for p in m.parameters())]
        for r, x, m in zip(results, xs, (model, other), strict=True)
    )
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=2e-6)
    assert [record.kind for record in records.compiled_graphs()] == ["forward", "backward"]
    assert not records.fallbacks()


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_a_program_is_no_longer_for_more_steps(kind: str) -> None:
    model, counts = made(kind, batch_first=True), []
    for length in (4, 40):
        torch._dynamo.reset()
        records.forget()
        compiled(model)(torch.randn(3, length, 6))
        (record,) = records.compiled_graphs()
        counts.append(record.operators.total())
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", ["lstm", "gru", "relu"])
def test_losses_of_training_are_eagers(kind: str) -> None:
    model, x = made(kind), torch.randn(5, 7, 6)
    other = copy.deepcopy(model)
    losses = []
    for own, run in ((model, compiled(model)), (other, other)):
        optimizer = torch.optim.AdamW(own.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(20):
            optimizer.zero_grad()
            loss = (run(x)[0] - 0.5).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert max(abs(a - b) for a, b in zip(*losses, strict=True)) < 1e-5
    assert losses[0][-1] < losses[0][0]
    assert not records.fallbacks()


def test_given_states_inputs_without_batch_and_inference() -> None:
    model = made("lstm")
    states = tuple(torch.randn(4, 5) for _ in range(2))
    x = torch.randn(4, 6)
    with torch.no_grad():
        found, wanted = (each(x, states) for each in (compiled(model), model))
    torch.testing.assert_close(flat(found), flat(wanted))
    assert not records.fallbacks()


def test_narrow_floats_and_another_platform() -> None:
    model = made("gru", dtype=torch.bfloat16)
    x = torch.randn(3, 4, 6, dtype=torch.bfloat16)
    with torch.no_grad():
        found, wanted = (each(x)[0] for each in (compiled(model, platform="template_npu"), model))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_dropout_between_layers_drops(kind: str) -> None:
    model = made(kind, num_layers=2, dropout=0.5)
    run = compiled(model)
    x = torch.randn(3, 4, 6)
    assert not torch.equal(run(x)[0], run(x)[0])
    model.eval()
    torch.testing.assert_close(flat(run(x)), flat(model(x)))


def test_dropout_keeps_as_many_as_eager_does() -> None:
    model = torch.nn.RNN(2, 400, 2, dropout=0.25, nonlinearity="relu")
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.bias_ih_l0.fill_(1)
        model.weight_ih_l1.copy_(torch.eye(400))
    sequence, _ = compiled(model)(torch.zeros(3, 4, 2))
    assert sequence.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert 0.7 < float((sequence > 0).float().mean()) < 0.8


def test_packed_sequences_run_in_torch_with_dynamos_reason() -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    model = made("lstm one layer")
    lengths = torch.tensor([2, 4, 3])
    x = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(4, 3, 6), lengths, enforce_sorted=False)
    run = torch.compile(model, backend="xladev", options={"platform": "cpu"})
    torch.testing.assert_close(run(x)[0].data, model(x)[0].data)
    assert any("Data dependent" in reason for reason in counters["graph_break"])


def test_other_backends_still_break_there() -> None:
    compiled(made("gru"))(torch.randn(3, 4, 6))
    model = torch.compile(made("gru"), backend="aot_eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="RNN, GRU, or LSTM"):
        model(torch.randn(3, 4, 6))


def test_an_exported_program_holds_a_loop() -> None:
    model = made("lstm").eval()
    x = torch.randn(3, 9, 6)
    program = torch.export.export(model, (x,))
    opcodes = [i.op.name for i in exported_module(program).entry.instructions]
    assert opcodes.count("while") == 4  # two layers in two directions
    torch.testing.assert_close(flat(compile_exported(program, "cpu")(x)), flat(model(x)))
