"""One training of a peer for one objective, its scores kept on disk like those of a cell; what is there stays."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._lines import commit
from benchmarks._peers import peer_python
from benchmarks.peers.export import exported
from benchmarks.trials.cells import Cell, Trial
from benchmarks.trials.homes import ROOT, Log, derived
from gem_pipeline.atomic import write_text

LIGHTGBM, LOGISTIC = "LightGBM", "logistic"
NEURAL = ("DIN", "DCNv2", "FinalMLP", "DIEN", "TransAct")
PEERS = (LIGHTGBM, LOGISTIC, *NEURAL)
DETERMINISTIC = (LOGISTIC,)  # the same whatever the seed
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True, kw_only=True)
class PeerTrial:
    """What is trained.

    Attributes:
        log: key of the log.
        peer: one of `PEERS`.
        objective: whose labels are learnt.
        seed: of everything drawn.
        learnt: days that are learnt.
        chosen_on: the day that training stops by, where a peer stops early.
        judged: days that are scored.
        parameters: hyper-parameters.
    """

    log: str
    peer: str
    objective: str
    seed: int = 0
    learnt: tuple[str, ...]
    chosen_on: str
    judged: tuple[str, ...]
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def folder(self) -> Path:
        """Where its scores are kept."""
        log = Log.parse(self.log)
        content = json.dumps([asdict(self), derived(log).content_hash], sort_keys=True)
        return log.home / "peers" / hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def is_done(self) -> bool:
        """Whether its scores are there."""
        return (self.folder / "cell.json").exists()


@dataclass(frozen=True, kw_only=True)
class PeerScores:
    """A finished trial.

    Attributes:
        prob_N: probabilities of the rows of the judged days, in storage order.
        frozen_N: the same where they see the log as it was at the end of the last learnt day.
        facts: seconds, examples, FLOPs an example where they were counted, commit.
    """

    trial: PeerTrial
    prob_N: NDArray[np.float32]
    frozen_N: NDArray[np.float32]
    facts: dict[str, Any]


def peer_scores(trial: PeerTrial) -> PeerScores:
    """Train unless it is done, and load.

    Raises:
        RuntimeError: the training failed; what it told is in the message.
    """
    if not trial.is_done:
        _run(trial)
    return PeerScores(
        trial=trial,
        prob_N=np.load(trial.folder / "prob.npy", allow_pickle=False),
        frozen_N=np.load(trial.folder / "frozen.npy", allow_pickle=False),
        facts=json.loads((trial.folder / "cell.json").read_text(encoding="utf-8")),
    )


def as_cell(scores: Mapping[str, PeerScores], seed: int, *, frozen: bool = False) -> Cell:
    """Scores by objective, or those of the frozen log, as one cell, NaN in the columns of other objectives."""
    some = next(iter(scores.values()))
    log = Log.parse(some.trial.log)
    names = [objective.name for objective in derived(log).objectives]
    prob_NK = np.full((len(some.prob_N), len(names)), np.nan, dtype=np.float32)
    for objective, found in scores.items():
        prob_NK[:, names.index(objective)] = found.frozen_N if frozen else found.prob_N
    trial = Trial(
        log=some.trial.log, model=some.trial.peer, seed=seed, learnt=some.trial.learnt, judged=some.trial.judged
    )  # fmt: skip
    return Cell(trial=trial, prob_NK=prob_NK, facts={name: found.facts for name, found in scores.items()})


def _run(trial: PeerTrial) -> None:
    """Train in a process of its own, by the interpreter of its family; the file that marks it as done is last."""
    log = Log.parse(trial.log)
    trial.folder.mkdir(parents=True, exist_ok=True)
    export = exported(log, tuple(sorted({*trial.learnt, trial.chosen_on, *trial.judged})))
    frozen = exported(replace(log, frozen=max(trial.learnt)), trial.judged)
    task = {name: value for name, value in asdict(trial).items() if name != "peer"}
    task |= {
        "export": str(export),
        "frozen": str(frozen),
        "target": str(trial.folder),
        "parameters": dict(trial.parameters),
    }
    write_text(trial.folder / "task.json", json.dumps(task))
    python, module = _program(trial.peer)
    told = subprocess.run(
        [python, "-m", module, str(trial.folder / "task.json")], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    if told.returncode:
        raise RuntimeError(f"{trial.peer} failed on {trial.objective}: {told.stderr[-2000:]}")
    facts = json.loads((trial.folder / "facts.json").read_text(encoding="utf-8"))
    write_text(trial.folder / "cell.json", json.dumps(facts | {"trial": asdict(trial), "commit": commit()}))


def _program(peer: str) -> Sequence[str]:
    """Interpreter and module of a peer."""
    if peer == LOGISTIC:
        return sys.executable, "benchmarks.peers.linear"
    family = "boosting" if peer == LIGHTGBM else "neural"
    return peer_python(family), f"benchmarks.peers.{family}"
