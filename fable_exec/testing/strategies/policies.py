"""Policies with every field at work. Their workspaces are directories that every POSIX system has."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from fable_exec.outcome import OnOutputLimit
from fable_exec.policy import (
    PROTECTIONS,
    ArgumentPolicy,
    AssurancePolicy,
    AuditRules,
    BrokerPolicy,
    Confinement,
    EnvironmentPolicy,
    Limits,
    PathRules,
    Protections,
)

__all__ = ["policies"]

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_NAMES = st.sampled_from(["LANG", "TERM", "CI", "GOOGLE_PROJECT", "LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "ENV", "A", "AB", "ABC"])
_PATTERNS = st.sampled_from(["A*", "AB*", "LC_*", "G*", "T*"])
_SECONDS = st.floats(min_value=0.001, max_value=3600, allow_nan=False)


def _tuples(items: st.SearchStrategy[str], **bounds: Any) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(items, max_size=4, unique=True, **bounds).map(tuple)


_ENVIRONMENTS = st.builds(
    EnvironmentPolicy,
    set=st.dictionaries(_NAMES, _TEXT, max_size=3),
    inherit=_tuples(_NAMES | _PATTERNS),
    request_names=_tuples(_NAMES | _PATTERNS),
    path=st.none() | _tuples(st.sampled_from(["/usr/bin", "/bin", "/opt/é/bin"]), min_size=1),
)
_LIMITS = st.builds(
    lambda default, longest, **others: Limits(
        timeout_seconds=min(default, longest), max_timeout_seconds=max(default, longest), **others
    ),
    _SECONDS,
    _SECONDS,
    idle_timeout_seconds=st.none() | _SECONDS,
    max_frame_bytes=st.integers(64 * 1024, 64 * 1024 * 1024),
    max_answer_bytes=st.integers(64 * 1024, 1024 * 1024 * 1024),
    max_in_flight=st.integers(1, 4096),
    memory_bytes=st.none() | st.integers(32 * 1024 * 1024, 2**53 - 1),
    processes=st.none() | st.integers(1, 1_000_000),
    cpu_seconds=st.none() | st.integers(1, 1_000_000),
    file_size_bytes=st.none() | st.integers(1, 2**53 - 1),
    open_files=st.none() | st.integers(16, 1_048_576),
)
_PATHS = st.builds(
    PathRules,
    file_trust=st.sampled_from(["private", "regular"]),
    backslash=st.sampled_from(["separator", "refuse", "literal"]),
    protected=_tuples(st.sampled_from([".git", ".env", "secrets", "é"])),
)
_AUDITS = st.builds(
    AuditRules,
    path=st.sampled_from([None, "/var/log/one.jsonl", "/var/log/two.jsonl"]),
    on_failure=st.sampled_from(["refuse", "continue"]),
)
_ARGUMENTS = st.builds(
    ArgumentPolicy,
    mode=st.sampled_from(["off", "advisory", "enforce"]),
    unknown_tools=st.sampled_from(["allow", "deny"]),
    tools=st.none() | _tuples(st.sampled_from(["git", "find", "é"])),
    documents=_tuples(st.sampled_from(["# none", "/etc/rules.toml", '[[refused]]\nnames = ["x"]\nreason = "y"'])),
)
_ASSURANCES = st.builds(
    AssurancePolicy,
    formulas=_tuples(st.sampled_from(["AG !network_open", "EF (a & !b)"])),
    max_brittleness=st.sampled_from([0.01, 0.5, 0.8, 1.0]),
)
_MODES = st.sampled_from(["strict", "degradable", "off"])
_PORTS = st.lists(st.integers(1, 65535) | st.sampled_from([80, 443]), max_size=3, unique=True).map(tuple)
_CONFINEMENTS = st.builds(
    lambda network, connect, bind, reserved, **others: Confinement(
        network=network,
        connect_ports=tuple(port for port in connect if port not in reserved) if network == "ports" else (),
        bind_ports=tuple(port for port in bind if port not in reserved) if network == "ports" else (),
        reserved_ports=reserved,
        **others,
    ),
    st.sampled_from(["off", "ports", "full"]),
    _PORTS,
    _PORTS,
    _PORTS,
    protections=st.builds(Protections, **dict.fromkeys(PROTECTIONS, _MODES)),
    runtime_read_paths=_tuples(st.sampled_from(["/opt/tool", "/srv/é", "/a:b"])),
    runtime_write_paths=_tuples(st.sampled_from(["/srv/cache", "/var/é", "/c:d"])),
    planted_files=st.sampled_from(["neutralise", "report", "fail"]),
    observe=st.sampled_from(["off", "changes", "reads"]),
)
_POLICIES = st.builds(
    BrokerPolicy,
    workspace=st.sampled_from(["/usr/share", "/usr/share/doc", "/opt"]),
    allowed_executables=_tuples(
        st.sampled_from(["python3", "git", "sh", "/usr/bin/git", "/opt/tool", "ÿ", "with space", '"quoted"'])
    ),
    max_output_bytes=st.integers(1, 2**53 - 1),
    write_token_digest=st.sampled_from([None, "a" * 64, "b" * 64]),
    on_output_limit=st.sampled_from(get_args(OnOutputLimit)),
    environment=_ENVIRONMENTS,
    limits=_LIMITS,
    paths=_PATHS,
    audit=_AUDITS,
    argument_rules=_ARGUMENTS,
    assurance=_ASSURANCES,
    confinement=_CONFINEMENTS,
    locked_commands=st.sampled_from(["readonly", "deny"]),
    pin_executable_digest=st.booleans(),
    launch=st.sampled_from(["auto", "slots", "namespace", "plain"]),
)


def policies() -> st.SearchStrategy[BrokerPolicy]:
    """Any policy that can be loaded. For a broker that runs here make your own, and vary it with `attrs.evolve`."""
    return _POLICIES
