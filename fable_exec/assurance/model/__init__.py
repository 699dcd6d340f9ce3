"""Models of this library's own rules: what can a broker come to, what can a command reach, and does that keep what is promised?

`broker_model` and `supervisor_model` are explored by asking the rules that broker and supervisor ask; `blast_radius` asks a
launch plan; `verify_policy` puts the built-in invariants and the policy's own formulas before them. Nothing is started here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fable_exec.assurance.model.brokers import ATOMS, BrokerWorld, broker_model
from fable_exec.assurance.model.exploring import Model, Step
from fable_exec.assurance.model.reach import AssetReach, BlastRadius, blast_radius
from fable_exec.assurance.model.verifying import (
    BROKER_INVARIANTS,
    SUPERVISOR_INVARIANTS,
    Finding,
    Invariant,
    Verdict,
    Verification,
    verified,
    verify_policy,
    verify_supervisor,
)
from fable_exec.assurance.model.ways import Asset, Layer, Way
from fable_exec.lazynames import on_demand

if TYPE_CHECKING:
    from fable_exec.assurance.model.supervisors import SUPERVISOR_ATOMS, SupervisedWorld, supervisor_model

__all__ = [
    "ATOMS",
    "BROKER_INVARIANTS",
    "SUPERVISOR_ATOMS",
    "SUPERVISOR_INVARIANTS",
    "Asset",
    "AssetReach",
    "BlastRadius",
    "BrokerWorld",
    "Finding",
    "Invariant",
    "Layer",
    "Model",
    "Step",
    "SupervisedWorld",
    "Verdict",
    "Verification",
    "Way",
    "blast_radius",
    "broker_model",
    "supervisor_model",
    "verified",
    "verify_policy",
    "verify_supervisor",
]

_MODULES = {"fable_exec.assurance.model.supervisors": ("SUPERVISOR_ATOMS", "SupervisedWorld", "supervisor_model")}

if not TYPE_CHECKING:  # a broker, which verifies its policy with its first command, needs none of it
    __getattr__, __dir__ = on_demand(__name__, _MODULES)
