"""`xladev doctor`: every plugin, what it brought, and what is wrong, with tracebacks."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from xladev.cli.output import print_json
from xladev.frontends.tensorflow.diagnosis import TensorFlowDiagnosis, diagnose_tensorflow
from xladev.frontends.torch.version import TESTED, is_tested
from xladev.runtime.plugins.diagnosis import Diagnosis, PlatformDiagnosis, PluginDiagnosis, diagnose
from xladev.runtime.registry import current_registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    found = diagnose(current_registry())
    tensorflow = diagnose_tensorflow()
    if arguments.json:
        told = {"tensorflow": asdict(tensorflow)} if tensorflow else {}
        print_json(found.to_json() | told)
    else:
        _print(found, tensorflow)
    return 0 if found.is_healthy else 1


def _print(found: Diagnosis, tensorflow: TensorFlowDiagnosis | None) -> None:
    print(f"contract     {'.'.join(map(str, found.contract))}")
    for name, version in found.versions.items():
        print(f"{name:12} {version}{_remark(name, version)}")
    print()
    for plugin in found.plugins:
        _print_plugin(plugin)
    for name, plugins in found.clashes.items():
        print(f"platform {name} belongs to nobody: claimed by {', '.join(plugins)}")
    print()
    for platform in found.platforms:
        _print_platform(platform)
    if tensorflow:
        _print_tensorflow(tensorflow)
    print("healthy" if found.is_healthy else "NOT healthy: see the failures above")


def _print_tensorflow(found: TensorFlowDiagnosis) -> None:
    if found.devices:
        print(f"TensorFlow {found.version}: sees {found.devices} of {found.device_type}")
        return
    print(f"TensorFlow {found.version}: does not see {found.device_type}")
    print(f"  why: {found.why}\n  next: {found.hint}")


def _remark(package: str, version: str) -> str:
    """What is to be said of an optional package."""
    if package != "torch" or version == "not installed":
        return ""
    if is_tested(version):
        return ' (torch.compile(model, backend="xladev") works)'
    return f" (xladev's front end for PyTorch takes {TESTED} alone)"


def _print_plugin(plugin: PluginDiagnosis) -> None:
    offers = ", ".join(plugin.platforms) or "no platform"
    print(f"plugin {plugin.name}: {plugin.state}, {offers} ({plugin.distribution})")
    if plugin.error:
        print(_indented(plugin.error))
    if plugin.traceback:
        print(_indented(plugin.traceback))


def _print_platform(platform: PlatformDiagnosis) -> None:
    api = ".".join(map(str, platform.api))
    driver = f", driver {platform.driver}" if platform.driver else ""
    default = ", default" if platform.is_default else ""
    print(
        f"platform {platform.name}: kind {platform.kind}, priority {platform.priority}, "
        f"contract {api}, tier {platform.tier or 'unknown'}{driver}{default}"
    )
    for device in platform.devices:
        print(f"  {device.name}: {device.error or device.description} {device.target}".rstrip())
    for library in platform.libraries:
        print(f"  {library}")
    if not platform.devices:
        print("  no visible device")
    for failure in platform.failures:
        print(f"  FAILED in {failure.function}: {failure.error}")
        print(_indented(failure.traceback))


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.rstrip().splitlines())
