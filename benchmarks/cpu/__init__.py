"""The CPU backend against its peers: ``python -m benchmarks.cpu``."""
