"""Changing one place of a tree, naming it, planting it, and what a fork reports."""

from __future__ import annotations

import ast
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.mutants import server, test_mechanical
from tests.mutants.campaign import Verdict
from tests.mutants.changes import changes
from tests.mutants.results import Entry, current
from tests.mutants.sites import (
    COUNT,
    FAMILIES,
    ROOT,
    Site,
    drawn,
    family,
    find,
    mutated,
    plant,
    sites_of,
    target_files,
)
from xladev.testing.worker import Worker

SOURCE = '''
"""A docstring of 1 line."""
LIMIT: "2" = 3

def half(x: int = 4) -> int:
    if x < 5 and not odd(x):
        raise ValueError("6")
    return b.fadd(x // 7, "slt") + sum(y for y in x if y)
'''


def variants(source: str) -> dict[str, list[str]]:
    """Sources with one change each, by kind."""
    found: dict[str, list[str]] = {}
    count = len(list(changes(ast.parse(source))))
    for number in range(count):
        tree = ast.parse(source)
        change = list(changes(tree))[number]
        change.make()
        found.setdefault(change.kind, []).append(ast.unparse(tree))
    return found


def test_every_kind_of_change() -> None:
    found = {kind: "\n".join(texts) for kind, texts in variants(SOURCE).items()}
    assert {k: len(v) for k, v in variants(SOURCE).items()} == {
        "constant": 9, "condition": 2, "logic": 2, "comparison": 1, "name": 1, "operator": 2,
    }  # fmt: skip
    assert "LIMIT: '2' = 4" in found["constant"] and "'sle'" in found["constant"]
    assert "b.fsub(" in found["name"]
    assert "x <= 5" in found["comparison"]
    assert "if not y" in found["condition"] and "if not (x < 5" in found["condition"]
    assert "x < 5 or not odd(x)" in found["logic"] and "and odd(x)" in found["logic"]
    assert "x * 7" in found["operator"] and ") - sum(" in found["operator"]


def test_texts_annotations_and_docstrings_stay() -> None:
    everything = "\n".join(t for texts in variants(SOURCE).values() for t in texts)
    assert "ValueError('7')" not in everything and "LIMIT: '3'" not in everything
    assert everything.count("A docstring of 1 line") == everything.count("LIMIT")


def test_each_variant_differs_by_itself() -> None:
    texts = [t for texts in variants(SOURCE).values() for t in texts]
    assert len(set(texts)) == len(texts)
    assert ast.unparse(ast.parse(SOURCE)) not in texts


def test_the_draw_is_fixed_and_balanced() -> None:
    sites = drawn()
    assert sites == drawn() and len({s.id for s in sites}) == COUNT
    for kinds in FAMILIES:
        assert sum(s.kind in kinds for s in sites) == COUNT // len(FAMILIES)


def alone() -> Site:
    """The first mutant of the draw that no other one of its scope reads like."""

    def text(site: Site) -> tuple[str, ...]:
        return (site.scope, site.kind, site.before, site.after)

    return next(
        site
        for site in drawn()
        if [text(other) for other in sites_of(ROOT / site.file)].count(text(site)) == 1
    )


def test_a_site_is_found_again_unless_its_source_changed() -> None:
    site = alone()
    assert find(replace(site, line=0)) == site
    assert find(replace(site, before="something else")) is None
    assert find(replace(site, number=10**6)) == replace(site, number=10**6), "the only one like it"
    assert mutated(replace(site, number=10**6)) == mutated(site)
    with pytest.raises(LookupError, match="something else"):
        mutated(replace(site, before="something else"))


@pytest.mark.long
def test_every_file_has_sites_that_compile() -> None:
    for path in target_files():
        for site in sites_of(path)[:2]:
            assert mutated(site).co_filename == str(path)


def test_no_mutant_is_drawn_where_no_server_would_run_it() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in target_files()}
    assert "xladev/codegen/elemental/reduction.py" in files
    assert not [name for name in files if "/simt/" in name]


def test_a_mutant_on_record_whose_source_is_gone_fails() -> None:
    """Its test must not be skipped, and the worker is not asked for anything."""
    lost = Entry(replace(drawn()[0], scope="nowhere"), Verdict("caught", "a::case"))
    with pytest.raises(AssertionError, match="nowhere.*draw another of its family"):
        test_mechanical.test_it_is_still_caught(lost, Worker("nothing:serves"))


def test_for_a_mutant_whose_source_is_gone_comes_one_of_its_family() -> None:
    kept, lost, *_ = drawn()
    found = current([Entry(replace(lost, scope="nowhere")), Entry(kept)])
    assert len({e.site.id for e in found}) == COUNT
    assert [e.site for e in found[:2]] != [kept, lost]
    assert family(found[1].site) == family(lost)


def test_a_module_that_is_imported_cannot_be_mutated(monkeypatch: pytest.MonkeyPatch) -> None:
    site = drawn()[0]
    monkeypatch.setitem(sys.modules, site.module, sys)
    with pytest.raises(ImportError, match="imported already"):
        plant(site)


def _crash() -> Iterator[dict[str, object]]:
    yield {"start": "a"}
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> Iterator[dict[str, object]]:
    yield {"start": "b"}
    while True:
        pass


def _raise() -> Iterator[dict[str, object]]:
    yield {"start": "c"}
    raise ArithmeticError(textwrap.shorten("no", 10))


@pytest.mark.parametrize(
    ("work", "end", "case"),
    [(_crash, "crashed (-9)", "a"), (_hang, "hung", "b"), (_raise, "raised", "c")],
)
def test_a_fork_that_dies_costs_itself(
    work: Callable[[], Iterator[dict[str, object]]], end: str, case: str
) -> None:
    results, found = server._in_fork(work, 0.5)
    assert found == end
    assert results == [{"start": case}]
