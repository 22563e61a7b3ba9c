"""The design matrix of the logistic baseline: which columns there are, learned from the training rows.

Columns, in order: one-hot ids of each token feature, the bag of each history feature, dense inputs, and for each
surface a constant and the dense inputs again. N rows, C columns, F dense inputs, V ids, S surfaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gem_pipeline.errors import ConfigError
from gem_pipeline.training.logistic_inputs import FloatArray, IdColumn, IntArray, LogisticInputs

DesignMatrix: TypeAlias = sparse.csr_array

# A larger scale is a weaker penalty; chosen on KuaiRand's validation day.
_TOKEN_SCALE, _HISTORY_SCALE, _INTERACTION_SCALE = 0.5, 4.0, 0.3
_MIN_TOKEN_COUNT, _MIN_HISTORY_COUNT = 3, 5  # rarer ids have no column
_DENSE_LIMIT = 5.0  # standard deviations


@dataclass(frozen=True, kw_only=True, slots=True)
class LogisticEncoder:
    """What the columns mean.

    Attributes:
        tokens: known ids of each token feature, ascending.
        history: known ids of each history feature, ascending.
        mean_F: means of the dense inputs.
        spread_F: their standard deviations; 1 where an input is constant.
        num_surfaces: S.
    """

    tokens: dict[str, IntArray]
    history: dict[str, IntArray]
    mean_F: FloatArray
    spread_F: FloatArray
    num_surfaces: int

    @staticmethod
    def from_inputs(inputs: LogisticInputs) -> LogisticEncoder:
        """Learn vocabularies and moments; labels play no part."""
        mean_F = inputs.dense_NF.mean(axis=0, dtype=np.float64)
        spread_F = inputs.dense_NF.std(axis=0, dtype=np.float64)
        return LogisticEncoder(
            tokens={column.name: _frequent(column.id_V, _MIN_TOKEN_COUNT) for column in inputs.tokens},
            history={column.name: _frequent(column.id_V, _MIN_HISTORY_COUNT) for column in inputs.history},
            mean_F=mean_F.astype(np.float32),
            spread_F=np.where(spread_F > 1e-6, spread_F, 1.0).astype(np.float32),
            num_surfaces=inputs.num_surfaces,
        )

    @property
    def num_columns(self) -> int:
        """Columns C of the design."""
        vocabularies = (*self.tokens.values(), *self.history.values())
        num_dense = int(self.mean_F.size)
        return sum(len(ids) for ids in vocabularies) + num_dense + self.num_surfaces * (num_dense + 1)

    def design(self, inputs: LogisticInputs) -> DesignMatrix:
        """Encode rows; ids without a column add nothing.

        Args:
            inputs: features of N rows of the layout that was learned from.

        Returns:
            float32 CSR [N, C].

        Raises:
            ConfigError: the features are others than those learned from.
        """
        names = ([column.name for column in inputs.tokens], [column.name for column in inputs.history])
        if names != (list(self.tokens), list(self.history)) or inputs.dense_NF.shape[1] != self.mean_F.size:
            raise ConfigError(
                "The rows carry other features than the logistic baseline was fitted on.",
                remedy="Fit it again with the present contract.",
            )
        standard_NF = (inputs.dense_NF - self.mean_F) / self.spread_F
        standard_NF = np.clip(standard_NF, -_DENSE_LIMIT, _DENSE_LIMIT).astype(np.float32)
        with_one_NF = np.pad(standard_NF, ((0, 0), (1, 0)), constant_values=1.0)
        interaction_NF = (_INTERACTION_SCALE * with_one_NF).astype(np.float32)
        blocks = [
            *(_bag(column, self.tokens[column.name], scale=_TOKEN_SCALE) for column in inputs.tokens),
            *(_bag(column, self.history[column.name], scale=_HISTORY_SCALE) for column in inputs.history),
            _by_group(standard_NF, np.zeros(inputs.size, dtype=np.int64), num_groups=1),
            _by_group(interaction_NF, inputs.surface_N, num_groups=self.num_surfaces),
        ]
        return sparse.csr_array(sparse.hstack(blocks, format="csr", dtype=np.float32))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays for safetensors and a JSON-ready configuration."""
        arrays: dict[str, NDArray[Any]] = {"mean": self.mean_F, "spread": self.spread_F}
        arrays.update({f"token.{name}": ids for name, ids in self.tokens.items()})
        arrays.update({f"history.{name}": ids for name, ids in self.history.items()})
        return arrays, {
            "tokens": list(self.tokens), "history": list(self.history), "num_surfaces": self.num_surfaces
        }  # fmt: skip

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> LogisticEncoder:
        """Rebuild the encoder; a missing array or key raises KeyError."""
        return LogisticEncoder(
            tokens={name: np.asarray(arrays[f"token.{name}"]) for name in config["tokens"]},
            history={name: np.asarray(arrays[f"history.{name}"]) for name in config["history"]},
            mean_F=np.asarray(arrays["mean"]),
            spread_F=np.asarray(arrays["spread"]),
            num_surfaces=int(config["num_surfaces"]),
        )


def _frequent(id_V: IntArray, min_count: int) -> IntArray:
    """Ids seen often enough, ascending."""
    unique, count = np.unique(id_V, return_counts=True)
    return unique[count >= min_count].astype(np.int64)


def _bag(column: IdColumn, known: IntArray, *, scale: float) -> DesignMatrix:
    """Known ids of each row, each with weight scale / (ids of the row): [N, known ids]."""
    num_rows = column.length_N.size
    row_V = np.repeat(np.arange(num_rows), column.length_N)
    position_V = np.searchsorted(known, column.id_V)
    inside_V = position_V < known.size
    inside_V[inside_V] = known[position_V[inside_V]] == column.id_V[inside_V]
    weight_V = (scale / column.length_N[row_V[inside_V]]).astype(np.float32)
    length_N = np.bincount(row_V[inside_V], minlength=num_rows)
    indptr = np.concatenate(([0], np.cumsum(length_N))).astype(np.int32)
    bag = sparse.csr_array(
        (weight_V, position_V[inside_V].astype(np.int32), indptr), shape=(num_rows, known.size), dtype=np.float32
    )
    bag.sum_duplicates()
    return bag


def _by_group(value_NF: FloatArray, group_N: IntArray, *, num_groups: int) -> DesignMatrix:
    """Put each row's values into the columns of its group: [N, groups * F]."""
    num_rows, num_values = value_NF.shape
    column_NF = group_N[:, None] * num_values + np.arange(num_values)[None, :]
    return sparse.csr_array(
        (
            np.ascontiguousarray(value_NF).ravel(),
            column_NF.ravel().astype(np.int32),
            (np.arange(num_rows + 1) * num_values).astype(np.int32),
        ),
        shape=(num_rows, num_groups * num_values),
        dtype=np.float32,
    )
