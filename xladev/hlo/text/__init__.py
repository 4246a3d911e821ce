"""HLO text: `parser.parse_module` reads it, `printer.print_module` writes it."""

from xladev.hlo.text.parser import parse_module, parse_shape

__all__ = ["parse_module", "parse_shape"]
