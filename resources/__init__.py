"""Dagster resources: Spark session, Delta lake, tracker, trainer launcher."""
