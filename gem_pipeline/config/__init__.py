"""The size ladder: functions that return whole typed runs."""
