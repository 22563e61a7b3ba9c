"""Optimisers: row-wise AdaGrad for embedding tables, AdamW for everything else, as one object."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_modules import EmbeddingCollection
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from gem_pipeline.training.settings import TrainConfig

_EMBEDDING, _DENSE, _NEWEST = "embedding", "dense", "newest"


def split_parameters(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Parameters of embedding tables and all others, by name."""
    tables = {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        if isinstance(module, EmbeddingCollection)
        for name, _ in module.named_parameters()
    }
    named = dict(model.named_parameters())
    return {n: p for n, p in named.items() if n in tables}, {n: p for n, p in named.items() if n not in tables}


class ModelOptimizer:
    """Steps a model; its state is a flat dictionary of tensors, so it is stored as safetensors."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.config = config
        self.steps = 0
        self._day_steps, self._day_total = 0, 1
        self._model = model
        self._average: dict[str, Tensor] = {n: p.detach().clone() for n, p in model.named_parameters()}
        embedding, dense = split_parameters(model)
        self._named = {_EMBEDDING: embedding, _DENSE: dense}
        decayed = [p for p in dense.values() if p.dim() >= 2]
        plain = [p for p in dense.values() if p.dim() < 2]
        self._optimizers: dict[str, torch.optim.Optimizer] = {
            _EMBEDDING: RowWiseAdagrad(list(embedding.values()), lr=config.embedding_lr, eps=1e-8),
            _DENSE: torch.optim.AdamW(
                [{"params": decayed, "weight_decay": config.weight_decay}, {"params": plain, "weight_decay": 0.0}],
                lr=config.dense_lr,
            ),
        }

    def begin_day(self, total_steps: int) -> None:
        """Start a day of `total_steps` steps: rates fall linearly to `final_rate` of themselves over it."""
        self._day_steps, self._day_total = 0, max(1, total_steps)

    def _rate_factor(self) -> float:
        warm = min(1.0, self.steps / self.config.warmup_steps) if self.config.warmup_steps else 1.0
        done = min(1.0, self._day_steps / self._day_total)
        return warm * (1.0 - (1.0 - self.config.final_rate) * done)

    def step(self, loss: Tensor) -> float:
        """Backward, clip, step; returns the norm of the dense gradient before clipping."""
        for optimizer in self._optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(self._named[_DENSE].values()), self.config.grad_clip)
        self.steps += 1
        factor = self._rate_factor()
        self._day_steps += 1
        for name, rate in ((_EMBEDDING, self.config.embedding_lr), (_DENSE, self.config.dense_lr)):
            for group in self._optimizers[name].param_groups:
                group["lr"] = rate * factor
            self._optimizers[name].step()
        self._update_average()
        return float(norm)

    @torch.no_grad()
    def _update_average(self) -> None:
        if self.config.averaging_horizon:
            share = 1.0 / min(1.0 + self.steps / 10, self.config.averaging_horizon)
            newest = [parameter.detach() for parameter in self._model.parameters()]
            torch._foreach_lerp_(list(self._average.values()), newest, share)

    @torch.no_grad()
    def reset(self, change: Callable[[], None]) -> None:
        """Let `change` overwrite weights of the model; the running averages move by as much."""
        before = {name: p.detach().clone() for name, p in self._model.named_parameters()}
        change()
        for name, parameter in self._model.named_parameters():
            self._average[name] += parameter.detach() - before[name]

    @torch.no_grad()
    def restart_rows(self, rows_by_table: dict[str, Tensor]) -> None:
        """Let rows of embedding tables begin anew: as the last row, that of unknown ids, without a past of their own.

        Args:
            rows_by_table: int64 rows by name of the table, in every collection that has it.
        """
        for name, parameter in self._named[_EMBEDDING].items():
            rows = rows_by_table.get(name.split(".")[-2])
            if rows is None or not len(rows):
                continue
            for values in (parameter, self._average[name]):
                values[rows] = values[-1].clone()
            state = self._optimizers[_EMBEDDING].state.get(parameter, {})
            if "sum" in state:
                state["sum"][rows] = 0.0

    def served_weights(self) -> dict[str, Tensor]:
        """The state dictionary to store and serve: averaged weights where averaging is on, buffers as they are."""
        weights = self._model.state_dict()
        return weights | self._average if self.config.averaging_horizon else weights

    def state(self) -> dict[str, Tensor]:
        """All optimiser state by parameter name; scalars as tensors."""
        flat = {"steps": torch.tensor([self.steps], dtype=torch.int64)}
        if self.config.averaging_horizon:
            flat |= {f"{_NEWEST}/{name}": p.detach().clone() for name, p in self._model.named_parameters()}
        for kind, optimizer in self._optimizers.items():
            for name, parameter in self._named[kind].items():
                for key, value in optimizer.state.get(parameter, {}).items():
                    flat[f"{kind}/{name}/{key}"] = torch.as_tensor(value).detach().clone().contiguous()
        return flat

    def load_state(self, flat: dict[str, Tensor]) -> None:
        """Restore `state()` on a model that holds the served weights; training continues bit by bit.

        The newest weights are put back into the model, the served ones become the running average.
        """
        self.steps = int(flat["steps"][0])
        self._average = {name: p.detach().clone() for name, p in self._model.named_parameters()}
        parameter = {(kind, name): p for kind, named in self._named.items() for name, p in named.items()}
        for path, value in flat.items():
            if path == "steps":
                continue
            kind, rest = path.split("/", 1)
            if kind == _NEWEST:
                with torch.no_grad():
                    self._model.get_parameter(rest).copy_(value)
                continue
            name, key = rest.rsplit("/", 1)
            self._optimizers[kind].state[parameter[kind, name]][key] = value.clone()
