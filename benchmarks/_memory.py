"""Memory of a process and everything it started."""

from __future__ import annotations

import psutil


def held_bytes(family: psutil.Process) -> int:
    """Physical memory of a process and its descendants, a page that several share counted once; none of the ended.

    Shares, not resident sizes: a process that was just forked seems to hold all that its parent holds. Where the
    system tells no shares (it does on Linux), resident sizes.
    """
    try:
        processes = (family, *family.children(recursive=True))
    except psutil.NoSuchProcess:
        return 0
    return sum(_own(process) for process in processes)


def _own(process: psutil.Process) -> int:
    try:
        held = process.memory_full_info()
    except psutil.Error:
        return 0
    return getattr(held, "pss", held.rss)
