"""The `gem` command line. Heavy libraries are imported inside the commands, so `gem --help` is instant."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from gem_pipeline.errors import ConfigError, GemError
from gem_pipeline.places import DEFAULT_DATA, contract_path, home_path, named_data

BROKEN_PIPE = 141  # what a shell reports for a program whose reader went away
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words after `gem`; those of the process when None.

    Returns:
        0, or the exit code of the error. Errors of ours are one sentence with a remedy on the error
        stream; GEM_DEBUG=1 adds the traceback.
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except GemError as error:
        if os.environ.get("GEM_DEBUG") == "1":
            traceback.print_exc()
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted; what was finished is kept, run the same command to go on.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return BROKEN_PIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gem", description="GEM: a foundation model for ads and its pipeline.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    init = commands.add_parser("init", help="write a commented data contract for your own tables")
    init.add_argument("path", nargs="?", type=Path, default=Path("contract.yaml"), help="file to write")
    _add_world(init, "write the contract of a simulated world instead (docs/worlds.md)")
    init.set_defaults(run=_init)

    check = commands.add_parser("check", help="validate a data contract and the tables it names")
    _add_places(check)
    check.set_defaults(run=_check)

    demo = commands.add_parser("demo", help="run the whole chain over the last days of a log")
    _add_places(demo)
    demo.add_argument("--days", type=int, default=5, help="number of scored and trained days (default 5)")
    demo.add_argument(
        "--data",
        default=named_data(),
        help="folder with kuairand/, or the word generated (GEM_DATA; default ../shared/data)",
    )
    _add_world(demo, "run on a simulated world (docs/worlds.md); its state and contract lie in worlds/NAME of the home")
    demo.set_defaults(run=_demo)

    explain = commands.add_parser("explain", help="one impression: pointer, history, features, versions, scores")
    _add_places(explain)
    explain.add_argument("impression", help="its id in the impressions table")
    explain.add_argument("--date", help="its date partition, where it is known (yyyy-mm-dd)")
    explain.add_argument("--events", type=int, default=20, help="events to list (default 20)")
    explain.set_defaults(run=_explain)

    rows = commands.add_parser("rows", help="read a model's training rows again and compare them byte by byte")
    rows.add_argument("model", help="name of a stored model, for example gem")
    rows.add_argument("date", help="its date (yyyy-mm-dd)")
    rows.add_argument("--home", type=Path, default=home_path(), help="folder of all state (GEM_HOME; default .gem)")
    rows.set_defaults(run=_rows)

    doctor = commands.add_parser("doctor", help="check the machine and the installation")
    doctor.add_argument("--home", type=Path, default=home_path(), help="folder of all state (GEM_HOME; default .gem)")
    doctor.add_argument("--port", type=int, action="append", default=[], help="check only that this port is free")
    doctor.add_argument("--fetch-jars", action="store_true", help="fetch the Spark jars first; say only what fails")
    doctor.set_defaults(run=_doctor)
    return parser


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", type=Path, default=home_path(), help="folder of all state (GEM_HOME; default .gem)")
    parser.add_argument("--contract", type=Path, default=contract_path(), help="data contract (GEM_CONTRACT)")


def _add_world(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--world", metavar="NAME", help=text)
    parser.add_argument("--events", type=int, default=300_000, help="events of the world (default 300 000)")


def _init(options: argparse.Namespace) -> int:
    if options.world:
        from gem_pipeline.datasets.worlds.template import world_contract

        template = world_contract(options.world, events=options.events)
    else:
        template = (files("gem_pipeline") / "contracts" / "template.yaml").read_text(encoding="utf-8")
    try:
        with options.path.open("x", encoding="utf-8") as target:
            target.write(template)
    except FileExistsError as error:
        raise ConfigError(f"{options.path} exists already.", remedy="Name another file: `gem init PATH`.") from error
    except OSError as error:
        raise ConfigError(
            f"{options.path} cannot be written: {error.strerror}.", remedy="Name another place: `gem init PATH`."
        ) from error
    print(f"Wrote {options.path}. Edit it, then run `gem check --contract {options.path}`.")
    return 0


def _check(options: argparse.Namespace) -> int:
    from gem_pipeline.contracts.contract import load_contract
    from gem_pipeline.datasets.table_check import check_tables

    contract = load_contract(options.contract)
    print(
        f"Contract {contract.name} ({contract.content_hash}): {len(contract.surfaces)} surfaces, "
        f"{len(contract.objectives)} objectives, {len(contract.features)} features, "
        f"{len(contract.counters.groups)} counters."
    )
    lake = options.home / "lake"
    if contract.source != "tables" and not (lake / contract.tables.impressions.path).exists():
        print(f"Its tables are not there yet: `gem demo` lands them under {lake}.")
        return 0
    for line in check_tables(contract, lake):
        print(line)
    return 0


def _demo(options: argparse.Namespace) -> int:
    from gem_pipeline.preflight import check_disk, check_installation, check_java

    if options.days < 1:
        raise ConfigError(f"--days is {options.days}.", remedy="Give 1 or more.")
    check_installation()
    check_java()
    check_disk(options.home)

    from gem_pipeline.contracts.contract import load_contract
    from gem_pipeline.datasets.landing import open_source

    if options.world:
        from gem_pipeline.datasets.worlds.template import settle_world

        options.home, options.contract = settle_world(options.home, options.world, events=options.events)
        os.environ["GEM_HOME"] = str(options.home)
    contract = load_contract(options.contract)
    open_source(contract, options.data, DEFAULT_DATA)  # refuses a missing folder before the slow imports

    os.environ["GEM_CONTRACT"] = str(options.contract.absolute())  # the graph takes its partitions from it
    from jobs.demo import DemoOptions, run_demo

    run_demo(
        DemoOptions(
            days=options.days,
            home=options.home,
            contract=options.contract,
            data=options.data,
        )
    )
    return 0


def _explain(options: argparse.Namespace) -> int:
    from gem_pipeline.contracts.contract import load_contract
    from gem_pipeline.runs.explain import explain, text

    contract = load_contract(options.contract)
    found = explain(contract, options.home, options.impression, date=options.date, num_events=options.events)
    for line in text(contract, found):
        print(line)
    return 0


def _rows(options: argparse.Namespace) -> int:
    from gem_pipeline.errors import ModelStoreError
    from gem_pipeline.runs.lineage import rebuild_rows
    from gem_pipeline.training.store import ModelStore

    stored = ModelStore(options.home).require(options.model, options.date)
    different = 0
    for day in rebuild_rows(stored, options.home / "lake"):
        different += not day.identical
        said = "identical" if day.identical else f"DIFFERENT, now {day.found.num_examples} rows {day.found.digest}"
        print(f"{day.named.date}: {day.named.num_examples} rows {day.named.digest}: {said}")
    if different:
        raise ModelStoreError(
            f"{different} day(s) of model {stored.name} of {stored.date} did not come out as they were trained on.",
            remedy="The code that encodes rows has changed since, or files of the lake were edited.",
        )
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from gem_pipeline.preflight import check_port, run_checks

    for port in options.port:
        check_port(port)
    if options.port:
        return 0
    if options.fetch_jars:
        from resources.java import resolve_jars

        resolve_jars(options.home)
    findings = run_checks(options.home)
    failed = [finding for finding in findings if finding.error]
    for finding in failed if options.fetch_jars else findings:
        print(f"{'FAILED' if finding.error else 'ok':<7} {finding.name:<9} {finding.detail}")
    return next((finding.error.exit_code for finding in failed if finding.error), 0)


if __name__ == "__main__":
    sys.exit(main())
