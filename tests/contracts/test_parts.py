from __future__ import annotations

import pytest
from pydantic import ValidationError

from gem_pipeline.contracts.parts import TableRef


def test_a_part_refuses_unknown_keys_and_never_changes():
    with pytest.raises(ValidationError, match="folder"):
        TableRef.model_validate({"path": "a", "folder": "b"})
    ref = TableRef(path="a")
    with pytest.raises(ValidationError, match="frozen"):
        ref.path = "b"  # pyrefly: ignore
