"""Tells LLVM, in this process and in children, of a lesser processor than there is.

Python imports this before anything else where its folder is in PYTHONPATH
(`tests.tools.other_processor`).
"""

import importlib.abc
import importlib.util
import os
import sys

NEWER_THAN = {
    "haswell": (
        "avx512", "gfni", "vaes", "vpclmul", "sha", "sse4a", "clwb", "clzero", "mwaitx",
        "wbnoinvd", "xop", "fma4",
    ),
    "nehalem": (
        "avx", "fma", "f16c", "bmi", "gfni", "vaes", "vpclmul", "sha", "sse4a", "clwb", "clzero",
        "movbe", "lzcnt", "adx", "rdseed", "rdrnd", "xsave", "fsgsbase", "mwaitx", "wbnoinvd",
        "xop", "fma4",
    ),
}  # fmt: skip
"""How the features begin that a processor has not, as LLVM spells them."""


class _Features(dict):
    """As llvmlite gives them."""

    def flatten(self):
        """For `create_target_machine`."""
        return ",".join(("+" if has else "-") + name for name, has in sorted(self.items()))


class _Finder(importlib.abc.MetaPathFinder):
    """Changes what llvmlite says of the host once it is imported."""

    def __init__(self, processor):
        self._processor = processor

    def find_spec(self, name, path, target=None):
        """Everything but llvmlite is found as always."""
        if name != "llvmlite.binding":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            newer = NEWER_THAN[self._processor]
            host = module.get_host_cpu_features()
            features = _Features({k: bool(v) and not k.startswith(newer) for k, v in host.items()})
            module.get_host_cpu_features = lambda: features
            module.get_host_cpu_name = lambda: self._processor

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("TESTS_PROCESSOR"):
    sys.meta_path.insert(0, _Finder(os.environ["TESTS_PROCESSOR"]))
