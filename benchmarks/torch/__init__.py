"""PyTorch models under xladev, eager torch and inductor."""
