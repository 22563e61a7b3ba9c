"""The one Dagster `Definitions`; `workspace.yaml` names it. Importing it reads the contract and nothing else."""

from __future__ import annotations

import dagster as dg

from jobs.graph import build_definitions

defs: dg.Definitions = build_definitions()
