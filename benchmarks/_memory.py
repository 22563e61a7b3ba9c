"""Memory of a process and everything it started."""

from __future__ import annotations

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
