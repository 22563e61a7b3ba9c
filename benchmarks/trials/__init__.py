"""Trainings for quality figures: days of a log, one cell a model and seed, kept and resumed, compared in pairs."""
