"""Functions and loops in sessions with 32-bit integers, which TensorFlow hands over on the host."""

import pytest

from tests.tools.tensorflow_child import run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]


def test_functions_of_integers() -> None:
    """They crashed where no pass inlines them: in XLA's context, or if the function says so."""
    run_tensorflow(
        """
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import control_flow_ops, while_loop
v1 = tf.compat.v1
alone = {'_noinline': True}
def check(session, feeds, results, expected):
    after = [r + 1 for r in results]
    for made, value in zip(session.run([*results, *after], feeds),
                           [*expected, *(np.add(e, 1) for e in expected)], strict=True):
        assert np.array_equal(made, value), (made, value)
with v1.Graph().as_default(), v1.Session() as session, tf.device('XLADEV:0'):
    steps, n = v1.placeholder(tf.int32, []), v1.placeholder(tf.int32, [2])
    x = v1.placeholder(tf.float32, [2])
    feeds = {steps: 3, n: [1, 2], x: [1, 2]}
    context = control_flow_ops.XLAControlFlowContext()
    context.Enter()
    loop = while_loop.while_loop(
        lambda *_: True, lambda i, n, x: (i + 1, n * 2, x * 1.5), (0, n, x),
        maximum_iterations=steps)
    context.Exit()
    check(session, feeds, loop, [3, [8, 16], [3.375, 6.75]])
    both = tf.function(lambda n, x: (n * 2, x * 1.5), experimental_attributes=alone)
    check(session, feeds, both(n, x), [[2, 4], [1.5, 3]])
    given = tf.function(lambda n, x: tf.cast(n, x.dtype) * x, experimental_attributes=alone)
    check(session, feeds, [given(n, x)], [[1, 4]])
    made = tf.function(lambda x: tf.cast(x, tf.int32), experimental_attributes=alone)
    check(session, feeds, [made(x)], [[1, 2]])
    numbers = tf.function(lambda x: x * 1.5, experimental_attributes=alone)
    check(session, feeds, [numbers(x)], [[1.5, 3]])
    ops = [node.op for node in session.graph.as_graph_def().node]
    assert 'StatelessWhile' in ops and ops.count('PartitionedCall') == 4, ops
"""
    )
