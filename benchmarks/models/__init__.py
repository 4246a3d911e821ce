"""Whole models on the CPU beside XLA:CPU, torch.compile, ONNX Runtime and OpenVINO."""
