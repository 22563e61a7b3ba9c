"""Stored models as they are served."""
