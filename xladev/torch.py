"""A device of torch on xladev's platforms: ``xladev.torch.register("npu")``, ``model.to("npu")``.

The guide is docs/how-to/use-pytorch-device.md.
"""

from xladev.frontends.torch.device.door import register, report, set_eager, step

__all__ = ["register", "report", "set_eager", "step"]
