"""Managed collision hashing: ids get rows of their own while there is room, and the policy says who leaves.

A hashed table lets ids that fall on the same row share it for ever. Here ids come whole (63-bit hashes), and a map
from id to row is part of the model: it grows in training only, is stored with the weights, and is read in scoring.
Row 0 is the missing value, the last row that of ids without a row: new to scoring, or crowded out.
Source: zero-collision hashing of TorchRec (`MCHManagedCollisionModule`); Monolith, Liu et al., arXiv 2209.07663,
section 2.2.1.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torchrec.modules.mc_modules import LFU_EvictionPolicy, LRU_EvictionPolicy, MCHManagedCollisionModule
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.errors import ConfigError

Eviction = Literal["lfu", "lru"]
SMALLEST_TABLE = 3  # the missing value, one id, ids without a row
_POLICIES = {"lfu": LFU_EvictionPolicy, "lru": LRU_EvictionPolicy}
_FREE = torch.iinfo(torch.int64).max  # TorchRec's mark of a slot that holds no id


class Slots(MCHManagedCollisionModule):
    """TorchRec's map of one table, brought up to date by each batch.

    TorchRec sizes its history by the first batch a process sees and cuts off what exceeds it: a restored model would
    then not go on as the one that was stored. The history is sized anew for every batch here, so nothing is cut off.
    """

    def profile(self, features: dict[str, JaggedTensor]) -> dict[str, JaggedTensor]:
        """Count the ids of a batch, let new ones in and others go; in training mode only."""
        self._input_history_buffer_size = -1
        return super().profile(features)


class ManagedIds(nn.Module):
    """Whole ids to rows, table by table.

    Args:
        layout: its managed tables.
        policy: `lfu` keeps the ids that were seen most often, `lru` those seen last. A stored event of a shared
            history counts once a batch.

    Raises:
        ConfigError: a table is too small to hold an id.
    """

    def __init__(self, layout: InputLayout, policy: Eviction) -> None:
        super().__init__()
        managed = [table for table in layout.tables if table.managed]
        if small := [table.name for table in managed if table.rows < SMALLEST_TABLE]:
            raise ConfigError(
                f"Managed tables {', '.join(small)} have no row for an id.",
                remedy=f"Give them at least {SMALLEST_TABLE} rows.",
            )
        features = (*layout.tokens, *layout.event_ids)
        self.table_of = {f.name: f.table for f in features if any(f.table == table.name for table in managed)}
        self.slots = nn.ModuleDict(
            {
                table.name: Slots(
                    zch_size=table.rows - 1,
                    device=torch.get_default_device(),
                    eviction_policy=_POLICIES[policy](),
                    eviction_interval=1,
                    output_global_offset=1,
                )
                for table in managed
            }
        )

    @torch.no_grad()
    def admit(self, ids: KeyedJaggedTensor) -> dict[str, Tensor]:
        """Bring the maps up to date with a batch that is about to be learnt.

        Returns:
            By table the rows that have passed from one id to another, int64.
        """
        parts, passed_on = ids.to_dict(), {}
        for table, slots in self.slots.items():
            assert isinstance(slots, Slots)
            value_V = torch.cat([parts[name].values() for name, own in self.table_of.items() if own == table])
            known_V = value_V[value_V != 0]
            held = slots.get_buffer("_mch_remapped_ids_mapping")[slots.get_buffer("_mch_sorted_raw_ids") != _FREE]
            training = slots.training
            slots.train()
            slots.profile({table: JaggedTensor(values=known_V, lengths=torch.full_like(known_V[:1], len(known_V)))})
            slots.train(training)
            changed = slots.evict()
            if changed is not None:
                passed_on[table] = changed[torch.isin(changed, held)]
        return passed_on

    def forward(self, ids: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Rows in place of the ids of managed tables, [V] -> [V] a key; nothing changes, in training neither."""
        parts = ids.to_dict()
        values = []
        for name in ids.keys():  # noqa: SIM118
            part = parts[name]
            if (table := self.table_of.get(name)) is None:
                values.append(part.values())
                continue
            slots = self.slots[table]
            assert isinstance(slots, Slots)
            row_V = slots.remap({name: part})[name].values()
            values.append(row_V.where(part.values() != 0, 0))
        return KeyedJaggedTensor(keys=ids.keys(), values=torch.cat(values), lengths=ids.lengths())
