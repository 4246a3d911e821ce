"""The native half of calls of xladev's CPU programs: one C extension, which xladev looks for."""
