"""Formats for people: graphs of programs, and what they cost."""
