"""Softmax regression on handwritten digits with tf.function(jit_compile=True).

python tf_function.py                   the whole step is one program of the device
python tf_function.py --device CPU:0    TensorFlow's own CPU, compiled by XLA
"""

import digits
import tensorflow as tf


def main() -> None:
    """Trains, and says how well."""
    options = digits.arguments(__doc__ or "").parse_args()
    data = digits.read(options.data_dir)
    with tf.device(options.device):
        w = tf.Variable(tf.zeros([data.train_x.shape[1], digits.CLASSES]))
        b = tf.Variable(tf.zeros([digits.CLASSES]))

        @tf.function(jit_compile=True)
        def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ w + b)
                loss = tf.reduce_mean(each)
            for variable, slope in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
                variable.assign_sub(digits.RATE * slope)
            return loss

        @tf.function(jit_compile=True)
        def share_right(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            right = tf.equal(tf.argmax(x @ w + b, 1, output_type=tf.int32), y)
            return tf.reduce_mean(tf.cast(right, tf.float32))

        pairs = digits.batches(data, options.steps)
        losses = [float(step(tf.constant(x), tf.constant(y))) for x, y in pairs]
        accuracy = float(share_right(tf.constant(data.test_x), tf.constant(data.test_y)))
    digits.report(losses, accuracy, options)


if __name__ == "__main__":
    main()
