"""Typed errors: each names what was wrong, where, how much of it, and the way out."""

from __future__ import annotations


class GemError(Exception):
    """Root of every error this product raises on purpose.

    Attributes:
        message: one plain sentence naming table, column, partition and count where they apply.
        remedy: one plain sentence saying what to do next.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.message = message
        self.remedy = remedy


class SetupError(GemError):
    """The machine or the installation lacks something: Java, a package, a free port."""

    exit_code = 3


class ContractError(GemError):
    """The data contract cannot be read or breaks a rule."""

    exit_code = 4


class DataSourceError(GemError):
    """A named folder, table or partition of the source is missing or unreadable."""

    exit_code = 5


class SchemaError(GemError):
    """A table lacks a column that the contract names, or a column has another type."""

    exit_code = 6


class PartitionError(GemError):
    """A date partition is missing, empty or below the contract's threshold."""

    exit_code = 7


class GateError(GemError):
    """A quality gate failed, is missing, or belongs to other data than what is there now."""

    exit_code = 8


class LeakageError(GemError):
    """An event would be visible to an impression that it did not precede."""

    exit_code = 9


class ModelStoreError(GemError):
    """A stored model is missing, incomplete or does not fit the configuration asked for."""

    exit_code = 10


class DivergenceError(GemError):
    """Training produced a non-finite or exploding loss; the last good checkpoint is kept."""

    exit_code = 11


class ConfigError(GemError):
    """A configuration value breaks a rule."""

    exit_code = 12


class RunError(GemError):
    """A run failed in a step that told what was wrong, for example in a trainer."""

    exit_code = 13


class PolicyError(GemError):
    """A scoring function of the serving loop gave something other than one probability a candidate."""

    exit_code = 14
