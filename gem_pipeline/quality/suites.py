"""Expectation suites, derived from the table schemas and the contract; plain data until a validation runs them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import ConfigError

if TYPE_CHECKING:
    import great_expectations as gx

SUITE_VERSION = "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One expectation of Great Expectations, by class name and arguments.

    Attributes:
        kind: class name in `great_expectations.expectations`.
        arguments: its keyword arguments, `column` among them where it has one.
        label: name of the rule where its class does not say enough.
        severity: `critical` blocks the publication, `warning` is reported.
    """

    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    severity: Literal["critical", "warning"] = "critical"

    @property
    def name(self) -> str:
        """Name of the rule's check: unique in a suite, letters, digits and underscores."""
        words = "".join("_" + c.lower() if c.isupper() else c for c in self.kind.removeprefix("Expect")).strip("_")
        column = self.arguments.get("column")
        return self.label or (f"{words}__{column}" if column else words)


def suite(contract: DataContract, table: str) -> tuple[Rule, ...]:
    """The rules that every date partition of a silver table obeys.

    Rules of the same kind over many columns are one query each, because a rule
    costs a Spark job. A row count is always among them: most other rules hold on an empty table.

    Raises:
        ConfigError: there is no such table.
    """
    schemas = {schema.name: schema for schema in tables.silver_tables(contract)}
    if table not in schemas:
        raise ConfigError(f"There is no suite for table {table}.", remedy=f"Choose one of {', '.join(schemas)}.")
    schema = schemas[table]
    specific = {"user_events": _user_events, "counter_increments": _counter_increments, "examples": _examples,
                "ad_vectors": _ad_vectors, "user_vectors": _user_vectors,
                "attributed_conversions": _attributed_conversions}  # fmt: skip
    required = [f"`{column.name}` IS NULL" for column in schema.columns if not column.nullable]
    return (
        Rule(kind="ExpectTableRowCountToBeBetween", arguments={"min_value": least_rows(contract, table)}),
        Rule(kind="ExpectTableColumnsToMatchOrderedList", arguments={"column_list": list(schema.column_names)}),
        _no_row_where("no_nulls", required),
        _key_is_unique(("date", *schema.key)),
        *specific[table](contract),
    )  # fmt: skip


def least_rows(contract: DataContract, table: str) -> int:
    """Rows that a date partition of a table must have."""
    return {"examples": contract.partition.min_impressions, "user_events": 1}.get(table, 0)


def _no_row_where(label: str, faults: list[str]) -> Rule:
    """One scan for many columns: no row may have any of these faults."""
    query = f"SELECT * FROM {{batch}} WHERE {' OR '.join(faults)}"
    return Rule(kind="UnexpectedRowsExpectation", arguments={"unexpected_rows_query": query}, label=label)


def _key_is_unique(key: tuple[str, ...]) -> Rule:
    """A hash aggregate; the library's own rule sorts the whole table."""
    columns = ", ".join(f"`{column}`" for column in key)
    query = f"SELECT {columns}, COUNT(*) AS num_rows FROM {{batch}} GROUP BY {columns} HAVING COUNT(*) > 1"
    return Rule(kind="UnexpectedRowsExpectation", arguments={"unexpected_rows_query": query}, label="key_is_unique")


def _between(column: str, least: int, most: int | None = None) -> Rule:
    return Rule(
        kind="ExpectColumnValuesToBeBetween", arguments={"column": column, "min_value": least, "max_value": most}
    )


def _in_set(column: str, values: tuple[str, ...]) -> Rule:
    return Rule(kind="ExpectColumnValuesToBeInSet", arguments={"column": column, "value_set": list(values)})


def _counts_fit(label: str, pairs: list[tuple[str, str]], least: int) -> Rule:
    """Of each (events, kind) pair: events at least `least`, the kind between 0 and the events."""
    faults = [f"`{events}` < {least}" for events in dict.fromkeys(events for events, _ in pairs)]
    return _no_row_where(label, faults + [f"`{kind}` NOT BETWEEN 0 AND `{events}`" for events, kind in pairs])


def _user_events(contract: DataContract) -> tuple[Rule, ...]:
    return (
        _between("bucket", 0, contract.visibility.user_buckets - 1),
        _in_set("surface", contract.surfaces),
        _in_set("source", contract.sequence.sources),
        _between("actions", 0, 2 ** len(contract.sequence.kinds) - 1),
    )


def _counter_increments(contract: DataContract) -> tuple[Rule, ...]:
    pairs = [("events", f"kind__{kind}") for kind in contract.sequence.kinds]
    return _in_set("counter", tuple(c.name for c in contract.counters.groups)), _counts_fit("counts_fit", pairs, 1)


def _examples(contract: DataContract) -> tuple[Rule, ...]:
    labels = [tables.label_column(o.name) for o in contract.column_objectives]
    pairs = [
        (tables.count_column(counter.name), tables.count_column(counter.name, kind))
        for counter in contract.counters.groups
        for kind in counter.kinds
    ]
    return (
        _between("bucket", 0, contract.visibility.user_buckets - 1),
        _in_set("surface", contract.surfaces),
        *([_no_row_where("labels_are_0_or_1", [f"`{label}` NOT IN (0, 1)" for label in labels])] if labels else []),
        *([_counts_fit("counters_fit", pairs, 0)] if pairs else []),
    )


def _ad_vectors(contract: DataContract) -> tuple[Rule, ...]:
    return _vectors(contract, "ads")


def _user_vectors(contract: DataContract) -> tuple[Rule, ...]:
    return _vectors(contract, "users")


def _vectors(contract: DataContract, origin: tables.Origin) -> tuple[Rule, ...]:
    """Every vector is null or has its dimension, all of its numbers finite."""
    faults = []
    for f in contract.vectors_of(origin):
        broken = f"exists(`{f.name}`, x -> x IS NULL OR isnan(x) OR abs(x) = float('inf'))"
        faults.append(f"(`{f.name}` IS NOT NULL AND (size(`{f.name}`) <> {f.dim} OR {broken}))")
    return (
        _between("bucket", 0, contract.visibility.user_buckets - 1),
        _in_set("date", (tables.ALL_DAYS,)),
        _no_row_where("vectors_fit", faults),
    )


def _attributed_conversions(contract: DataContract) -> tuple[Rule, ...]:
    names = tuple(o.name for o in contract.conversion_objectives)
    reach = contract.conversion_reach_days
    late = f"datediff(to_date(`arrived`), to_date(`date`)) NOT BETWEEN 0 AND {reach}"
    return (
        _between("bucket", 0, contract.visibility.user_buckets - 1),
        _in_set("objective", names),
        _in_set("attribution", ("click", "view")),
        _no_row_where("times_in_order", ["`ingest_ts` < `conversion_ts`", late]),
    )


def suite_hash(contract: DataContract, table: str) -> str:
    """Hash of a table's rules."""
    rules = [asdict(rule) for rule in suite(contract, table)]
    return hashlib.sha256(json.dumps([SUITE_VERSION, rules], sort_keys=True).encode()).hexdigest()[:16]


def expectation_suite(contract: DataContract, table: str) -> gx.ExpectationSuite:
    """The suite as Great Expectations knows it; its import takes seconds, so it happens here."""
    import great_expectations as gx
    import great_expectations.expectations as gxe

    rules = suite(contract, table)
    expectations = [getattr(gxe, r.kind)(**r.arguments, severity=r.severity, meta={"check": r.name}) for r in rules]
    return gx.ExpectationSuite(name=table, expectations=expectations)
