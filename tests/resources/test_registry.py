"""The registry against a client that remembers: which version `candidate` names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INTERNAL_ERROR, RESOURCE_DOES_NOT_EXIST

from resources.registry import CANDIDATE, _candidate_date, find_version


class Client:
    """A registry with one model, or with an error."""

    def __init__(self, aliases: dict[str, str] | None = None, error: int | None = None) -> None:
        self.aliases, self.error, self.created = aliases or {}, error, []

    def get_registered_model(self, name: str) -> SimpleNamespace:
        if self.error is not None:
            raise MlflowException("no", error_code=self.error)
        return SimpleNamespace(name=name, aliases=self.aliases)

    def create_registered_model(self, name: str) -> None:
        self.created.append(name)

    def get_model_version(self, name: str, version: str) -> SimpleNamespace:
        return SimpleNamespace(tags={"date": f"date of {name} {version}"})

    def search_model_versions(self, wanted: str, max_results: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(version="4")][:max_results] if "'r1'" in wanted else []


def test_the_first_version_of_a_name_makes_the_name():
    client = Client(error=RESOURCE_DOES_NOT_EXIST)
    assert _candidate_date(client, "gem") == ""
    assert client.created == ["gem"]


def test_the_date_of_the_candidate_is_that_of_its_version():
    assert _candidate_date(Client({CANDIDATE: "3"}), "gem") == "date of gem 3"
    assert _candidate_date(Client({"champion": "3"}), "gem") == ""


def test_another_error_of_the_registry_is_not_hidden():
    with pytest.raises(MlflowException):
        _candidate_date(Client(error=INTERNAL_ERROR), "gem")


def test_the_version_of_a_run_is_found():
    assert find_version(Client(), "gem", "r1") == 4
    assert find_version(Client(), "gem", "r2") is None
