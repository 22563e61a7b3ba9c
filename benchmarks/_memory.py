"""Memory of a process and everything it started."""

from __future__ import annotations

from pathlib import Path

import psutil


def resident_bytes(family: psutil.Process) -> int:
    """Resident memory of a process and its descendants; those that have ended count nothing."""
    try:
        processes = (family, *family.children(recursive=True))
    except psutil.NoSuchProcess:
        return 0
    return sum(_own(process) for process in processes)


def _own(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


def anonymous_bytes(family: psutil.Process) -> int:
    """As `resident_bytes`, without pages of files: those the system takes back when it needs them (Linux)."""
    try:
        processes = (family, *family.children(recursive=True))
    except psutil.NoSuchProcess:
        return 0
    return sum(_anonymous(process.pid) for process in processes)


def _anonymous(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = [row.split()[1] for row in status.splitlines() if row.startswith(("RssAnon:", "RssShmem:"))]
    return 1024 * sum(map(int, found))
