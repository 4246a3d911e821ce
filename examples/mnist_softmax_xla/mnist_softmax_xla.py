"""Softmax regression on handwritten digits in the style of TensorFlow 1, with XLA or without.

python mnist_softmax_xla.py                   the session compiles clusters of operators (--xla)
python mnist_softmax_xla.py --noxla           one operator at a time
python mnist_softmax_xla.py --data_dir DIR    MNIST, where you have its four IDX files
python mnist_softmax_xla.py --device CPU:0    TensorFlow's own CPU

Writes timeline.ctf.json: what the last step did, for Perfetto and chrome://tracing; and graphs of
the HLO of each compiled program to --dump_dir, as .dot and as pages (.html).
"""

import argparse
import os
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import digits

TIMELINE = "timeline.ctf.json"


def main() -> None:
    """Trains, and says how well."""
    parser = digits.arguments(__doc__ or "")
    parser.add_argument("--xla", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--noxla", dest="xla", action="store_false", help="the same as --no-xla")
    parser.add_argument("--dump_dir", type=Path, default=Path("hlo_graphs"))
    options = parser.parse_args()
    programs = options.dump_dir / "programs"
    shutil.rmtree(options.dump_dir, ignore_errors=True)
    os.environ["XLADEV_DUMP_TO"] = str(programs)  # read when the device is opened
    losses, accuracy = train(digits.read(options.data_dir), options)
    digits.report(losses, accuracy, options)
    print(f"{TIMELINE}: the last step; open it in https://ui.perfetto.dev or chrome://tracing")
    print(f"{options.dump_dir}: {draw(programs, options.dump_dir)} HLO graphs, as .dot and .html")


def train(data: Any, options: argparse.Namespace) -> tuple[list[float], float]:
    """The loss of each step, and the share of test digits that are read rightly."""
    import tensorflow as tf
    from tensorflow.python.client import timeline

    v1 = tf.compat.v1
    features = data.train_x.shape[1]
    config = v1.ConfigProto()
    levels = v1.OptimizerOptions
    config.graph_options.optimizer_options.global_jit_level = (
        levels.ON_1 if options.xla else levels.OFF
    )
    with v1.Graph().as_default(), v1.Session(config=config) as session:
        with tf.device(options.device):
            x = v1.placeholder(tf.float32, [None, features])
            y = v1.placeholder(tf.int32, [None])
            w = variable(v1, "w", [features, digits.CLASSES])
            b = variable(v1, "b", [digits.CLASSES])
            logits = tf.matmul(x, w) + b
            loss = v1.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
            step = v1.train.GradientDescentOptimizer(digits.RATE).minimize(loss)
            right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y)
            accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        session.run(v1.global_variables_initializer())
        losses = []
        traced = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        metadata = v1.RunMetadata()
        for number, (images, labels) in enumerate(digits.batches(data, options.steps), 1):
            is_last = number == options.steps
            how = {"options": traced, "run_metadata": metadata} if is_last else {}
            losses.append(float(session.run([loss, step], {x: images, y: labels}, **how)[0]))
        drawn = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
        Path(TIMELINE).write_text(drawn)
        share = session.run(accuracy, {x: data.test_x, y: data.test_y})
    return losses, float(share)


def variable(v1: Any, name: str, shape: list[int]) -> Any:
    """A variable of zeros; XLA's devices hold resources, and not TensorFlow 1's references."""
    return v1.get_variable(name, shape, initializer=v1.zeros_initializer(), use_resource=True)


def is_drawn(name: str) -> bool:
    """True for a program as TensorFlow gives it and for its kernels; not for what is between."""
    steps = (".before_", ".after_", ".prepared", ".scheduled", ".rematerialized")
    return not any(step in name for step in steps)


def draw(programs: Path, folder: Path) -> int:
    """Draws each program that was compiled, and its kernels; returns how many graphs."""
    from xladev.cli.main import main as xladev_command

    chosen = [path for path in sorted(programs.glob("*.hlo")) if is_drawn(path.name)]
    for program in chosen:
        for suffix in (".dot", ".html"):
            target = str(folder / f"{program.stem}{suffix}")
            with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing):
                xladev_command(["graph", str(program), "--output", target])
    return len(chosen)


if __name__ == "__main__":
    main()
