"""The input layout of a model: which ids, numbers and sequences a batch carries, in which order.

Derived from the contract once, stored with every model, so that a reloaded model reads the same rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from gem_pipeline.contracts.contract import DataContract, Feature
from gem_pipeline.errors import ConfigError

EVENT_PREFIX, DID_PREFIX = "event_", "did_"
EVENT_AD = "event_ad"  # names of the event-id features of every layout
EVENT_SURFACE = "event_surface"
SURFACE = "surface"  # name of the token that tells the example's own surface
EVENT_SOURCE = "event_source"
LOG_GAP = "log_gap_s"  # the time from an event to the impression; always the first event number
WHOLE_IDS = 2**62  # ids that are not hashed into the rows of a table are hashed into so many
AD_SIDE = "ads"  # origin of the tokens that tell of the ad
PLACE_TABLE = "place"  # small table that surfaces and event sources share


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSpec:
    """An embedding table: row 0 is the missing value, known ids hash into 1 ... rows - 1.

    Attributes:
        name: of the table.
        rows: of the table.
        managed: ids come whole, and the model gives them rows (`ManagedIds`).
    """

    name: str
    rows: int
    managed: bool = False

    @property
    def encoded_rows(self) -> int:
        """Encoded ids are below it."""
        return WHOLE_IDS if self.managed else self.rows


@dataclass(frozen=True, kw_only=True, slots=True)
class IdFeature:
    """An id feature.

    Attributes:
        name: of the feature.
        table: that embeds it.
        origin: of a token, as `contracts.Feature.origin` has it; empty for what an event carries.
    """

    name: str
    table: str
    origin: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorFeature:
    """A vector that another model computed, and how many numbers it has."""

    name: str
    dim: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InputLayout:
    """Everything a model needs to know about its input; no tensor, no path.

    Attributes:
        tables: embedding tables.
        tokens: non-sequence id features, each one token; multi-hot ones carry several ids a row.
        event_ids: id features of an event; all share one jagged length a row.
        dense: names of the columns of `Batch.dense_BF`.
        event_dense: names of the columns of `Batch.event_dense_TE`.
        surfaces: surface names, their position is `Batch.surface_B`.
        objectives: objective names, their position is the column of `Batch.label_BK`.
        vectors: vectors of the ad and the user; their numbers stand one after the other in `VectorInputs.value_BV`.
        event_vectors: names of those that events bring as well, each its own ad's; only where a window asks for them.
    """

    tables: tuple[TableSpec, ...]
    tokens: tuple[IdFeature, ...]
    event_ids: tuple[IdFeature, ...]
    dense: tuple[str, ...]
    event_dense: tuple[str, ...]
    surfaces: tuple[str, ...]
    objectives: tuple[str, ...]
    vectors: tuple[VectorFeature, ...] = ()
    event_vectors: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the KeyedJaggedTensor, in order: tokens, then event ids."""
        return tuple(feature.name for feature in (*self.tokens, *self.event_ids))

    @property
    def carried(self) -> tuple[tuple[IdFeature, IdFeature], ...]:
        """Tokens that events carry as well, each with the event's feature, in the order of the tokens."""
        events = {feature.name.removeprefix(EVENT_PREFIX): feature for feature in self.event_ids}
        return tuple((token, events[token.name]) for token in self.tokens if token.name in events)

    @property
    def whole_ids(self) -> bool:
        """Whether ids come whole to any table."""
        return any(table.managed for table in self.tables)

    def managed(self) -> InputLayout:
        """The layout of a model that manages its tables: ids come whole; places are few and stay what they are."""
        return replace(self, tables=tuple(replace(t, managed=t.name != PLACE_TABLE) for t in self.tables))

    def with_event_vectors(self, contract: DataContract) -> InputLayout:
        """The layout of a model whose events bring the vectors of their ads."""
        return replace(self, event_vectors=tuple(f.name for f in contract.vectors_of("ads")))

    def narrowed(self, inputs: tuple[str, ...]) -> InputLayout:
        """The layout of a model that reads only some of the event inputs.

        Args:
            inputs: names from `event_ids` and `event_dense`; empty: all. The time gap always stays.

        Raises:
            ConfigError: a name is unknown, or no event id is left.
        """
        if not inputs:
            return self
        if strangers := sorted(set(inputs) - {f.name for f in self.event_ids} - set(self.event_dense)):
            raise ConfigError(
                f"Event inputs {strangers} are not in the layout of the contract.",
                remedy=f"Choose from {', '.join([*(f.name for f in self.event_ids), *self.event_dense])}.",
            )
        event_ids = tuple(feature for feature in self.event_ids if feature.name in inputs)
        if not event_ids:
            raise ConfigError("No event id is left among the event inputs.", remedy=f"Add {EVENT_AD} to them.")
        return replace(
            self,
            event_ids=event_ids,
            event_dense=tuple(name for name in self.event_dense if name == LOG_GAP or name in inputs),
        )

    @property
    def event_columns(self) -> tuple[str, ...]:
        """Columns of `user_events` that the event inputs are made of, but for the time of the event."""
        place = {EVENT_AD: "ad_id", EVENT_SURFACE: "surface", EVENT_SOURCE: "source"}
        names = [place.get(f.name, f.name.removeprefix(EVENT_PREFIX)) for f in self.event_ids]
        names += ["value"] if "log_value" in self.event_dense else []
        names += ["ad_id"] if self.event_vectors else []
        names += ["actions"] if any(name.startswith(DID_PREFIX) for name in self.event_dense) else []
        return tuple(names)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form; `from_dict` reverses it."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> InputLayout:
        """Rebuild a layout from `to_dict`."""
        return InputLayout(
            tables=tuple(TableSpec(**t) for t in document["tables"]),
            tokens=tuple(IdFeature(**f) for f in document["tokens"]),
            event_ids=tuple(IdFeature(**f) for f in document["event_ids"]),
            dense=tuple(document["dense"]),
            event_dense=tuple(document["event_dense"]),
            surfaces=tuple(document["surfaces"]),
            objectives=tuple(document["objectives"]),
            vectors=tuple(VectorFeature(**v) for v in document.get("vectors", ())),  # models from before have none
            event_vectors=tuple(document.get("event_vectors", ())),
        )


def dense_names(contract: DataContract) -> tuple[str, ...]:
    """Names of the dense inputs: dense features, then for each counter its size and its smoothed rates."""
    names = [f.name for f in contract.features if f.kind == "dense"]
    for counter in contract.counters.groups:
        names.append(f"{counter.name}__log_events")
        names.extend(f"{counter.name}__logit_{kind}" for kind in counter.kinds)
    return tuple(names)


def input_layout(contract: DataContract) -> InputLayout:
    """Derive the layout that every model of a contract shares."""
    id_features: list[Feature] = [f for f in contract.features if f.table is not None]
    return InputLayout(
        tables=(
            *(TableSpec(name=t.name, rows=t.rows) for t in contract.embedding_tables),
            TableSpec(name=PLACE_TABLE, rows=1 + len(contract.surfaces) + len(contract.sequence.sources)),
        ),
        tokens=(
            IdFeature(name="ad", table=contract.sequence.ad_table, origin=AD_SIDE),
            IdFeature(name=SURFACE, table=PLACE_TABLE, origin="impressions"),
            *(IdFeature(name=f.name, table=f.table, origin=f.origin) for f in id_features if f.table),
        ),
        event_ids=(
            IdFeature(name=EVENT_AD, table=contract.sequence.ad_table),
            *(IdFeature(name=f"{EVENT_PREFIX}{a.name}", table=a.table) for a in contract.sequence.attributes),
            IdFeature(name=EVENT_SURFACE, table=PLACE_TABLE),
            IdFeature(name=EVENT_SOURCE, table=PLACE_TABLE),
        ),
        dense=dense_names(contract),
        event_dense=(LOG_GAP, "log_value", *(f"{DID_PREFIX}{kind}" for kind in contract.sequence.kinds)),
        surfaces=contract.surfaces,
        objectives=tuple(o.name for o in contract.objectives),
        vectors=tuple(VectorFeature(name=f.name, dim=f.dim) for f in contract.features if f.dim is not None),
    )
