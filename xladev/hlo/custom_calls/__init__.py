"""Custom calls: functions that HLO knows by name only.

`registry` holds what each target means; the other modules define the targets of real programs.
"""
