"""What a broker may do, as frozen values: loading, dumping, merging and naming policies.

It opens nothing but policy files and enforces nothing: `decision` decides, the broker acts.
"""

from __future__ import annotations

from fable_exec.policy.arguments import ArgumentPolicy
from fable_exec.policy.assurance import AssurancePolicy
from fable_exec.policy.canonical import dump_json, dump_toml, to_mapping
from fable_exec.policy.confinement import PROTECTIONS, Confinement, Protections
from fable_exec.policy.document import load_policy, parse_json, parse_toml, read_document, read_json
from fable_exec.policy.names import INJECTION_NAMES, INJECTION_PREFIXES, is_environment_name, is_injection_name
from fable_exec.policy.narrowing import merge
from fable_exec.policy.schema import json_schema, json_schema_text
from fable_exec.policy.values import AuditRules, BrokerPolicy, EnvironmentPolicy, Limits, PathRules

__all__ = [
    "INJECTION_NAMES",
    "INJECTION_PREFIXES",
    "PROTECTIONS",
    "ArgumentPolicy",
    "AssurancePolicy",
    "AuditRules",
    "BrokerPolicy",
    "Confinement",
    "EnvironmentPolicy",
    "Limits",
    "PathRules",
    "Protections",
    "dump_json",
    "dump_toml",
    "is_environment_name",
    "is_injection_name",
    "json_schema",
    "json_schema_text",
    "load_policy",
    "merge",
    "parse_json",
    "parse_toml",
    "read_document",
    "read_json",
    "to_mapping",
]
