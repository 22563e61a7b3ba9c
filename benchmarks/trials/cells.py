"""One cell: a model trained on days of a log from one seed, its scores of later days kept on disk.

Days pass in order. A day that is judged is scored before anything of it is learnt; a model that stops learning
early scores the later days with the same weights. A cell that is there is not run again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._lines import commit
from benchmarks.trials.homes import Log, derived
from benchmarks.trials.inputs import with_user_id, without
from gem_pipeline.atomic import write_text
from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.config.ladder import RunConfig, run_config
from gem_pipeline.models.configuration import read_config
from gem_pipeline.models.flops import count_parameters, forward_flops
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.runs.context import label_rates
from gem_pipeline.runs.moments import fit_moments
from gem_pipeline.training.loop import LossCurve, joint_loss, learn, score
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.plan import DayPlan
from gem_pipeline.training.seeding import numpy_generator, seed_torch

SCORING_BATCH = 512
COUNTED_EXAMPLES = 256
BACKWARD = 3.0  # forward passes that a training step costs, about


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a cell is.

    Attributes:
        log: key of the log.
        model: size and variants, as the product's `size` setting.
        seed: root seed.
        learnt: days that are learnt, in order.
        judged: days that are scored.
        surfaces: surfaces whose rows are learnt and scored; none named: all.
        objectives: objectives that are learnt; none named: all.
        missing: inputs that nobody sees, see `inputs.without`.
        history: events that the model sees at most, also to count matches unless `foundation` says otherwise; 0: as
            many as its size has.
        foundation: fields of the model's configuration that differ.
        training: fields of the training configuration that differ.
        replay_days: earlier learnt days that are learnt again with each day, as the plan of a day has it.
        user_rows: rows of a table of user ids, which the model is given besides; 0: none.
        pooled: the days are one shuffled set, passed over `epochs` times; else each day is learnt in turn.
    """

    log: str
    model: str
    seed: int = 0
    learnt: tuple[str, ...]
    judged: tuple[str, ...]
    surfaces: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    history: int = 0
    foundation: tuple[tuple[str, Any], ...] = ()
    training: tuple[tuple[str, Any], ...] = ()
    replay_days: int = 0
    user_rows: int = 0
    pooled: bool = False

    @property
    def key(self) -> str:
        """Content id."""
        known = {name: value for name, value in asdict(self).items() if value}  # a new field changes no old key
        return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where the cell is kept."""
        return Log.parse(self.log).home / "cells" / self.key

    @property
    def is_done(self) -> bool:
        """Whether its scores are there."""
        return (self.folder / "cell.json").exists()

    def replayed(self, day: str) -> tuple[str, ...]:
        """Days that are learnt again with a day, as `DayPlan.replayed` has it."""
        plan = DayPlan(date=day, previous_date=None, contract_path="", home="", replay_days=self.replay_days)
        return plan.replayed(self.learnt)

    def run_config(self) -> RunConfig:
        """The product's configuration with what differs."""
        run = run_config(self.model)
        foundation = read_config(type(run.foundation), run.foundation.to_dict() | dict(self.foundation))
        if self.history:
            foundation = replace(foundation, history=replace(foundation.history, max_events=self.history))
            if "matched_events" not in dict(self.foundation):
                foundation = replace(foundation, matched_events=min(self.history, foundation.matched_events))
        return replace(run, foundation=foundation, training=replace(run.training, **dict(self.training)))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A finished trial.

    Attributes:
        prob_NK: probabilities of the rows of the judged days, in storage order; NaN where a row was not scored.
        facts: seconds, examples, FLOPs an example, parameters, commit.
    """

    trial: Trial
    prob_NK: NDArray[np.float32]
    facts: dict[str, Any]


def training_flops(facts: Mapping[str, Any]) -> float:
    """FLOPs of a training: a step costs about three forward passes."""
    return BACKWARD * facts["flops_per_example"] * facts["examples"]


def cells(trials: Sequence[Trial], *, jobs: int = 1) -> list[Cell]:
    """Run what is missing, several at a time, and load all."""
    missing = [trial for trial in dict.fromkeys(trials) if not trial.is_done]
    for log in dict.fromkeys(trial.log for trial in missing):
        derived(Log.parse(log))
    if jobs > 1 and len(missing) > 1:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            for done, _ in enumerate(pool.map(run_trial, missing), start=1):
                print(f"{done} of {len(missing)} cells", flush=True)
    else:
        for done, trial in enumerate(missing, start=1):
            run_trial(trial)
            print(f"{done} of {len(missing)} cells", flush=True)
    return [load(trial) for trial in trials]


def load(trial: Trial) -> Cell:
    """A finished cell."""
    prob_NK = np.load(trial.folder / "prob.npy", allow_pickle=False)
    return Cell(trial=trial, prob_NK=prob_NK, facts=json.loads((trial.folder / "cell.json").read_text()))


def run_trial(trial: Trial) -> None:
    """Train, score, and keep the scores; the file that marks the cell as done is written last."""
    torch.set_num_threads(1)
    log = Log.parse(trial.log)
    contract, run = derived(log), trial.run_config()
    reader = DayReader(contract, log.home / "lake", window=run.foundation.read_window, config=run.reading)
    seed_torch(trial.seed, "trial")
    began, learner = time.perf_counter(), _Learner(trial, run)
    scores: list[NDArray[np.float32]] = []
    days = sorted({*trial.learnt, *trial.judged})
    if trial.pooled:
        learner.learn([part for day in trial.learnt for part in _parts(reader, trial, day)], "all")
    for day in days:
        parts = _parts(reader, trial, day)
        if day in trial.judged:
            scores += [learner.score(part) for part in parts]
        if day in trial.learnt and not trial.pooled:
            learner.learn([part for again in trial.replayed(day) for part in _parts(reader, trial, again)] + parts, day)
    assert learner.model is not None
    trial.folder.mkdir(parents=True, exist_ok=True)
    np.save(trial.folder / "prob.npy", np.concatenate(scores))
    losses = learner.curve.losses
    facts = {
        "trial": asdict(trial),
        "seconds": time.perf_counter() - began,
        "train_seconds": learner.seconds,
        "examples": learner.curve.num_examples,
        "flops_per_example": learner.flops,
        "parameters": asdict(count_parameters(learner.model)),
        "losses": losses[:: 1 + len(losses) // 200],
        "commit": commit(),
    }
    write_text(trial.folder / "cell.json", json.dumps(facts))


def _parts(reader: DayReader, trial: Trial, day: str) -> list[EncodedDay]:
    """A day with the labels known on the last learnt day, without what the trial leaves out, with what it adds."""
    found = (without(part, trial.missing) for part in reader.day(day, as_of=max(trial.learnt)))
    return [with_user_id(part, trial.user_rows) for part in found]


class _Learner:
    """A model that comes to life with its first day, as the product's does."""

    def __init__(self, trial: Trial, run: RunConfig) -> None:
        self.trial, self.run, self.curve = trial, run, LossCurve()
        self.seconds, self.flops = 0.0, 0.0
        self.model: FoundationModel | None = None

    def learn(self, parts: list[EncodedDay], label: str) -> None:
        """Pass over some parts as often as the configuration says."""
        parts = [_only(part, self.trial.objectives) for part in parts]
        began = time.perf_counter()
        if self.model is None:
            self.model = FoundationModel(parts[0].layout, self.run.foundation)
            by_surface = not self.run.foundation.surfaces_alike
            self.model.init_bias(torch.from_numpy(label_rates(parts, by_surface=by_surface)))
            fit_moments(self.model, parts)
            self.optimizer = ModelOptimizer(self.model, self.run.training)
        else:
            fit_moments(self.model, parts, late=True)
        size, epochs = self.run.training.batch_size, self.run.training.epochs
        rows = [_chosen(part, self.trial.surfaces) for part in parts]
        self.optimizer.begin_day(sum(-(-len(chosen) // size) for chosen in rows) * epochs)
        for epoch in range(epochs):
            rng = numpy_generator(self.trial.seed, "trial", label, str(epoch))
            self.model.expect_news(epoch == 0)
            learn(self.model, self.optimizer, self._batches(parts, rows, size, rng), joint_loss, self.curve)
        self.seconds += time.perf_counter() - began

    def score(self, part: EncodedDay) -> NDArray[np.float32]:
        """Probabilities of a part by the weights that would be served; NaN where nothing was learnt yet."""
        prob_NK = np.full(part.label_NK.shape, np.nan, dtype=np.float32)
        rows = _chosen(part, self.trial.surfaces)
        if self.model is None or not len(rows):
            return prob_NK
        newest = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.optimizer.served_weights())
        batches = (
            part.batch(rows[i : i + SCORING_BATCH], share=self.run.reading.share_histories)
            for i in range(0, len(rows), SCORING_BATCH)
        )
        prob_NK[rows] = score(self.model, batches).prob_NK
        if not self.flops:
            self.flops = forward_flops(self.model, part.batch(rows[:COUNTED_EXAMPLES]))
        self.model.load_state_dict(newest)
        return prob_NK

    def _batches(
        self, parts: list[EncodedDay], rows: list[NDArray[np.int64]], size: int, rng: np.random.Generator
    ) -> Iterator[Batch]:
        for place in rng.permutation(len(parts)).tolist():
            order = rng.permutation(rows[place])
            for first in range(0, len(order), size):
                yield parts[place].batch(order[first : first + size], share=self.run.reading.share_histories)


def _chosen(part: EncodedDay, surfaces: tuple[str, ...]) -> NDArray[np.int64]:
    """Rows of the named surfaces, or all."""
    if not surfaces:
        return np.arange(part.size)
    wanted = [place for place, name in enumerate(part.layout.surfaces) if name in surfaces]
    return np.flatnonzero(np.isin(part.surface_N, wanted))


def _only(part: EncodedDay, objectives: tuple[str, ...]) -> EncodedDay:
    """The part with the labels of the named objectives, or of all."""
    if not objectives:
        return part
    chosen_K = np.isin(part.layout.objectives, objectives)
    return replace(part, label_NK=part.label_NK * chosen_K, mask_NK=part.mask_NK & chosen_K)
