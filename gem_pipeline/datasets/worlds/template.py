"""The packaged contract of the worlds, with a name and a size filled in."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from gem_pipeline.atomic import write_text
from gem_pipeline.datasets.worlds.catalog import world_named
from gem_pipeline.errors import ConfigError


def world_contract(name: str, *, events: int) -> str:
    """Text of the contract of a world.

    Raises:
        ConfigError: there is no such world, or the number of events is impossible.
    """
    world = world_named(name)
    if not 10_000 <= events <= 10**10:
        raise ConfigError(
            f"A world of {events} events was asked for.", remedy="Ask for 10 000 or more (--events), up to 10^10."
        )
    text = (files("gem_pipeline") / "datasets" / "world.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^name: .*$", f"name: {world.name}", text)
    text = re.sub(r"(?m)^description: .*$", f'description: "{world.property}"', text)
    return re.sub(r"(?m)^(world: \{name: )\w+(, events: )\d+", rf"\g<1>{world.name}\g<2>{events}", text)


def settle_world(home: Path, name: str, *, events: int) -> tuple[Path, Path]:
    """Give a world a home of its own under the user's, with its contract; the Spark jars are shared.

    Returns:
        The world's home and its contract.

    Raises:
        ConfigError: there is no such world, the number of events is impossible, or the world was settled
            with another size or changed by hand.
    """
    text, own = world_contract(name, events=events), home / "worlds" / name
    contract = own / "contract.yaml"
    if contract.exists() and contract.read_text(encoding="utf-8") != text:
        raise ConfigError(
            f"World {name} has another contract in {contract}.",
            remedy=f"Run it with `gem demo --home {own} --contract {contract}`, or remove {own} to start anew.",
        )
    write_text(contract, text)
    if not (own / "jars").exists() and (home / "jars").exists():
        (own / "jars").symlink_to((home / "jars").absolute())
    return own, contract
