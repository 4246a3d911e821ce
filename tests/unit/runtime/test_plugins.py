"""Loading plugins: each on its own, whatever the others do."""

import logging
from importlib.metadata import EntryPoint

import pytest

from xladev.runtime.hookspecs import CONTRACT_VERSION, ENTRY_POINT_GROUP
from xladev.runtime.plugins import installed_plugins, load_plugins

SAMPLES = "tests.unit.runtime.plugin_samples"


def entry(name, target=None):
    return EntryPoint(name, target or f"{SAMPLES}:{name}", ENTRY_POINT_GROUP)


def load(*entries, setting=""):
    loaded = load_plugins(lambda: entries, {"XLADEV_PLUGINS": setting})
    return {plugin.name: plugin for plugin in loaded}


MISBEHAVING = [
    ("import", "tests.unit.runtime.raises_at_import", "libnull.so.7"),
    ("absent", "tests.unit.runtime.no_such_module", "no_such_module"),
    ("absent_attribute", f"{SAMPLES}:nowhere", "nowhere"),
    ("raises", None, "no licence"),
    ("exits", None, "raised SystemExit in xladev_platforms"),
    ("returns_text", None, "returned str from xladev_platforms"),
    ("bad_name", None, "lower-case words"),
    ("no_hook", None, "implements no hook"),
    ("wrong_signature", None, "device"),
    ("unknown_hook", None, "xladev_devices"),
    ("old_major", None, "speaks contract 0.9"),
    ("new_major", None, "speaks contract 2.0"),
]


@pytest.mark.parametrize(("name", "target", "message"), MISBEHAVING, ids=lambda v: str(v)[:20])
def test_a_misbehaving_plugin_is_reported_and_breaks_no_other(name, target, message, caplog):
    caplog.set_level(logging.WARNING, "xladev.plugin")
    plugins = load(entry(name, target), entry("good"), entry("other"))
    bad = plugins[name]
    assert message in str(bad.error)
    assert message in bad.traceback
    assert bad.specs == ()
    assert name in caplog.text
    assert [s.name for n in ("good", "other") for s in plugins[n].specs] == ["good", "other"]


def test_both_versions_are_named():
    text = str(load(entry("old_major"))["old_major"].error)
    assert "0.9" in text
    assert f"{CONTRACT_VERSION[0]}.{CONTRACT_VERSION[1]}" in text


def test_a_newer_minor_is_accepted():
    assert load(entry("new_minor"))["new_minor"].specs[0].api == (1, 7)


def test_a_plugin_may_offer_several_platforms_or_none():
    plugins = load(entry("twins"), entry("returns_none"))
    assert [s.name for s in plugins["twins"].specs] == ["twin_a", "twin_b"]
    assert plugins["returns_none"].specs == ()
    assert plugins["returns_none"].error is None


@pytest.mark.parametrize(
    ("setting", "loaded"),
    [
        ("", {"good", "other", "twins"}),
        ("good", {"good"}),
        ("good, TWINS", {"good", "twins"}),
        ("-good", {"other", "twins"}),
        ("good,-good", set()),
        ("good,other,-other", {"good"}),
        (" , ", {"good", "other", "twins"}),
    ],
)
def test_allow_and_deny(setting, loaded):
    plugins = load(entry("good"), entry("other"), entry("twins"), setting=setting)
    assert {n for n, p in plugins.items() if p.specs} == loaded
    assert {n for n, p in plugins.items() if p.left_out} == plugins.keys() - loaded


def test_a_plugin_left_out_is_not_imported():
    plugins = load(entry("import", "tests.unit.runtime.raises_at_import"), setting="-import")
    assert plugins["import"].error is None


def test_an_unknown_name_in_the_setting_is_warned_about(caplog):
    load(entry("good"), setting="-nvidia")
    assert "'nvidia', which is not installed (good are)" in caplog.text


def test_built_in_platforms_arrive_by_entry_point():
    names = {e.name for e in installed_plugins()}
    assert {"cpu", "interpreter"} <= names
