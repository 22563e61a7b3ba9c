"""The foundation model's day: the model of d-1 scores day d, then learns from it. One trainer process a run."""

from collections.abc import Iterator

import dagster as dg

from assets.models import model_results, score_result
from assets.partitions import DAYS, ONE_RUN, days_back, multi_asset
from gem_pipeline.training.plan import GEM, LOGISTIC
from resources.launcher import TrainerLauncher
from resources.settings import GemSettings

YESTERDAYS_MODEL = dg.AssetDep("foundation_model", partition_mapping=days_back(1, 1))
TASKS = ("score", "foundation", "baseline")


@multi_asset(
    name="foundation_day", group_name="foundation", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="trainer",
    specs=[
        dg.AssetSpec(
            "teacher_outputs", deps=[YESTERDAYS_MODEL, "examples"], kinds={"pytorch", "deltalake"}, code_version="1",
            description="Soft labels of day d by the model of d-1, which has never seen d's labels.",
        ),
        dg.AssetSpec(
            "foundation_model", deps=[YESTERDAYS_MODEL, "examples", "attributed_conversions"],
            kinds={"pytorch", "mlflow"}, code_version="1",
            description="The model of d-1, trained further on day d, all surfaces and objectives jointly, and on the "
            "conversions that mature on d.",
        ),
        dg.AssetSpec(
            "logistic_regression", deps=["examples", "attributed_conversions"],
            kinds={"scikitlearn", "mlflow"}, code_version="1",
            description="The plain baseline: learns from labels before d only.",
        ),
    ],
)  # fmt: skip
def foundation_day(
    context: dg.AssetExecutionContext, settings: GemSettings, launcher: TrainerLauncher
) -> Iterator[dg.MaterializeResult]:
    """Score, then train, in date order."""
    reports = launcher.train(context, settings.plans(context.partition_keys, TASKS))
    yield model_results(context, "foundation_model", reports, GEM)
    # After what it depends on, if only of the day before.
    yield score_result(context, "teacher_outputs", settings, reports)
    yield model_results(context, "logistic_regression", reports, LOGISTIC)
