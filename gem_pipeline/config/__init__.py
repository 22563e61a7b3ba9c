"""The size ladder, functions that return whole typed runs, and variants of its rungs."""
