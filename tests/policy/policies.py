"""Hypothesis strategies for policies. Workspaces are directories that every POSIX system has."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fable_exec.policy import AuditRules, BrokerPolicy, EnvironmentPolicy, Limits, PathRules

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
POLICIES = st.builds(
    BrokerPolicy,
    workspace=st.sampled_from(["/usr", "/usr/bin", "/dev"]),
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
    pin_executable_digest=st.booleans(),
    launch=st.sampled_from(["auto", "slots", "namespace", "plain"]),
)
