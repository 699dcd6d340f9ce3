"""One line about where the figures come from, and how busy it was."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

__all__ = ["describe", "load"]


def describe(directory: Path) -> str:
    """Processors, memory, kernel, Python, and the file system that is written to. Nothing that names the machine."""
    kernel = ".".join(platform.release().split(".")[:2])
    python = f"{platform.python_implementation()} {platform.python_version()}"
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} x {_processor()}, {memory:.0f} GiB, {platform.system()} {kernel} {platform.machine()}, "
        f"{python}, {_file_system(directory)}, as {user}"
    )


def load() -> float:
    """Runnable processes, on average over the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or "processor"


def _file_system(directory: Path) -> str:
    """The type of the deepest mount above `directory`."""
    best, kind = "", "unknown file system"
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return kind
    for _, mounted, type_, *_ in (line.split() for line in lines):
        if directory.is_relative_to(mounted) and len(mounted) >= len(best):
            best, kind = mounted, type_
    return kind
