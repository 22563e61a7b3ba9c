"""The data contract: what a team's tables mean, in one validated YAML file.

No column name of any data set appears in library code; it all comes from here. Unknown keys are
refused, and every rule that ties two parts together is checked once, at load time.
"""

from __future__ import annotations

import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from gem_pipeline.contracts.conversions import Attribution, ConversionsTable, Objective, conversion_faults
from gem_pipeline.contracts.counters import Counters, counter_faults
from gem_pipeline.contracts.parts import Day, Name, Part, TableRef
from gem_pipeline.contracts.quality import QualityRule
from gem_pipeline.contracts.worlds import WorldChoice
from gem_pipeline.errors import ContractError

MAX_EVENT_KINDS = 30  # actions are one bit each in a 32-bit integer


class PartitionRule(Part):
    """How rows fall into date partitions.

    Attributes:
        column: the day column (yyyy-mm-dd string or date) that every bronze fact table carries.
        min_impressions: a day with fewer impressions is refused.
        first_day: the first date partition of the log, inclusive.
        last_day: the last one, inclusive; None: the log goes on, and every day up to yesterday is a partition.
        schedule_hour: UTC hour at which yesterday's partition is refreshed.
    """

    column: str
    min_impressions: int = Field(ge=1)
    first_day: Day
    last_day: Day | None = None
    schedule_hour: int = Field(default=3, ge=0, le=23)

    @model_validator(mode="after")
    def _days_are_days(self) -> PartitionRule:
        first = date.fromisoformat(self.first_day)  # refuses the 30th of February
        if self.last_day is not None and date.fromisoformat(self.last_day) < first:
            raise ValueError(f"last_day {self.last_day} lies before first_day {self.first_day}")
        return self

    @property
    def days(self) -> int:
        """Days from the first to the last; 0 where the log goes on."""
        if self.last_day is None:
            return 0
        return (date.fromisoformat(self.last_day) - date.fromisoformat(self.first_day)).days + 1


class VisibilityRule(Part):
    """What an impression may see: `event_ts < impression_ts` and `ingest_ts <= impression_ts + allowance`.

    Attributes:
        allowance_s: seconds after the impression at which an event may still arrive and be seen.
        user_buckets: number of user buckets; tables are clustered by (bucket, user, time).
        max_delay_days: days after its partition within which an event must become visible to count; for conversions
            too, where their table has no limit of its own.
    """

    allowance_s: int = Field(default=0, ge=0)
    user_buckets: int = Field(default=4, ge=1, le=4096)
    max_delay_days: int = Field(default=1, ge=1)


class ImpressionsTable(TableRef):
    """One row an impression; columns by role."""

    key: str
    user: str
    ad: str
    surface: str
    event_ts: str
    ingest_ts: str | None = None  # None: ingested when it happened


class EngagementsTable(TableRef):
    """One row an event, organic or ad; columns by role.

    `actions` is a string column (one kind) or an array of strings (several kinds known at once).

    Attributes:
        copies_within_days: days before its date partition in which a row is looked for again: where the same user
            had the same key there, the row is a copy of it. 0: copies are looked for within the partition only.
    """

    key: str
    user: str
    ad: str
    surface: str
    source: str
    actions: str
    value: str | None = None
    event_ts: str
    ingest_ts: str | None = None
    copies_within_days: int = Field(default=1, ge=0, le=30)


class DimensionTable(TableRef):
    """Attributes of users or ads; with `valid_from` the row in force at the impression is taken."""

    key: str
    valid_from: str | None = None


class UsersTable(DimensionTable):
    """Attributes of users.

    Attributes:
        opt_out: boolean column; while it is true nothing that the user does is used, and no impression of his
            tells who he is.
    """

    opt_out: str | None = None


class Tables(Part):
    """The bronze tables of the contract."""

    impressions: ImpressionsTable
    engagements: EngagementsTable
    users: UsersTable
    ads: DimensionTable
    conversions: ConversionsTable | None = None


class EmbeddingTable(Part):
    """A shared embedding table; features of one kind are multiplexed into it (arXiv 2305.12102)."""

    name: Name
    rows: int = Field(ge=8, le=2_000_000_000)


class Feature(Part):
    """A non-sequence feature.

    Attributes:
        origin: `users`, `ads`, `impressions`, or `context` (derived from the impression time:
            `hour_of_day`, `day_of_week`).
        kind: `categorical` (hashed id), `bucketed` (number cut at `boundaries`, then an id),
            `multi_hot` (array or comma separated string of ids), `dense` (number), `vector` (array of numbers that
            another model computed, such as an image embedding; of users or ads).
        table: embedding table of the id kinds.
        dim: numbers of a vector.
        transform: of a dense number: `identity` or `log1p`.
        surfaces: that may use it, elsewhere it is null; empty: all.
    """

    name: Name
    origin: Literal["users", "ads", "impressions", "context"]
    column: str
    kind: Literal["categorical", "bucketed", "multi_hot", "dense", "vector"]
    table: Name | None = None
    dim: int | None = Field(default=None, ge=1, le=65_536)
    boundaries: tuple[float, ...] = ()
    transform: Literal["identity", "log1p"] = "identity"
    surfaces: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _kind_has_its_parts(self) -> Feature:
        if self.kind in ("dense", "vector") and self.table:
            raise ValueError(f"feature {self.name}: a {self.kind} feature takes no embedding table")
        if self.kind not in ("dense", "vector") and not self.table:
            raise ValueError(f"feature {self.name}: kind {self.kind} needs an embedding table")
        if (self.kind == "vector") != (self.dim is not None):
            raise ValueError(f"feature {self.name}: dim belongs to kind vector, and only there")
        if self.kind == "vector" and self.origin not in ("ads", "users"):
            raise ValueError(f"feature {self.name}: a vector belongs to ads or users, not to {self.origin}")
        if self.kind == "vector" and self.transform != "identity":
            raise ValueError(f"feature {self.name}: a vector takes no transform")
        if (self.kind == "bucketed") != bool(self.boundaries):
            raise ValueError(f"feature {self.name}: boundaries belong to kind bucketed, and only there")
        if list(self.boundaries) != sorted(set(self.boundaries)):
            raise ValueError(f"feature {self.name}: boundaries must strictly increase")
        if self.origin == "context" and self.column not in ("hour_of_day", "day_of_week"):
            raise ValueError(f"feature {self.name}: context offers hour_of_day and day_of_week")
        return self


class EventAttribute(Part):
    """An attribute of an event's ad, carried by the sequence."""

    name: Name
    column: str  # of the ads table
    table: Name


class Sequence(Part):
    """The unified event sequence (OneSeq): sources, kinds and attributes.

    Attributes:
        sources: streams that events come from, for example an organic feed or an import.
        kinds: every action an event may carry; each is one bit of `actions`.
        ad_table: embedding table shared by the event's ad and the impression's ad.
        attributes: attributes of the event's ad.
    """

    sources: tuple[Name, ...] = Field(min_length=1)
    kinds: tuple[Name, ...] = Field(min_length=1, max_length=MAX_EVENT_KINDS)
    ad_table: Name
    attributes: tuple[EventAttribute, ...] = ()


class Verticals(Part):
    """Which surface x objective cells get a vertical model.

    Attributes:
        min_positives: positives a cell needs.
        min_negatives: negatives a cell needs.
        max_models: at most so many, the cells with the most positives first.
    """

    min_positives: int = Field(default=300, ge=1)
    min_negatives: int = Field(default=300, ge=1)
    max_models: int = Field(default=6, ge=1)


class DataContract(Part):
    """The whole contract. Load it with `load_contract`."""

    version: Literal[1]
    name: Name
    description: str
    source: Literal["kuairand", "tables", "world"]
    world: WorldChoice | None = None
    partition: PartitionRule
    visibility: VisibilityRule
    tables: Tables
    surfaces: tuple[Name, ...] = Field(min_length=1)
    objectives: tuple[Objective, ...] = Field(min_length=1)
    attribution: Attribution | None = None
    embedding_tables: tuple[EmbeddingTable, ...]
    features: tuple[Feature, ...]
    sequence: Sequence
    counters: Counters
    verticals: Verticals = Verticals()
    quality: QualityRule = QualityRule()

    @model_validator(mode="after")
    def _world_has_its_days(self) -> DataContract:
        if (self.source == "world") != (self.world is not None):
            raise ValueError("`world` belongs to source world, and only there")
        if self.world is None:
            return self
        rule = self.partition
        if rule.last_day is None:
            raise ValueError("a world needs partition.last_day")
        if rule.days <= self.world.history_days:
            raise ValueError(f"world.history_days leaves no day with impressions among {rule.days} days")
        return self

    @model_validator(mode="after")
    def _surfaces_are_known(self) -> DataContract:
        for what, restricted in (("objective", self.objectives), ("feature", self.features)):
            for part in restricted:
                if strangers := set(part.surfaces) - set(self.surfaces):
                    raise ValueError(f"{what} {part.name}: unknown surfaces {sorted(strangers)}")
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> DataContract:
        tables = {table.name for table in self.embedding_tables}
        named = [
            *((f"feature {f.name}", f.table) for f in self.features if f.table),
            *((f"sequence attribute {a.name}", a.table) for a in self.sequence.attributes),
            ("sequence", self.sequence.ad_table),
        ]
        for who, table in named:
            if table not in tables:
                raise ValueError(f"{who}: embedding table {table} is not declared")
        attributes = [a.name for a in self.sequence.attributes]
        for fault in conversion_faults(self.objectives, self.attribution, self.tables.conversions, attributes):
            raise ValueError(fault)
        sequence = self.sequence
        for fault in counter_faults(
            self.counters, attributes=attributes, kinds=sequence.kinds, sources=sequence.sources
        ):
            raise ValueError(fault)
        for what, names in (
            ("embedding table", [t.name for t in self.embedding_tables]),
            ("feature", [f.name for f in self.features]),
            ("objective", [o.name for o in self.objectives]),
            ("counter", [c.name for c in self.counters.groups]),
            ("surface", list(self.surfaces)),
            ("event kind", list(self.sequence.kinds)),
        ):
            if doubles := {n for n in names if names.count(n) > 1}:
                raise ValueError(f"{what} named twice: {sorted(doubles)}")
        return self

    @property
    def column_objectives(self) -> tuple[Objective, ...]:
        """Objectives whose label is a column of the impressions table."""
        return tuple(o for o in self.objectives if o.column is not None)

    def vectors_of(self, origin: Literal["ads", "users"]) -> tuple[Feature, ...]:
        """Vector features of one origin, in order."""
        return tuple(f for f in self.features if f.kind == "vector" and f.origin == origin)

    @property
    def conversion_objectives(self) -> tuple[Objective, ...]:
        """Objectives whose label is a conversion that follows within a window."""
        return tuple(o for o in self.objectives if o.conversion is not None)

    @property
    def conversion_reach_days(self) -> int:
        """Most days between the partition of an impression and the arrival of a conversion credited to it."""
        windows = [o.window_days for o in self.conversion_objectives]
        return max(windows) + self.conversion_delay_days if windows else 0

    @property
    def conversion_delay_days(self) -> int:
        """Days after it happened within which a conversion must arrive to be credited."""
        own = self.tables.conversions.max_delay_days if self.tables.conversions else None
        return self.visibility.max_delay_days if own is None else own

    @property
    def content_hash(self) -> str:
        """Hash of the contract's meaning: comments and key order do not change it."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def load_contract(path: Path) -> DataContract:
    """Read and validate a contract.

    Args:
        path: the YAML file.

    Returns:
        The validated, immutable contract.

    Raises:
        ContractError: the file is missing, is not YAML, or breaks a rule; every broken rule is named.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ContractError(
            f"The data contract {path} cannot be read: {error}.",
            remedy="Name an existing YAML file with GEM_CONTRACT, or write one with `gem init`.",
        ) from error
    except yaml.YAMLError as error:
        raise ContractError(
            f"The data contract {path} is not valid YAML: {error}.",
            remedy="Mend the line it names; `gem init` writes a commented example.",
        ) from error
    try:
        return DataContract.model_validate(document)
    except ValidationError as error:
        rules = "; ".join(
            f"{'.'.join(str(step) for step in problem['loc']) or 'contract'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise ContractError(
            f"The data contract {path} breaks {error.error_count()} rule(s): {rules}.",
            remedy="Mend these keys; docs/data_contract.md explains each.",
        ) from error
