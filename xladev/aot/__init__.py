"""Ahead of time: programs as object files, with a C interface, for use without Python.

Example:
    >>> import xladev.aot
    >>> bundle = xladev.aot.compile("examples/mnist_softmax/programs/predict_64.pb", name="predict")
    >>> sorted(bundle.files)[:3]
    ['libpredict.a', 'predict.h', 'predict.o']
"""

from xladev.aot.build import Bundle, compile
from xladev.aot.selection import Binding, Feed, Fetch, Selection

__all__ = ["Binding", "Bundle", "Feed", "Fetch", "Selection", "compile"]
