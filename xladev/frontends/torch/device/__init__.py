"""A device of torch, such as ``npu``, whose operators run as xladev's programs.

`xladev.torch` is its door.
"""
