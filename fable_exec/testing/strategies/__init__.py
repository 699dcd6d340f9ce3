"""Hypothesis strategies for what comes to a boundary, and for what leads out of it. Each says what it promises of its values."""

from __future__ import annotations

from fable_exec.testing.strategies.commands import arguments, environments
from fable_exec.testing.strategies.contents import file_contents
from fable_exec.testing.strategies.frames import frame_streams, splits
from fable_exec.testing.strategies.jsonvalues import json_values, strict_json_values
from fable_exec.testing.strategies.lifecycles import events, facts, lifecycles
from fable_exec.testing.strategies.paths import any_paths, honest_paths, hostile_paths
from fable_exec.testing.strategies.policies import policies
from fable_exec.testing.strategies.proofs import damaged_proofs, proof_documents
from fable_exec.testing.strategies.requests import request_lines, request_members
from fable_exec.testing.strategies.trees import process_trees

__all__ = [
    "any_paths",
    "arguments",
    "damaged_proofs",
    "environments",
    "events",
    "facts",
    "file_contents",
    "frame_streams",
    "honest_paths",
    "hostile_paths",
    "json_values",
    "lifecycles",
    "policies",
    "process_trees",
    "proof_documents",
    "request_lines",
    "request_members",
    "splits",
    "strict_json_values",
]
