"""`jax.profiler` sees what xladev compiles and runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.tools.jax_child import run_jax
from xladev.frontends.jax.profiler import ProfilerSession
from xladev.profiling.timeline.xspace import DEVICE_PLANE, HOST_PLANE

pytestmark = pytest.mark.long

_SETTING = """
import glob, gzip, json, sys
def planes_of(folder):
    (path,) = glob.glob(folder + '/**/*.xplane.pb', recursive=True)
    data = jax.profiler.ProfileData.from_file(path)
    found = {}
    for plane in data.planes:
        lines = found.setdefault(plane.name, {})
        for line in plane.lines:  # threads may have one name
            lines.setdefault(line.name, []).extend(line.events)
    return found
def ours(planes):
    return [n for n in planes if n.startswith('/device:CUSTOM:')] + [
        line for line in planes['/host:CPU'] if line.startswith('xladev')]
folder = FOLDER
compiled_before = jax.jit(lambda x: jnp.tanh(x @ x).sum(0))
x = jnp.ones((64, 64))
compiled_before(x).block_until_ready()
"""

_TRACED = """
with jax.profiler.trace(folder, create_perfetto_trace=True):
    for _ in range(3):
        compiled_before(x).block_until_ready()
    jax.jit(lambda x: x * 2 + 1)(x).block_until_ready()
planes = planes_of(folder)
device = planes['/device:CUSTOM:' + PLATFORM + ':0']
names = [event.name for event in device['XLA Modules']]
assert names == ['jit__lambda'] * 4, names
kernels = device['XLA Ops']
assert sum(event.name.startswith('dot_general') for event in kernels) == 3, kernels
facts = dict(kernels[0].stats)
assert facts['flops'] == 2 * 64**3 and facts['hlo_module'] == 'jit__lambda', facts
assert 'dot_general' in facts['tf_op'] and facts['source'].startswith('<string>'), facts
host = {event.name for name, line in planes['/host:CPU'].items() for event in line
        if name.startswith('xladev')}
assert {'compile: jit__lambda', 'launch: jit__lambda', 'pass: cse'} <= host, host
calls = [event for line in planes['/host:CPU'].values() for event in line
         if event.name.startswith('PjitFunction')]
first = device['XLA Modules'][0]
begin = min(event.start_ns for event in calls)
end = max(event.start_ns + event.duration_ns for event in calls) + 1e9
assert begin <= first.start_ns < first.start_ns + first.duration_ns <= end
(path,) = glob.glob(folder + '/**/perfetto_trace.json.gz', recursive=True)
events = json.load(gzip.open(path))['traceEvents']
shown = {e['args']['name'] for e in events if e.get('name') == 'process_name'}
assert '/device:CUSTOM:' + PLATFORM + ':0' in shown, shown
assert sum(e['name'].startswith('dot_general') for e in events if e.get('ph') == 'X') == 3
"""


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_programs_kernels_and_compilations_are_seen(platform: str, tmp_path: Path) -> None:
    """Once each, although the library is registered under several names."""
    begin = f"FOLDER, PLATFORM = {str(tmp_path)!r}, {platform!r}\n"
    run_jax(begin + _SETTING + _TRACED, platform)


def test_sessions_follow_one_another_and_may_leave_out_the_host(tmp_path: Path) -> None:
    run_jax(
        f"FOLDER = {str(tmp_path)!r}\n"
        + _SETTING
        + """
big = jnp.ones((200, 200))
longer = jax.jit(lambda x: x @ x)
longer(big).block_until_ready()
for level in (0, 2):
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = level, 0
    where = f'{folder}/{level}'
    with jax.profiler.trace(where, profiler_options=options):
        compiled_before(x).block_until_ready()
        longer(big).block_until_ready()
    host = ['xladev: MainThread', 'xladev: worker of xladev_cpu:0'] if level else []
    seen = ours(planes_of(where))
    assert sorted(seen) == ['/device:CUSTOM:xladev_cpu:0', *host], seen
"""
    )


HOST_ONLY, DEVICES_ONLY, FULL = b"\x10\x02", b"\x18\x01", b"\x10\x02\x18\x01\x52\x01a"
"""Serialized ProfileOptions; the last with a text between numbers."""


@pytest.mark.parametrize(
    ("options", "host", "devices"),
    [(HOST_ONLY, True, False), (DEVICES_ONLY, False, True), (FULL, True, True), (b"", True, True)],
)
def test_levels_choose_planes(options: bytes, host: bool, devices: bool) -> None:
    text = "HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT y = f32[] add(x, x) }"
    program = xladev.compile(text.encode(), "cpu")
    session, other = ProfilerSession(options), ProfilerSession(options)
    program(np.float32(1)).numpy()
    assert other.stop() == b"", "one of them has it all"
    data = session.stop()
    assert (HOST_PLANE.encode() in data, DEVICE_PLANE.encode() in data) == (host, devices)
    assert session.stop() == b""


def test_a_process_that_opened_no_platform_of_xladev_is_left_alone(tmp_path: Path) -> None:
    """Its profiler knows the library, which has nothing to tell and asks no Python."""
    run_jax(
        f"FOLDER = {str(tmp_path)!r}\n"
        + _SETTING
        + """
with jax.profiler.trace(folder):
    compiled_before(x).block_until_ready()
assert ours(planes_of(folder)) == []
assert 'xladev.frontends.jax.engine' not in sys.modules
""",
        "cpu",
    )
