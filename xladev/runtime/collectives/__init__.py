"""Executions on several devices, and the data that they exchange."""
