"""Factor rules in Shardy's text: ``#sdy.op_sharding_rule<([i, j])->([i]) {i=4, j=8} ...>``.

Source: the attribute OpShardingRuleAttr of Shardy's `shardy/dialect/sdy/ir/attrs.td`.
"""

from __future__ import annotations

import re

from xladev.errors import ParseError
from xladev.hlo.sharding.factors import FactorKind, FactorRule, Tensor

_RULE = re.compile(
    r"#sdy\.op_sharding_rule<\((?P<ins>.*?)\)->\((?P<outs>.*?)\)"
    r"(?: \{(?P<sizes>.*?)\}(?P<rest>.*))?>"
)
_TENSOR = re.compile(r"\[([^\]]*)\]")
_FACTOR = re.compile(r"z_\d+|[a-z]")
_LISTED = re.compile(r"(\w+)=\{([^}]*)\}")
_KINDS = {
    "reduction": FactorKind.REDUCE,
    "need_replication": FactorKind.WHOLE,
    "permutation": FactorKind.MOVE,
}
_BLOCKED = "blocked_propagation"


def read_rule(text: str) -> FactorRule:
    """The rule in a text.

    Raises:
        ParseError: it is no rule.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ParseError("no sharding rule", where=text, why="it is #sdy.op_sharding_rule<...>")
    pairs = [part.split("=") for part in (found["sizes"] or "").replace(" ", "").split(",") if part]
    numbers = {name: n for n, (name, _) in enumerate(pairs)}
    listed = {
        name: [numbers[f] for f in _FACTOR.findall(factors)]
        for name, factors in _LISTED.findall(found["rest"] or "")
    }
    kinds = [FactorKind.PASS] * len(pairs)
    for name, kind in _KINDS.items():
        for factor in listed.get(name, ()):
            kinds[factor] = kind
    return FactorRule(
        tuple(int(size) for _, size in pairs),
        _tensors(found["ins"], numbers),
        _tensors(found["outs"], numbers),
        tuple(kinds),
        frozenset(listed.get(_BLOCKED, ())),
    )


def _tensors(text: str, numbers: dict[str, int]) -> tuple[Tensor, ...]:
    return tuple(
        tuple(
            tuple(numbers[f] for f in _FACTOR.findall(dim))
            for dim in (inside.split(",") if inside else ())
        )
        for inside in _TENSOR.findall(text)
    )
