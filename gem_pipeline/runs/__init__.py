"""Whole runs over the library: the daily pass and the evaluation of what it scored."""
