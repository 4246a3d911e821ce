"""Domains disappear."""

from tests.unit.passes.checks import opcodes, run
from xladev.passes.domain_remover import DomainRemover


def test_domains_become_their_operands() -> None:
    module = run(
        DomainRemover(),
        """
        HloModule m
        ENTRY e { x = f32[2] parameter(0)
          d = f32[2] domain(x), domain={kind="sharding", entry={maximal device=0},
            exit={maximal device=1}}
          ROOT r = f32[2] negate(d) }
        """,
    )
    assert opcodes(module) == {"parameter", "negate"}
