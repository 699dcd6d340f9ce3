"""The policy of an inspect-ai sample: a task's document, and what holds where it says nothing."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from fable_exec.adapters.owned import overlaid
from fable_exec.policy import INJECTION_NAMES

__all__ = ["CONFIG_FILES", "DEFAULT_DOCUMENT", "sample_document"]

CONFIG_FILES = ("fable.toml", "fable.json")
"""Documents that a task may have beside it, so that it need not name one."""

_ORDINARY_NAMES = [f"{first}*" for first in f"{string.ascii_letters}_"]
_MORE_NAMES = ("PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONUTF8")
_LONGEST_SECONDS = 3600

DEFAULT_DOCUMENT: Mapping[str, Any] = {
    "allowed_executables": ["bash", "sh", "python3", "python"],
    "max_output_bytes": 100 * 1024**2,  # what inspect-ai reads of a file at most; commands have its own, lower limit besides
    "environment": {"request_names": [*_ORDINARY_NAMES, *sorted(INJECTION_NAMES), *_MORE_NAMES]},
    "limits": {"timeout_seconds": _LONGEST_SECONDS},
    "paths": {"file_trust": "regular", "backslash": "literal"},
}
"""What holds where the document says nothing. Variables and files are the task's to choose: a model has what tools give it, and
those run in a shell, which could set and change them anyway."""


def sample_document(given: Mapping[str, Any]) -> dict[str, Any]:
    """What holds for a sample whose task's document says `given`."""
    document = overlaid(DEFAULT_DOCUMENT, given)
    limits = given.get("limits")
    if isinstance(limits, Mapping) and limits.get("timeout_seconds") is None and limits.get("max_timeout_seconds") is not None:
        document["limits"]["timeout_seconds"] = limits["max_timeout_seconds"]
    return document
