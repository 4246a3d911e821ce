"""Peers that compute whole models: each in a process of its own."""
