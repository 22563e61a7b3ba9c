"""Reading a model's configuration back from its stored form (ours)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from gem_pipeline.errors import ConfigError

ConfigT = TypeVar("ConfigT")


def read_config(kind: type[ConfigT], document: dict[str, Any]) -> ConfigT:
    """Build a configuration dataclass from plain values, also after a trip through JSON.

    Args:
        kind: the dataclass, all its fields by keyword.
        document: one entry a field; lists become tuples.

    Raises:
        ConfigError: a field is missing or unknown, or a value breaks a rule of the dataclass.
    """
    known = {field.name for field in fields(kind)}  # pyrefly: ignore[bad-argument-type]
    if known != set(document):
        raise ConfigError(
            f"A stored {kind.__name__} lacks {sorted(known - set(document))} and "
            f"has the unknown entries {sorted(set(document) - known)}.",
            remedy="Load it with the version of the product that wrote it.",
        )
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in document.items()}
    return kind(**values)
