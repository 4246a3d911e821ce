"""The conformance suite's machinery: cases, running them, statuses, waivers, reports, pytest."""
