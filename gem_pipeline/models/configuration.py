"""Reading a model's configuration back from its stored form (ours)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from gem_pipeline.errors import ConfigError

ConfigT = TypeVar("ConfigT")


def read_config(kind: type[ConfigT], document: dict[str, Any]) -> ConfigT:
    """Build a configuration dataclass from plain values, also after a trip through JSON.

    Args:
        kind: the dataclass, all its fields by keyword.
        document: one entry a field; lists become tuples, dictionaries the dataclasses that the fields name.

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
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in document.items()})


def _value(hint: Any, value: Any) -> Any:
    """One entry: a dictionary becomes the dataclass that its field names, a list a tuple of such."""
    if isinstance(value, dict) and is_dataclass(hint):
        return read_config(hint, value)  # pyrefly: ignore[bad-argument-type]
    if isinstance(value, list | tuple):
        inner = next(iter(get_args(hint)), None)
        return tuple(_value(inner, item) for item in value)
    return value
