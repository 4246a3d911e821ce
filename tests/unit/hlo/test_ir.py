"""A program as Python shows it."""

from xladev.hlo.text import parse_module


def test_what_python_shows_of_a_program_is_one_line() -> None:
    module = parse_module(r"""HloModule %"a\nb"
ENTRY %"c\nd" { %"p\nq" = f32[] parameter(0)  ROOT %"r\ns" = f32[] negate(%"p\nq") }""")
    assert repr(module) == r"<module a\nb, 2 instructions>"
    assert repr(module.entry) == r"<computation c\nd, 2 instructions>"
    assert repr(module.entry.root) == r"<r\ns = f32[] negate(p\nq)>"
