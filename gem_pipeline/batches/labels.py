"""Labels of examples as they were known on a day: columns of `examples`, and conversions credited to them.

A conversion's label is 1 where one was credited that had arrived by the day `as_of`, and it exists (its mask is
true) only once it is mature. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import PartitionError

Labels = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
CREDITED = ("date", "impression_id", "objective")


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownConversions:
    """What is known of the conversions of one date partition.

    Attributes:
        mature: objectives whose labels are final.
        impressions: ids of the impressions that have a conversion, by objective.
        shown: objectives whose labels exist at all, of conversions and columns alike; None: all.
    """

    mature: frozenset[str] = frozenset()
    impressions: dict[str, pa.Array] = field(default_factory=dict)
    shown: frozenset[str] | None = None


NOTHING_KNOWN = KnownConversions()


def credited_rows(lake: Path, dates: Sequence[str], as_of: str, *, version: int | None = None) -> pa.Table:
    """What was credited to some dates and had arrived by `as_of`, in a fixed order, with the columns `CREDITED`.

    Raises:
        PartitionError: no conversion was ever attributed.
    """
    path = str(lake / tables.attributed_conversions().name)
    if not DeltaTable.is_deltatable(path):
        raise PartitionError(
            f"Table attributed_conversions does not exist, and labels of {', '.join(dates)} are asked for.",
            remedy="Materialise attributed_conversions for these dates first.",
        )
    table = DeltaTable(path, version=version)
    chosen = [("date", "in", list(dates)), ("arrived", "<=", as_of)]
    rows = table.to_pyarrow_table(filters=chosen, columns=list(CREDITED))
    return rows.sort_by([(name, "ascending") for name in CREDITED])


def known_conversions(
    contract: DataContract, lake: Path, date: str, as_of: str | None, *, version: int | None = None
) -> KnownConversions:
    """What was known of the conversions of a date on the day `as_of`; nothing is where it is None."""
    if as_of is None:
        return NOTHING_KNOWN
    mature = frozenset(o.name for o in contract.conversion_objectives if o.is_mature(date, as_of))
    if not mature:
        return NOTHING_KNOWN
    rows = credited_rows(lake, [date], as_of, version=version)
    found = {name: rows.filter(pc.equal(rows["objective"], name))["impression_id"] for name in mature}
    return KnownConversions(mature=mature, impressions={k: ids.combine_chunks() for k, ids in found.items()})


def labels_and_masks(contract: DataContract, rows: pa.Table, known: KnownConversions) -> tuple[Labels, Mask]:
    """Labels of examples, 0 where masked, and whether each exists; float32 and bool [N, K] in contract order.

    Args:
        contract: objectives and the surfaces that optimise them.
        rows: impression_id, surface, the label columns of `examples`, and `opted_out` where they have it: nothing is
            credited to such an example, so whether it was followed by a conversion is not known.
        known: conversions of their date.
    """
    columns = []
    for o in contract.objectives:
        if known.shown is not None and o.name not in known.shown:
            columns.append(np.full(rows.num_rows, np.nan, dtype=np.float32))
        elif o.conversion is None:
            columns.append(rows[tables.label_column(o.name)].to_numpy().astype(np.float32))
        elif o.name in known.mature:
            converted = pc.is_in(rows["impression_id"], value_set=known.impressions[o.name])
            exists_N = optimised(o.surfaces, rows) & ~opted_out(rows)
            columns.append(np.where(exists_N, converted.to_numpy(), np.nan).astype(np.float32))
        else:
            columns.append(np.full(rows.num_rows, np.nan, dtype=np.float32))
    label_NK = np.stack(columns, axis=1)
    return np.nan_to_num(label_NK), ~np.isnan(label_NK)


def optimised(surfaces: tuple[str, ...], rows: pa.Table) -> Mask:
    """Whether the surface of each example is one of `surfaces` (none: all), bool [N]."""
    if not surfaces:
        return np.ones(rows.num_rows, dtype=bool)
    return pc.is_in(rows["surface"], value_set=pa.array(surfaces)).to_numpy()


def opted_out(rows: pa.Table) -> Mask:
    """Whether the user of each example had opted out, bool [N]; null (of an earlier contract) is no."""
    if tables.OPTED_OUT not in rows.column_names:
        return np.zeros(rows.num_rows, dtype=bool)
    return pc.fill_null(pc.equal(rows[tables.OPTED_OUT], 1), False).to_numpy()


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionLabels:
    """Examples of a partition, with the columns asked for, and their labels, [N, K] in contract order."""

    rows: pa.Table
    label_NK: Labels
    mask_NK: Mask


def partition_labels(
    contract: DataContract, lake: Path, date: str, as_of: str | None, *, columns: Sequence[str] = ()
) -> PartitionLabels:
    """Labels of all examples of a date as they were known on the day `as_of`, in the order of storage.

    Args:
        contract: objectives.
        lake: root of the tables.
        date: partition of `examples`.
        as_of: as in `known_conversions`.
        columns: of `examples`, beside impression_id and surface.
    """
    labels = [tables.label_column(o.name) for o in contract.column_objectives]
    hidden = [name for name in tables.examples(contract).column_names if name == tables.OPTED_OUT]
    wanted = list(dict.fromkeys(["impression_id", "surface", *labels, *hidden, *columns]))
    path = str(lake / tables.examples(contract).name)
    rows = DeltaTable(path).to_pyarrow_table(filters=[("date", "=", date)], columns=wanted)
    label_NK, mask_NK = labels_and_masks(contract, rows, known_conversions(contract, lake, date, as_of))
    return PartitionLabels(rows=rows, label_NK=label_NK, mask_NK=mask_NK)
