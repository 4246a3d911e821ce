"""Loading plugins: each on its own, whatever the others do."""

import logging
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from xladev.errors import PluginError
from xladev.runtime.hookspecs import CONTRACT_VERSION, ENTRY_POINT_GROUP
from xladev.runtime.plugins.loading import SHIPPED, installed_plugins, load_plugins

ROOT = Path(__file__).parents[4]

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


ENDINGS = ["GeneratorExit", "SystemExit", "CancelledError", "BaseException", "BaseExceptionGroup",
           "MemoryError", "RecursionError", "Unprintable"]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_an_import_ends_others_are_loaded(ending):
    plugins = load(entry("bad", f"tests.unit.runtime.raises_when_loaded:{ending}"), entry("good"))
    error = plugins["bad"].error
    assert type(error) is PluginError
    assert f"plugin 'bad' raised {ending} in import" in str(error)
    assert "doctor" in error.hint
    assert "raises_when_loaded.py" in plugins["bad"].traceback
    assert plugins["good"].specs


def test_ctrl_c_within_an_import_is_the_users():
    with pytest.raises(KeyboardInterrupt):
        load(entry("bad", "tests.unit.runtime.raises_when_loaded:KeyboardInterrupt"))


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_name_of_a_platform_that_ships_is_nobody_elses(name):
    plugins = load(entry("thief", f"{SAMPLES}:claims_{name}"), entry("good"))
    thief = plugins["thief"]
    assert f"claims platform name '{name}'" in str(thief.error)
    assert "ships with xladev" in thief.error.why
    assert thief.specs == ()
    assert plugins["good"].specs


def test_what_ships_is_what_the_distributions_bring():
    """Each platform that an entry point of the sources brings, and no other, is in the table."""
    table = {}
    for file in ("pyproject.toml", "packaging/xladev-cuda/pyproject.toml"):
        project = tomllib.loads((ROOT / file).read_text())["project"]
        table.update(project["entry-points"]["xladev.platforms"])
    found = load(*(EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in table.items()))
    brought = {spec.name: found[name].target for name in table for spec in found[name].specs}
    assert brought == dict(SHIPPED)


def test_one_distribution_with_damaged_metadata_hides_no_other(tmp_path, monkeypatch, caplog):
    for name, text in (("whole", "whole = a.module"), ("damaged", "no equals sign")):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = list(installed_plugins())
    assert {"whole", "cpu", "interpreter"} <= {e.name for e in found}
    assert "damaged-1.0" in caplog.text
    (whole,) = load_plugins(lambda: [e for e in found if e.name == "whole"], {})
    assert "a" in whole.error.why  # its import failed; that its METADATA is missing is no matter


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
