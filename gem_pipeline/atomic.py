"""Files that appear whole: readers see the old or the new one, also when the writer is killed. Ours.

Standard library only, for every layer above.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replace a file by one rename; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Replace a JSON file by one rename; keys are sorted, so that the same content is the same file."""
    write_text(path, json.dumps(document, indent=1, sort_keys=True))
