"""The cells of the study, in an order of which every prefix is useful: cheap ones first, over all axes at once.

A later seed, a later log and a further axis weigh as a multiple of their cost. What does not fit into an hour is no
cell, and the plan ends where its budget does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.scaling_study.ladder import (
    DCNV2,
    DLRM,
    GEM,
    HISTORY,
    HSTU,
    INTERFORMER,
    MODELS,
    PAIRED,
    RATE,
    RATES,
    RUNGS,
    TOLD,
    TOWERED,
    WUKONG,
    counting,
    overrides,
    training,
)  # fmt: skip
from benchmarks.trials.cells import BACKWARD, Trial
from benchmarks.trials.homes import REAL as REAL_LOGS
from benchmarks.trials.homes import Log
from benchmarks.trials.movies import MOVIES

SIZE_DATA, LENGTHS, SURFACES, CHOICE = "size_data", "history", "surfaces", "rates"
CHOICE_DAY, JUDGED = "2022-05-05", ("2022-05-06", "2022-05-07")
LAST_LEARNT = 4  # of May
BATCH = 256
CELL_SECONDS, PLAN_SECONDS = 3600.0, 24 * 3600.0
SEED_WEIGHT = (1.0, 4.0, 12.0)
AXIS_WEIGHT, EXTRA_WEIGHT = {CHOICE: 0.0, SIZE_DATA: 1.0, LENGTHS: 1.0, SURFACES: 3.0}, 2.0

# Forward MFLOP an example, counted on KuaiRand's rows (newest 64 events, many users have fewer).
MFLOP = {
    GEM: (0.26, 1.2, 3.6, 9.5, 23.3, 58.5), INTERFORMER: (0.23, 1.1, 3.1, 9.2, 22.5, 59.4),
    WUKONG: (0.32, 1.1, 3.9, 9.5, 24.0, 62.0), DCNV2: (0.24, 0.92, 3.0, 10.9, 25.6, 58.3),
    DLRM: (0.29, 0.98, 3.1, 8.5, 27.1, 54.0), HSTU: (0.21, 0.97, 2.7, 7.6, 18.9, 47.6),
    TOLD: (0.4, 1.3, 3.6, 12.0, 27.0, 60.0), PAIRED: (0.4, 1.3, 3.6, 12.0, 27.0, 60.0),
    TOWERED: (0.3, 1.3, 4.0, 10.5, 25.0, 61.0),
}  # fmt: skip
# The same of size s2 with full histories of a length; on the log of movies few are that long.
MOVIE_LENGTHS, MOVIE_EVENTS = (16, 64, 256, 1024), 256
LENGTH_MFLOP = {
    GEM: {16: 2.1, 64: 5.0, 256: 16.2, 1024: 60.6, 4096: 238.0},
    INTERFORMER: {16: 1.6, 64: 3.8, 256: 24.2, 1024: 295.0},  # attention over all pairs: 4096 is out of reach
    WUKONG: {16: 3.9, 64: 4.0, 256: 4.2, 1024: 5.3, 4096: 9.8},
    DLRM: {16: 3.1, 64: 3.1, 256: 3.2, 1024: 3.8, 4096: 5.9},
}
# Measured on one thread of two busy cores: GFLOP/s of training, and seconds an example beside the products.
PACE = {
    GEM: 20.0, TOWERED: 20.0, INTERFORMER: 20.0, WUKONG: 25.0, DCNV2: 40.0, DLRM: 40.0, HSTU: 20.0, TOLD: 40.0,
    PAIRED: 40.0,
}  # fmt: skip
EXAMPLE_SECONDS = {
    GEM: 6e-4, TOWERED: 8e-4, INTERFORMER: 5e-4, WUKONG: 3e-4, DCNV2: 2e-4, DLRM: 2e-4, HSTU: 5e-4, TOLD: 4e-4,
    PAIRED: 5e-4,
}  # fmt: skip
CELL_START_SECONDS = 8.0
CONTROLS = {TOLD: DCNV2, PAIRED: DCNV2, TOWERED: GEM}  # on a world only; beside whom


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A log of the study.

    Attributes:
        log: the log.
        learnt: days that may be learnt; all amounts end on the last of them.
        judged: days that are judged, behind the learnt ones.
        amounts: numbers of learnt days.
        examples: impressions a day, about.
        surfaces: nested sets are the first ones of these; models are judged on the first.
        weight: in the order of cells.
        lengths_batch: examples a step where lengths are compared: 64 histories of 4096 are a quarter of a million.
    """

    log: Log
    learnt: tuple[str, ...]
    judged: tuple[str, ...]
    amounts: tuple[int, ...]
    examples: int
    surfaces: tuple[str, ...]
    weight: float = 1.0
    lengths_batch: int = 64


def _days(month: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{month}-{day:02d}" for day in range(first, last + 1))


def _world(log: Log, *, amounts: tuple[int, ...], examples: int, weight: float) -> Source:
    """A world with impressions from 2026-01-08 on (seven days of history before), all within January."""
    days = _days("2026-01", 8, 7 + log.days)
    return Source(
        log=log, learnt=days[:-1], judged=days[-1:], amounts=amounts, examples=examples,
        surfaces=("feed", "photos", "messaging"), weight=weight,
    )  # fmt: skip


REAL = Source(
    log=Log(), learnt=_days("2022-04", 25, 30) + _days("2022-05", 1, LAST_LEARNT), judged=JUDGED, amounts=(1, 3, 10),
    examples=17_000, surfaces=("tab_1", "tab_0", "tab_4", "tab_2", "tab_6", "other"),
)  # fmt: skip
SMALL_WORLD = _world(Log(name="everyday", events=400_000, days=10), amounts=(1, 3, 9), examples=5_400, weight=1.0)
WORLD = _world(Log(name="everyday", events=4_000_000, days=10), amounts=(1, 3, 9), examples=54_000, weight=1.0)
ENTANGLED = _world(  # the one world whose logit is no sum of a few terms: here size may pay
    Log(name="entangled", events=4_000_000, days=10), amounts=(1, 3, 9), examples=51_000, weight=0.3
)
LARGE_WORLD = _world(Log(name="everyday", events=20_000_000, days=10), amounts=(1, 3, 9), examples=270_000, weight=2.0)
LONG_WORLD = Source(  # four thousand events of a user before the first impression
    log=Log(name="long_range", events=3_000_000, days=6, events_a_day=120, history_days=42),
    learnt=_days("2026-02", 12, 15), judged=_days("2026-02", 16, 17), amounts=(4,), examples=11_000,
    surfaces=("feed", "photos", "messaging"), weight=2.0,
)  # fmt: skip
MOVIE_LOG = Source(  # half of the judged ratings have more than 130 earlier ones of the user, one in a hundred 1100
    log=Log(name=MOVIES), learnt=_days("2000-11", 20, 30) + _days("2000-12", 1, 6), judged=_days("2000-12", 7, 8),
    amounts=(17,), examples=15_000, surfaces=("site",), lengths_batch=256,
)  # fmt: skip
SOURCES = {
    source.log.key: source for source in (REAL, SMALL_WORLD, WORLD, ENTANGLED, LARGE_WORLD, LONG_WORLD, MOVIE_LOG)
}


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A cell of the study.

    Attributes:
        axis: what is varied.
        architecture: name of the ladder.
        size: rung of it.
        days: learnt days.
        history: events that the model sees at most.
        num_surfaces: surfaces that are learnt; 0: all, and all are judged.
        trial: what is trained.
        seconds: estimate.
        rank: place in the order.
    """

    axis: str
    architecture: str
    size: str
    days: int
    history: int
    num_surfaces: int
    trial: Trial
    seconds: float
    rank: float

    @property
    def key(self) -> tuple[str, str]:
        """What a line of the points is known by: the same training may be judged on two axes."""
        return self.axis, self.trial.key

    @property
    def name(self) -> str:
        """For people."""
        surfaces = f" surfaces {self.num_surfaces}" if self.num_surfaces else ""
        rate = f" rate {dict(self.trial.training)['dense_lr']}" if self.axis == CHOICE else ""
        return (
            f"{self.axis} {self.trial.log} {self.architecture} {self.size} days {self.days} history {self.history}"
            f"{surfaces}{rate} seed {self.trial.seed}"
        )


def planned(
    source: Source, architecture: str, size: str, *, days: int, seed: int, history: int = 0, num_surfaces: int = 0,
    rate: float = 0.0,
) -> Planned:  # fmt: skip
    """One cell with its estimate; a length of history, a number of surfaces or a rate is the axis where it is named."""
    axis = LENGTHS if history else SURFACES if num_surfaces else CHOICE if rate else SIZE_DATA
    seen, is_real = history or HISTORY, source.log.name in REAL_LOGS
    trial = Trial(
        log=source.log.key, model=MODELS[architecture], seed=seed, learnt=source.learnt[-days:],
        judged=source.judged, surfaces=source.surfaces[:num_surfaces], history=seen,
        foundation=overrides(architecture, size, seen) + (() if is_real else counting(architecture)),
        training=training(rate or RATE[architecture], source.lengths_batch if history else BATCH),
    )  # fmt: skip
    counted = min(history, MOVIE_EVENTS) if source is MOVIE_LOG else history
    mflop = LENGTH_MFLOP[architecture][counted] if history else MFLOP[architecture][int(size[1:])]
    steps = BACKWARD * mflop * 1e-3 / PACE[architecture]  # GFLOP of an example that is learnt, over GFLOP/s
    passed = source.examples * (days + len(source.judged) / BACKWARD)  # scoring is a forward pass
    seconds = CELL_START_SECONDS + passed * (steps + EXAMPLE_SECONDS[architecture])
    weight = source.weight * SEED_WEIGHT[seed] * AXIS_WEIGHT[axis] * (EXTRA_WEIGHT if architecture == HSTU else 1.0)
    return Planned(
        axis=axis, architecture=architecture, size=size, days=days, history=seen, num_surfaces=num_surfaces,
        trial=trial, seconds=seconds, rank=seconds * weight,
    )  # fmt: skip


def _sizes_and_data(seed: int) -> Iterator[Planned]:
    for source in (REAL, WORLD, ENTANGLED):
        for architecture, rungs in RUNGS.items():
            for size in rungs:
                for days in source.amounts if architecture not in CONTROLS or source is not REAL else ():
                    yield planned(source, architecture, size, days=days, seed=seed)


def _large_world() -> Iterator[Planned]:
    for architecture in (GEM, INTERFORMER, DLRM):
        for size in list(RUNGS[architecture])[:4]:
            for days in LARGE_WORLD.amounts:
                yield planned(LARGE_WORLD, architecture, size, days=days, seed=0)


def _lengths(seed: int) -> Iterator[Planned]:
    for architecture in LENGTH_MFLOP:
        for history in MOVIE_LENGTHS:
            yield planned(MOVIE_LOG, architecture, "s2", days=MOVIE_LOG.amounts[0], seed=seed, history=history)
    for architecture, lengths in LENGTH_MFLOP.items():
        for history in lengths:
            yield planned(LONG_WORLD, architecture, "s2", days=LONG_WORLD.amounts[0], seed=seed, history=history)


def _surfaces(seed: int) -> Iterator[Planned]:
    for source in (REAL, WORLD):
        for architecture in (GEM, INTERFORMER, WUKONG, DCNV2, DLRM):
            for number in range(1, 1 + len(source.surfaces)):
                yield planned(source, architecture, "s2", days=source.amounts[1], seed=seed, num_surfaces=number)


def _rates() -> Iterator[Planned]:
    """The search that `RATE` is the outcome of: as many cells an architecture, on a day that is judged nowhere else."""
    source = replace(REAL, judged=(CHOICE_DAY,))
    for architecture in (name for name in RUNGS if name not in CONTROLS):  # rates from elsewhere
        for rate in RATES:
            yield planned(source, architecture, "s2", days=source.amounts[1], seed=0, rate=rate)


def _all() -> Iterator[Planned]:
    yield from _rates()
    yield from _large_world()
    for seed in range(len(SEED_WEIGHT)):
        yield from _sizes_and_data(seed)
        yield from _lengths(seed)
        yield from _surfaces(seed)


def plan(budget_seconds: float = PLAN_SECONDS) -> list[Planned]:
    """All cells of at most an hour in their order, as far as the budget goes."""
    ordered = sorted(
        (cell for cell in _all() if cell.seconds <= CELL_SECONDS), key=lambda cell: (cell.rank, cell.name)
    )  # fmt: skip
    spent, chosen = 0.0, []
    for cell in ordered:
        if spent + cell.seconds <= budget_seconds:
            spent += cell.seconds
            chosen.append(cell)
    return chosen


def quick_plan() -> list[Planned]:
    """A handful of cells of seconds, over three sizes and two architectures."""
    return [
        planned(SMALL_WORLD, architecture, size, days=1, seed=0)
        for size in ("s0", "s1", "s2")
        for architecture in (GEM, DLRM)
    ]


def total_hours(cells: Sequence[Planned]) -> float:
    """CPU hours."""
    return sum(cell.seconds for cell in cells) / 3600.0
