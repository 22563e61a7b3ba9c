"""Checks made before any work: what is missing is said in one sentence with its remedy, before anything is written.

Standard library only: `make install` runs these with the system's Python, before any package is there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gem_pipeline.errors import ConfigError, GemError, SetupError

DISTRIBUTION = "gem-pipeline"
JAVA_MAJOR = 17  # what Spark 4 asks for
FREE_BYTES_TO_RUN = 2 * 1024**3
REINSTALL = "Run `make install`: it completes the environment."

# Import names that are not the distribution's name with underscores.
_IMPORT_NAMES = {
    "delta-spark": "delta",
    "fbgemm-gpu-cpu": "fbgemm_gpu",
    "import-linter": "importlinter",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
}
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^;\s]+)(?:\s*;.*extra == ['\"](\w+)['\"])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What one check found; `error` is None where all is well."""

    name: str
    detail: str
    error: GemError | None = None


def java_command(environ: Mapping[str, str]) -> str:
    """Name the java that Spark will start: the one of JAVA_HOME, else the first on PATH.

    Raises:
        SetupError: there is none.
    """
    home = environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        if not command.is_file():
            raise SetupError(
                f"JAVA_HOME is {home}, but there is no bin/java in it.",
                remedy="Point JAVA_HOME at a Java 17 or newer, or unset it.",
            )
        return str(command)
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise SetupError(
            "Java was not found: there is no `java` on PATH and JAVA_HOME is not set.",
            remedy="Install Java 17 or newer (on Debian: apt-get install openjdk-17-jre-headless).",
        )
    return found


def check_java(environ: Mapping[str, str] = os.environ) -> int:
    """Return the major version of the Java that Spark will start.

    Raises:
        SetupError: Java is missing, does not run, says no version, or is older than 17.
    """
    command = java_command(environ)
    remedy = "Install Java 17 or newer and put it first on PATH, or name it with JAVA_HOME."
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False, env=dict(environ)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"Java at {command} does not run: {error}.", remedy=remedy) from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or match is None:
        raise SetupError(f"Java at {command} does not say its version.", remedy=remedy)
    major = int(match.group(1))
    if major < JAVA_MAJOR:
        raise SetupError(f"Java at {command} is version {major}; Spark needs {JAVA_MAJOR} or newer.", remedy=remedy)
    return major


def check_port(port: int, host: str = "127.0.0.1") -> None:
    """Refuse a port that another program listens on.

    Raises:
        ConfigError: the number is no port.
        SetupError: the port is in use or may not be opened.
    """
    if not 1 <= port <= 65535:
        raise ConfigError(f"Port {port} does not exist.", remedy="Choose one from 1024 to 65535.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SetupError(
                f"Port {port} cannot be opened: {error.strerror}.",
                remedy=f"Stop the program that uses it, or choose another port, for example PORT={port % 65535 + 1}.",
            ) from error


def check_disk(folder: Path, needed_bytes: int = FREE_BYTES_TO_RUN) -> int:
    """Return the free bytes where a folder is or will be.

    Raises:
        SetupError: the place cannot be written, or has less room than needed.
    """
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise SetupError(
            f"{folder} cannot be written: {place} is no folder that you may write to.",
            remedy="Name another place with GEM_HOME or --home.",
        )
    free = shutil.disk_usage(place).free
    if free < needed_bytes:
        raise SetupError(
            f"{place} has {free / 1024**3:.1f} GiB free; {needed_bytes / 1024**3:.0f} GiB are needed.",
            remedy="Free some room, or name another disk with GEM_HOME or --home.",
        )
    return free


def compiler_note() -> str | None:
    """Say what a missing C++ compiler costs; None where there is one. It is never an error."""
    if any(shutil.which(name) for name in ("g++", "c++", "clang++")):
        return None
    return "No C++ compiler (g++) was found: torch.compile is off and models run eagerly, more slowly."


def check_installation(distribution: str = DISTRIBUTION) -> int:
    """Compare the environment with the exact pins of the installed distribution.

    Returns:
        How many packages were compared.

    Raises:
        SetupError: the distribution itself, a package or its module is missing, or a version differs.
    """
    try:
        requirements = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError as error:
        raise SetupError(f"{distribution} is not installed in this Python.", remedy=REINSTALL) from error
    pins = [match.groups() for line in requirements if (match := _PIN.match(line))]
    flavour = "cuda" if _installed_version("fbgemm-gpu") else "cpu"
    wanted = [(name, version) for name, version, extra in pins if extra in (None, flavour)]
    problems = [problem for name, version in wanted if (problem := _package_problem(name, version))]
    if problems:
        raise SetupError(
            f"The environment is incomplete: {'; '.join(problems[:5])}"
            + (f"; and {len(problems) - 5} more." if len(problems) > 5 else "."),
            remedy=REINSTALL,
        )
    return len(wanted)


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package_problem(name: str, version: str) -> str | None:
    found = _installed_version(name)
    if found is None:
        return f"{name} {version} is missing"
    if found.partition("+")[0] != version:
        return f"{name} is {found}, not {version}"
    if importlib.util.find_spec(_IMPORT_NAMES.get(name, name.replace("-", "_"))) is None:
        return f"the files of {name} are gone"
    return None


def run_checks(home: Path, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Run every check that needs no port, and keep going after a failure.

    Args:
        home: where the state will live (GEM_HOME).
        environ: environment variables.

    Returns:
        One finding a check, in a fixed order.
    """
    checks = (
        ("packages", lambda: f"{check_installation()} pinned packages are in place"),
        ("java", lambda: f"version {check_java(environ)}"),
        ("disk", lambda: f"{check_disk(home) / 1024**3:.0f} GiB free at {home}"),
        ("compiler", lambda: compiler_note() or "found"),
    )
    findings = []
    for name, check in checks:
        try:
            findings.append(Finding(name=name, detail=check()))
        except GemError as error:
            findings.append(Finding(name=name, detail=str(error), error=error))
    return findings
