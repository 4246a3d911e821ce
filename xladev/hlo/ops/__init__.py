"""The opset by family: each file holds its opcodes' entries, shape rules and meaning."""
