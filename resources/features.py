"""Feature derivation as a resource: Spark starts when the first table is derived, not before."""

from typing import TYPE_CHECKING

import dagster as dg

from resources.settings import GemSettings

if TYPE_CHECKING:
    from resources.derivation import Derivation


class FeatureDerivation(dg.ConfigurableResource):
    """Makes the derivation of silver tables.

    Attributes:
        master: Spark master URL; empty: GEM_SPARK_MASTER, else all cores of this machine.
    """

    master: str = ""

    def derivation(self, settings: GemSettings) -> "Derivation":
        """The derivation of a contract in a home."""
        from resources.derivation import Derivation
        from resources.lake import DeltaLake
        from resources.spark_session import local_session

        home = settings.home_path()
        return Derivation(
            contract=settings.load_contract(), lake=DeltaLake(str(home / "lake")),
            spark_provider=lambda: local_session(home, self.master), home=home,
        )  # fmt: skip
