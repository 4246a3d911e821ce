"""`xladev new`: the template's sources and the project around them, renamed."""
