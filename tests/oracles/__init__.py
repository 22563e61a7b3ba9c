"""Slow, plain twins of the fast code, written from the equations."""
