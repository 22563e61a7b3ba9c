"""Build the environment in `.venv`: what `make install` runs, with the system's Python and no package.

The packages are exactly those of constraints.txt, installed without resolving anything; the extra
chooses the build of fbgemm-gpu. A marker file tells an interrupted installation, which is then
redone from nothing; a stamp file makes a second installation instant. Ours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gem_pipeline.errors import GemError, SetupError
from gem_pipeline.places import home_path
from gem_pipeline.preflight import check_disk, check_java, compiler_note

PYTHON_VERSION = (3, 11)
UV = "uv==0.13.9"
FREE_BYTES_TO_INSTALL = 8 * 1024**3
MARKER = ".gem-installing"
STAMP = "gem-install.json"
Runner = Callable[[Sequence[str]], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """Where to install what.

    Attributes:
        root: the checkout, with pyproject.toml and constraints.txt.
        home: where the state lives (GEM_HOME); the Spark jars go there.
        extra: `cpu` or `cuda`.
    """

    root: Path
    home: Path
    extra: str

    @property
    def venv(self) -> Path:
        """The environment's folder."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self.venv / "bin" / "python"

    def fingerprint(self) -> str:
        """Hash of everything that decides what is installed; settings of tools do not."""
        pyproject = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        decisive = {
            "extra": self.extra,
            "python": sys.version_info[:2],
            "root": str(self.root),
            "project": pyproject.get("project"),
            "setuptools": pyproject.get("tool", {}).get("setuptools"),
            "constraints": (self.root / "constraints.txt").read_text(encoding="utf-8"),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def requirements(constraints: str, extra: str) -> str:
    """Turn the text of constraints.txt into the requirements of an extra.

    The file is resolved for `cpu`; with `cuda` the same version of fbgemm-gpu takes the place of its CPU build.
    """
    return constraints.replace("fbgemm-gpu-cpu==", "fbgemm-gpu==") if extra == "cuda" else constraints


def has_packages(installation: Installation) -> bool:
    """Whether the environment of this very checkout is there, whole and with these pins."""
    stamp = installation.venv / STAMP
    if not stamp.is_file() or (installation.venv / MARKER).exists() or not installation.python.exists():
        return False
    try:
        recorded = json.loads(stamp.read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(recorded == installation.fingerprint())


def has_jars(installation: Installation) -> bool:
    """Whether the home has Spark's Delta jars; which ones it needs is checked where Spark starts."""
    return any((installation.home / "jars").glob("delta-*.jar"))


def install(installation: Installation, run: Runner) -> None:
    """Do what is missing: install into `.venv`; fetch the Spark jars; check the result.

    Args:
        installation: where to install what.
        run: runs a command and returns its exit code.

    Raises:
        SetupError: a step failed. Where packages may be half there, the marker stays and the next
            call starts from nothing.
    """
    started = time.monotonic()
    fresh = not has_packages(installation)
    if fresh:
        _prepare_environment(installation)
        marker = installation.venv / MARKER
        marker.touch()
        _install_packages(installation, run)
        _write_stamp(installation, time.monotonic() - started)
        marker.unlink()
    if not has_jars(installation):
        _say("Fetching the Spark jars (once) ...")
        gem = [str(installation.python), "-m", "gem_pipeline.cli"]
        _step(
            [*gem, "doctor", "--fetch-jars", "--home", str(installation.home)], "The environment is not complete", run
        )
        if fresh:
            _write_stamp(installation, time.monotonic() - started)


def record_in_home(installation: Installation) -> float:
    """Copy the record of the installation to the home, for the demo's report; returns its seconds."""
    record = json.loads((installation.venv / STAMP).read_text(encoding="utf-8"))
    installation.home.mkdir(parents=True, exist_ok=True)
    (installation.home / "install.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return float(record["install_s"])


def _write_stamp(installation: Installation, seconds: float) -> None:
    record = {
        "install_s": round(seconds, 1),
        "extra": installation.extra,
        "fingerprint": installation.fingerprint(),
    }
    (installation.venv / STAMP).write_text(json.dumps(record), encoding="utf-8")


def _prepare_environment(installation: Installation) -> None:
    folder = installation.venv
    if (folder / MARKER).exists() or (folder.exists() and not installation.python.exists()):
        _say("An earlier installation did not finish: starting again from nothing.")
        shutil.rmtree(folder)
    if not folder.exists():
        _create_environment(folder)


def _install_packages(installation: Installation, run: Runner) -> None:
    constraints = (installation.root / "constraints.txt").read_text(encoding="utf-8")
    wanted = installation.venv / "requirements.txt"
    wanted.write_text(requirements(constraints, installation.extra), encoding="utf-8")
    installer = _installer(installation, run)
    _say(f"Installing {len(constraints.splitlines())} packages (about 6 GB; 1 to 5 minutes) ...")
    _step([*installer, "--no-deps", "-r", str(wanted)], "The packages could not be installed", run)
    _step(
        [*installer, "--no-deps", "--no-build-isolation", "-e", str(installation.root)],
        "gem-pipeline itself could not be installed",
        run,
    )


def _create_environment(folder: Path) -> None:
    try:
        venv.create(folder, symlinks=True, with_pip=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SetupError(
            "This Python cannot make a virtual environment with pip.",
            remedy="Install its venv package (on Debian: apt-get install python3.11-venv).",
        ) from error


def _installer(installation: Installation, run: Runner) -> list[str]:
    """The command that installs: uv of the environment or of the machine, else uv by pip, else pip."""
    python = str(installation.python)
    by_uv = ["pip", "install", "--quiet", "--python", python, "--compile-bytecode"]
    inside = installation.venv / "bin" / "uv"
    for command in (str(inside) if inside.exists() else None, shutil.which("uv")):
        if command and run([command, "--version"]) == 0:
            return [command, *by_uv]
    if run([python, "-m", "pip", "install", "--quiet", UV]) == 0:
        return [str(inside), *by_uv]
    _say("uv is not to be had: installing with pip, which takes longer.")
    return [python, "-m", "pip", "install", "--quiet"]


def _step(command: Sequence[str], failure: str, run: Runner) -> None:
    code = run(command)
    if code != 0:
        raise SetupError(
            f"{failure}: `{' '.join(command[:4])} ...` ended with code {code}.",
            remedy="Its own message stands above; mend the cause and run `make install` again.",
        )


def _say(line: str) -> None:
    print(line, flush=True)


def _run(command: Sequence[str]) -> int:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    quiet = subprocess.DEVNULL if command[-1] == "--version" else None
    return subprocess.run(command, env=environ, stdout=quiet, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Install, or say that there is nothing to do; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gem_pipeline.installation", description="Build .venv for this checkout.")
    parser.add_argument("--extra", choices=("cpu", "cuda"), default="cpu", help="which build of fbgemm-gpu")
    options = parser.parse_args(arguments)
    installation = Installation(root=Path.cwd(), home=home_path(), extra=options.extra)
    try:
        if sys.version_info[:2] != PYTHON_VERSION:
            raise SetupError(
                f"This is Python {sys.version_info.major}.{sys.version_info.minor}; "
                f"{'.'.join(map(str, PYTHON_VERSION))} is needed.",
                remedy="Name one: `make install PYTHON=/path/to/python3.11`.",
            )
        check_java()
        if not has_packages(installation):
            check_disk(installation.venv, FREE_BYTES_TO_INSTALL)
        install(installation, _run)
        seconds = record_in_home(installation)
    except GemError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    note = compiler_note()
    _say(f"Installed in .venv (took {seconds:.0f} s)." + (f" {note}" if note else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
