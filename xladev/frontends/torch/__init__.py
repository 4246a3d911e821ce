"""PyTorch programs on xladev's platforms: `torch.compile(model, backend="xladev")`.

torch finds `backend.xladev` by the entry point `torch_dynamo_backends`.
"""
