"""Run a suite of Great Expectations on a Spark frame, and write its data docs."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame

from gem_pipeline.atomic import write_text
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.quality.gate import CheckResult
from gem_pipeline.quality.suites import expectation_suite

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.data_context import EphemeralDataContext


def great_expectations() -> ModuleType:
    """Import the package, in any process.

    It tries PySpark's Connect client, and that ends a process whose main module has no file (it takes it for a
    doctest); the processes that Dagster spawns for the runs of its UI are such.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read once, when the package is imported
    main = sys.modules["__main__"]
    named = hasattr(main, "__file__")
    if not named:
        main.__file__ = __file__
    try:
        return importlib.import_module("great_expectations")
    finally:
        if not named:
            del main.__file__  # a process that this one spawns would run it


def validate(
    rows: DataFrame, contract: DataContract, table: str, *, docs: Path | None = None
) -> tuple[CheckResult, ...]:
    """Validate the rows of one or more date partitions of a table.

    Args:
        rows: cache it first; a rule costs one or two Spark jobs.
        contract: the suite derives from it.
        table: a silver table.
        docs: HTML file to write the data docs to.

    Returns:
        One result a rule, in suite order. A rule whose metric raised has not passed.
    """
    source = _context().data_sources.add_or_update_spark(name="staged", persist=False)  # True leaks a frame a run
    batch_definition = source.add_dataframe_asset(name=table).add_batch_definition_whole_dataframe("whole")
    batch = batch_definition.get_batch(batch_parameters={"dataframe": rows})
    judged = batch.validate(expectation_suite(contract, table), result_format="SUMMARY")
    result = cast("ExpectationSuiteValidationResult", judged)
    if docs is not None:
        _write_docs(result, docs)
    return tuple(_check(outcome.to_json_dict()) for outcome in result.results)


@lru_cache(maxsize=1)
def _context() -> EphemeralDataContext:
    """One context a process: each one makes a folder of its own."""
    gx = great_expectations()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _check(outcome: dict[str, Any]) -> CheckResult:
    config, found = outcome["expectation_config"], outcome["result"] or {}
    raised = _raised(outcome["exception_info"] or {})
    counted = found.get(
        "unexpected_count", found.get("observed_value") if "unexpected_rows" in config["type"] else None
    )
    observed = found.get("observed_value", found.get("element_count"))
    return CheckResult(
        name=config["meta"]["check"],
        passed=bool(outcome["success"]) and raised is None,
        severity="WARN" if config.get("severity") == "warning" else "ERROR",
        observed=raised or (observed if isinstance(observed, int | float | str) else None),
        unexpected_count=counted,
        column=config["kwargs"].get("column"),
    )


def _raised(info: dict[str, Any]) -> str | None:
    """Message of an exception inside a metric; flat or keyed by metric id."""
    for entry in (info, *(value for value in info.values() if isinstance(value, dict))):
        if entry.get("raised_exception"):
            return str(entry.get("exception_message"))
    return None


def _write_docs(result: ExpectationSuiteValidationResult, path: Path) -> None:
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    html = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
    write_text(path, html)
