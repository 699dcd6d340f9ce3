"""Receipts for tests: the valid one of the vectors, changed in one place and sealed again."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from fable_exec.proofbind.canonical import canonical_sha256
from fable_exec.proofbind.facts import Facts, read_facts
from tests.proofbind.signed import PROOFS


class Absent(Enum):
    """A member that is to be taken away; each worker of the suite shows it alike."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
VALID: dict[str, Any] = json.loads((PROOFS / "valid_verified.proof.json").read_bytes())


def changed(changes: Mapping[str, Any] | None = None, receipt: Mapping[str, Any] = VALID) -> dict[str, Any]:
    """A copy in which each "/"-separated path is set, or gone where it is ABSENT; its hash is made right unless it is set."""
    made = copy.deepcopy(dict(receipt))
    for path, value in (changes or {}).items():
        *parents, name = path.split("/")
        place = made
        for parent in parents:
            place = place[parent]
        if value is ABSENT:
            del place[name]
        else:
            place[name] = value
    if "verification/hash" not in (changes or {}) and isinstance(made.get("verification"), dict):
        made["verification"]["hash"] = canonical_sha256({name: made[name] for name in made if name != "verification"})
    return made


def gate(name: str, status: str = "passed", provenance: str = "exogenous") -> dict[str, str]:
    """A quality gate as it stands among the facts."""
    return {"name": name, "status": status, "provenance": provenance}


def facts(receipt: Mapping[str, Any]) -> Facts:
    """What a receipt says happened."""
    read = read_facts(receipt["facts"])
    assert read is not None
    return read
