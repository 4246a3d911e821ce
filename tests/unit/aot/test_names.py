import pytest

import xladev
from xladev.aot.names import (
    all_different,
    check_program_name,
    identifier,
    parameter_name,
    program_name,
)
from xladev.errors import UsageError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("W.1", "W_1"),
        ("params['dense']['kernel']", "params_dense_kernel"),
        ("3x", "v3x"),
        ("日", "value"),
        ("_private__thing_", "private_thing"),
    ],
)
def test_identifier(text: str, name: str) -> None:
    assert identifier(text) == name


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a__b", "int", "_a", "main", "c", "m"])
def test_refuses_names_that_c_or_cpp_keep(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be named"):
        check_program_name(name)


@pytest.mark.parametrize("name", ["", "main", "int", "c", "a/b", "é"])
def test_the_hint_is_a_name_that_is_allowed(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_program_name(name)
    assert check_program_name(program_name(name)) in str(caught.value)


def test_a_parameter_without_a_name_is_called_as_its_op() -> None:
    text = """
    ENTRY e {
      Arg_0.1 = f32[] parameter(0), metadata={op_name="state['step']"}
      w.2 = f32[] parameter(1), metadata={op_name="other"}
      arg2.3 = f32[] parameter(2), metadata={op_name="XLA_Args"}
      ROOT t = (f32[], f32[], f32[]) tuple(Arg_0.1, w.2, arg2.3)
    }"""
    parameters = xladev.parse(text).entry.parameters
    assert [parameter_name(p) for p in parameters] == ["state_step", "w", "arg2"]


def test_names_differ_in_more_than_case() -> None:
    assert all_different(["w", "W", "w"], [False, True, False]) == ("w_2", "W", "w_3")


def test_two_names_that_the_user_chose_must_differ() -> None:
    with pytest.raises(UsageError, match="two values are named 'X'"):
        all_different(["x", "X"], [True, True])
