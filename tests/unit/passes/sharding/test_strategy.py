"""Strategies look at a member again only after it grew."""

from __future__ import annotations

import pytest

from tests.unit.passes.sharding.test_propagate import X, program, texts
from xladev.passes.sharding import strategy


def test_members_are_projected_once_and_after_each_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    projected = 0
    project = strategy.project

    def counted(*arguments: object) -> object:
        nonlocal projected
        projected += 1
        return project(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(strategy, "project", counted)
    length = 40
    lines = [f"v0 = f32[8,8] parameter(0){X}"]
    lines += [f"v{n + 1} = f32[8,8] negate(v{n})" for n in range(length)]
    lines[-1] = "ROOT " + lines[-1]
    parameters, results = texts(program("\n".join(lines)))
    assert (parameters, results) == (['[{"x"}, {}]'], ['[{"x"}, {}]'])
    assert length <= projected <= 4 * length  # two members of each edge, one of which grows once
