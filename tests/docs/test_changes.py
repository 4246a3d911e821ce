"""Changelog fragments are named TOPIC.KIND.md and say something."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "changes"
NAME = re.compile(r"[a-z0-9-]+\.(feature|fix|change|removal)\.md|README\.md")


def test_fragments_are_named_by_topic_and_kind() -> None:
    assert [p.name for p in FOLDER.iterdir() if not NAME.fullmatch(p.name)] == []


def test_fragments_are_one_or_two_sentences() -> None:
    texts = {p.name: p.read_text("utf-8").strip() for p in FOLDER.glob("*.*.md")}
    assert texts
    assert [name for name, text in texts.items() if not text.endswith(".") or len(text) > 400] == []
