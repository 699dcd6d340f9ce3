"""Hypothesis strategies for policies. Workspaces are directories that every POSIX system has."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAMES = st.sampled_from(["LANG", "TERM", "CI", "GOOGLE_PROJECT", "LD_PRELOAD", "PYTHONPATH", "GIT_DIR", "ENV", "A", "AB", "ABC"])
PATTERNS = st.sampled_from(["A*", "AB*", "LC_*", "G*", "T*"])
SECONDS = st.floats(min_value=0.001, max_value=3600, allow_nan=False)


def tuples(items: st.SearchStrategy[str], **bounds: Any) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(items, max_size=4, unique=True, **bounds).map(tuple)


ENVIRONMENTS = st.builds(
    EnvironmentPolicy,
    set=st.dictionaries(NAMES, TEXT, max_size=3),
    inherit=tuples(NAMES | PATTERNS),
    request_names=tuples(NAMES | PATTERNS),
    path=st.none() | tuples(st.sampled_from(["/usr/bin", "/bin", "/opt/é/bin"]), min_size=1),
)
LIMITS = st.builds(
    lambda default, longest, **others: Limits(
        timeout_seconds=min(default, longest), max_timeout_seconds=max(default, longest), **others
    ),
    SECONDS,
    SECONDS,
    idle_timeout_seconds=st.none() | SECONDS,
    max_frame_bytes=st.integers(64 * 1024, 64 * 1024 * 1024),
    max_answer_bytes=st.integers(64 * 1024, 1024 * 1024 * 1024),
    max_in_flight=st.integers(1, 4096),
    memory_bytes=st.none() | st.integers(32 * 1024 * 1024, 2**53 - 1),
    processes=st.none() | st.integers(1, 1_000_000),
    cpu_seconds=st.none() | st.integers(1, 1_000_000),
    file_size_bytes=st.none() | st.integers(1, 2**53 - 1),
    open_files=st.none() | st.integers(16, 1_048_576),
)
PATHS = st.builds(
    PathRules,
    file_trust=st.sampled_from(["private", "regular"]),
    backslash=st.sampled_from(["separator", "refuse", "literal"]),
    protected=tuples(st.sampled_from([".git", ".env", "secrets", "é"])),
)
AUDITS = st.builds(
    AuditRules,
    path=st.sampled_from([None, "/var/log/one.jsonl", "/var/log/two.jsonl"]),
    on_failure=st.sampled_from(["refuse", "continue"]),
)
ARGUMENTS = st.builds(
    ArgumentPolicy,
    mode=st.sampled_from(["off", "advisory", "enforce"]),
    unknown_tools=st.sampled_from(["allow", "deny"]),
    tools=st.none() | tuples(st.sampled_from(["git", "find", "é"])),
    documents=tuples(st.sampled_from(["# none", "/etc/rules.toml", '[[refused]]\nnames = ["x"]\nreason = "y"'])),
)
ASSURANCES = st.builds(
    AssurancePolicy,
    formulas=tuples(st.sampled_from(["AG !network_open", "EF (a & !b)"])),
    max_brittleness=st.sampled_from([0.01, 0.5, 0.8, 1.0]),
)
MODES = st.sampled_from(["strict", "degradable", "off"])
PORTS = st.lists(st.integers(1, 65535) | st.sampled_from([80, 443]), max_size=3, unique=True).map(tuple)
CONFINEMENTS = st.builds(
    lambda network, connect, bind, reserved, **others: Confinement(
        network=network,
        connect_ports=tuple(port for port in connect if port not in reserved) if network == "ports" else (),
        bind_ports=tuple(port for port in bind if port not in reserved) if network == "ports" else (),
        reserved_ports=reserved,
        **others,
    ),
    st.sampled_from(["off", "ports", "full"]),
    PORTS,
    PORTS,
    PORTS,
    protections=st.builds(Protections, **dict.fromkeys(PROTECTIONS, MODES)),
    runtime_read_paths=tuples(st.sampled_from(["/opt/tool", "/srv/é", "/a:b"])),
    runtime_write_paths=tuples(st.sampled_from(["/srv/cache", "/var/é", "/c:d"])),
    planted_files=st.sampled_from(["neutralise", "report", "fail"]),
    observe=st.sampled_from(["off", "changes", "reads"]),
)
POLICIES = st.builds(
    BrokerPolicy,
    workspace=st.sampled_from(["/usr/share", "/usr/share/doc", "/opt"]),
    allowed_executables=tuples(
        st.sampled_from(["python3", "git", "sh", "/usr/bin/git", "/opt/tool", "ÿ", "with space", '"quoted"'])
    ),
    max_output_bytes=st.integers(1, 2**53 - 1),
    write_token_digest=st.sampled_from([None, "a" * 64, "b" * 64]),
    on_output_limit=st.sampled_from(["kill", "truncate"]),
    environment=ENVIRONMENTS,
    limits=LIMITS,
    paths=PATHS,
    audit=AUDITS,
    argument_rules=ARGUMENTS,
    assurance=ASSURANCES,
    confinement=CONFINEMENTS,
    locked_commands=st.sampled_from(["readonly", "deny"]),
    pin_executable_digest=st.booleans(),
    launch=st.sampled_from(["auto", "slots", "namespace", "plain"]),
)
