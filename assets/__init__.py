"""Dagster assets, one file a group in graph order: wiring only."""
