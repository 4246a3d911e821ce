"""Executions on several devices: threads, collectives, failures, no crosswise waiting."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.runtime.null_device import (
    F32_4,
    Driver,
    Executor2,
    Platform1,
    add_executable,
    null_spec,
)
from xladev.compiler.signature import Signature
from xladev.errors import ArgumentError, ExecutionError, PluginError
from xladev.hlo.shape import tuple_of
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.collectives.launch_collectives import Collectives, CommunicatorPool
from xladev.runtime.collectives.replicas import LaunchThreads, ReplicatedLaunchable
from xladev.runtime.communicator import Participant
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.loaded_executable import LoadedExecutable
from xladev.runtime.registry import Registry

A = np.arange(4, dtype=np.float32)
SIGNATURE = add_executable().signature


class SumOverAll(LoadedExecutable):
    """result = all-reduce(argument 0) + argument 1, recording threads and contexts."""

    def __init__(self):
        self.seen = []
        self.fault = None

    def launch(self, stream, context):
        self.seen.append((threading.current_thread().name, context))
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        collectives = context.communicator
        group, rank = collectives.group(range(collectives.pool.size))
        who = Participant(rank, stream, context.run_id, "sum")
        group.all_reduce(who, context.arguments[0], context.results[0], F32_4, "add")


@pytest.fixture(params=[2, 4], ids=["synchronous", "asynchronous"])
def registered(request):
    driver = Driver(device_count=4)
    return Registry(find=lambda: ()).register(null_spec(driver, tier=request.param, name="many"))


def replicated(registered, loaded, count=4, partitions=1):
    programs = [Launchable(registered.device(i), SIGNATURE, loaded) for i in range(count)]
    return ReplicatedLaunchable(registered.platform, programs, partitions)


def arguments(count=4):
    return [[A + i, A] for i in range(count)]


def test_replicas_run_side_by_side_and_exchange_data(registered):
    loaded = SumOverAll()
    results = replicated(registered, loaded).execute(arguments())
    for (result,) in results:
        np.testing.assert_array_equal(result.numpy(), 4 * A + 6)
    threads, contexts = zip(*loaded.seen, strict=True)
    assert set(threads) == {f"xladev-launch-many:{i}" for i in range(4)}
    assert {c.replica for c in contexts} == {0, 1, 2, 3}
    assert len({c.run_id for c in contexts}) == 1


def test_partitions_are_numbered_within_replicas(registered):
    loaded = SumOverAll()
    replicated(registered, loaded, partitions=2).execute(arguments())
    assert {(c.replica, c.partition) for _, c in loaded.seen} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_results_have_one_event(registered):
    results = replicated(registered, SumOverAll()).execute(arguments())
    assert len({id(a.event) for (a,) in results}) == 1


def test_a_failing_replica_fails_all_quickly_with_the_root_cause(registered):
    loaded = SumOverAll()
    program = replicated(registered, loaded)
    loaded.fault = ValueError("replica broke")
    for (result,) in program.execute(arguments()):
        with pytest.raises(ExecutionError, match="execution of add failed") as info:
            result.numpy()
        assert "replica broke" in info.value.why
    for (result,) in program.execute(arguments()):
        np.testing.assert_array_equal(result.numpy(), 4 * A + 6)


class Silent(SumOverAll):
    """As `SumOverAll`, without a result of its own."""

    def launch(self, stream, context):
        super().launch(stream, replace(context, results=context.arguments[1:]))


@pytest.mark.parametrize("failing", range(4))
def test_a_failure_without_results_is_raised_with_the_root_cause(registered, failing):
    class Failing(Silent):
        def launch(self, stream, context):
            if context.replica == failing:
                raise ValueError("replica broke")
            super().launch(stream, context)

    signature = Signature("silent", "many", (F32_4, F32_4), tuple_of())
    programs = [Launchable(registered.device(i), signature, Failing()) for i in range(4)]
    with pytest.raises(ExecutionError, match="execution of silent failed") as info:
        ReplicatedLaunchable(registered.platform, programs).execute(arguments())
    assert "replica broke" in info.value.why


def test_a_bad_argument_of_one_replica_gives_up_the_others(registered):
    program = replicated(registered, SumOverAll())
    with pytest.raises(ArgumentError, match="takes 2 arrays"):
        program.execute([*arguments(3), [A]])
    assert len(program.execute(arguments())) == 4


def test_what_peers_of_a_bad_argument_were_told_is_not_logged(registered, caplog):
    program = replicated(registered, SumOverAll())
    with pytest.raises(ArgumentError):
        program.execute([(A, A), (A, A), (A,), (A, A)])
    for launchable in program._launchables:
        launchable.device.synchronize()
    gc.collect()
    assert [r.getMessage() for r in caplog.records if "nobody read" in r.getMessage()] == []


def test_executions_from_many_threads_never_wait_crosswise(registered):
    programs = [replicated(registered, SumOverAll()) for _ in range(3)]
    wrong = []

    def work(program):
        for _ in range(10):
            for (result,) in program.execute(arguments()):
                if not np.array_equal(result.numpy(), 4 * A + 6):
                    wrong.append(result)

    with ThreadPoolExecutor(6) as threads:
        done = [threads.submit(work, p) for p in programs for _ in range(2)]
        for future in done:
            future.result(60)
    assert wrong == []


def test_executions_are_queued_on_all_devices_in_one_step():
    """While one execution is half queued, another one must not slip in between."""
    order, half_queued, other_tried = [], threading.Event(), threading.Event()

    class Slow(LaunchThreads):
        def _queue(self, device):
            order.append((threading.current_thread().name, device))
            if threading.current_thread().name == "first" and device == "a":
                half_queued.set()
                other_tried.wait(0.2)
            return super()._queue(device)

    threads = Slow()

    def run(devices):
        threads.run_together(devices, [lambda: None] * 2)
        other_tried.set()

    first = threading.Thread(target=run, args=(["a", "b"],), name="first")
    second = threading.Thread(target=run, args=(["b", "a"],), name="second")
    first.start()
    half_queued.wait()
    second.start()
    first.join(10)
    second.join(10)
    assert [name for name, _ in order] == ["first", "first", "second", "second"]


def test_bad_device_lists_are_refused(registered):
    program = Launchable(registered.device(0), SIGNATURE, SumOverAll())
    for programs, partitions in (([], 1), ([program, program], 1), ([program], 2)):
        with pytest.raises(ArgumentError, match="device of its own"):
            ReplicatedLaunchable(registered.platform, programs, partitions)
    with pytest.raises(ArgumentError, match="arguments for 1 device,"):
        replicated(registered, SumOverAll()).execute([[A, A]])


@pytest.mark.parametrize("made", ["text", ValueError("no link")], ids=["wrong type", "raises"])
def test_a_misbehaving_communicator_factory_is_named(made):
    class Odd(Platform1):
        executor_class = Executor2

        def create_communicator(self, devices):
            if isinstance(made, Exception):
                raise made
            return made

    registry = Registry(find=lambda: ())
    spec = null_spec(Driver(device_count=2), tier=2, name="odd")
    object.__setattr__(spec, "factory", lambda: Odd(Driver(device_count=2)))
    results = replicated(registry.register(spec), SumOverAll(), count=2).execute(arguments(2))
    with pytest.raises(PluginError, match=r"'odd'.*Platform\.create_communicator"):
        results[0][0].numpy()


def test_native_code_of_all_devices_is_asked_for_and_checked(registered):
    loaded = SumOverAll()
    assert replicated(registered, loaded).joint_entry() is None
    asked = []
    loaded.joint_entry = lambda participants: asked.append(participants) or "text"
    with pytest.raises(PluginError, match=r"str from LoadedExecutable\.joint_entry"):
        replicated(registered, loaded).joint_entry()
    assert asked == [[loaded] * 4]


def test_groups_are_made_once_and_checked():
    made = []

    def create(group):
        made.append(group)
        return HostCommunicator([None] * len(group))

    pool = CommunicatorPool(4, create)
    collectives = Collectives(pool, device_index=3, num_replicas=2, num_partitions=2)
    assert (collectives.replica, collectives.partition) == (1, 1)
    first, rank = collectives.group([1, 3])
    assert (first.size, rank) == (2, 1)
    assert collectives.group((1, 3))[0] is first
    assert made == [(1, 3)]
    for group in ([0, 1], [3, 3], [3, 4], [-1, 3]):
        with pytest.raises(ArgumentError):
            collectives.group(group)


def test_an_aborted_run_stays_aborted_for_groups_made_later():
    pool = CommunicatorPool(2, lambda group: HostCommunicator([None] * 2, timeout_s=30))
    pool.abort(5, ExecutionError("earlier"))
    group, rank = Collectives(pool, 0, 2).group([0, 1])
    executor = Executor2(Driver())
    memory = executor.allocate(16, alignment=1, memory_space=0)
    who = Participant(rank, executor.create_stream(), 5, "x")
    with pytest.raises(ExecutionError, match="another replica failed"):
        group.all_reduce(who, memory, memory, F32_4, "add")
