"""The operators of one recurrent layer: torch's own checks of operators, and their kernels."""

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch import recurrent_steps as steps

STEPS, BATCH, SIZE, PROJECTED = 3, 2, 4, 3


def rand(*dims: int) -> object:
    return torch.randn(*dims, dtype=torch.float64, requires_grad=True)


def arguments(kind: str, *, back: bool) -> tuple[object, list[object]]:
    """An operator and its arguments."""
    torch.manual_seed(0)
    x = {n: rand(STEPS, BATCH, n * SIZE) for n in (1, 3, 4)}
    h = rand(BATCH, SIZE)
    c, narrow = rand(BATCH, SIZE), rand(BATCH, PROJECTED)
    projection = rand(PROJECTED, SIZE)
    return {
        "lstm": (steps.lstm_steps, [x[4], h, c, rand(4 * SIZE, SIZE), None, back]),
        "projected": (
            steps.lstm_steps, [x[4], narrow, c, rand(4 * SIZE, PROJECTED), projection, back]
        ),
        "gru": (steps.gru_steps, [x[3], h, rand(3 * SIZE, SIZE), rand(3 * SIZE), back]),
        "gru bare": (steps.gru_steps, [x[3], h, rand(3 * SIZE, SIZE), None, back]),
        "tanh": (steps.rnn_steps, [x[1], h, rand(SIZE, SIZE), False, back]),
        "relu": (steps.rnn_steps, [x[1], h, rand(SIZE, SIZE), True, back]),
    }[kind]  # fmt: skip


KINDS = ("lstm", "projected", "gru", "gru bare", "tanh", "relu")


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind: str, back: bool) -> None:
    operator, given = arguments(kind, back=back)
    wanted = 3 if operator is steps.lstm_steps else 2  # behind them: what the gradient keeps
    tensors = [each for each in given if isinstance(each, torch.Tensor)]

    def function(*taken: object) -> object:
        left = iter(taken)
        full = [next(left) if isinstance(each, torch.Tensor) else each for each in given]
        return operator(*full)[:wanted]

    assert torch.autograd.gradcheck(function, tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_accepts_the_operator(kind: str) -> None:
    operator, given = arguments(kind, back=False)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(operator, given, test_utils=checks)
