"""Certificates: which level of the contract a backend reaches on the conformance suite."""
