"""Merging two policies allows nothing that either of them refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, given

from fable_exec.errors import PolicyError
from fable_exec.policy import (
    PROTECTIONS,
    AuditRules,
    BrokerPolicy,
    Confinement,
    EnvironmentPolicy,
    Limits,
    is_injection_name,
    merge,
)
from fable_exec.policy.fields import rule_of
from fable_exec.policy.narrowing import NARROWING
from fable_exec.policy.rules import Nested
from fable_exec.testing.strategies import policies
from tests.fuzzing import A_TENTH

NAMES = ("LANG", "TERM", "CI", "A", "AB", "ABC", "ABX", "GOOGLE_X", "GIT_DIR", "LD_PRELOAD", "PYTHONPATH", "LC_ALL", "ENV")


def widenings(merged: BrokerPolicy, policy: BrokerPolicy) -> list[str]:
    """What `merged` allows and `policy` does not, written down without the merging code."""
    environment, limits = merged.environment, merged.limits
    claims = {
        "workspace": merged.workspace.is_relative_to(policy.workspace),
        "executables": set(merged.allowed_executables) <= set(policy.allowed_executables),
        "output": merged.max_output_bytes <= policy.max_output_bytes,
        "token": merged.write_token_digest in (None, policy.write_token_digest),
        "output limit": merged.on_output_limit == "kill" or policy.on_output_limit == "truncate",
        "inherit": all(policy.environment.inherits(name) for name in NAMES if environment.inherits(name)),
        "request": all(policy.environment.admits_request(name) for name in NAMES if environment.admits_request(name)),
        "set": all(
            policy.environment.set.get(name, None if is_injection_name(name) else value) == value
            for name, value in environment.set.items()
        ),
        "path": policy.environment.path is None or set(environment.path or "?") <= set(policy.environment.path),
        "timeouts": limits.timeout_seconds <= policy.limits.timeout_seconds
        and limits.max_timeout_seconds <= policy.limits.max_timeout_seconds,
        "idle": (limits.idle_timeout_seconds or 9999) <= (policy.limits.idle_timeout_seconds or 9999),
        "sizes": limits.max_frame_bytes <= policy.limits.max_frame_bytes
        and limits.max_answer_bytes <= policy.limits.max_answer_bytes
        and limits.max_in_flight <= policy.limits.max_in_flight,
        "resources": all(
            getattr(policy.limits, name) is None or (getattr(limits, name) or 2**60) <= getattr(policy.limits, name)
            for name in ("memory_bytes", "processes", "cpu_seconds", "file_size_bytes", "open_files")
        ),
        "trust": merged.paths.file_trust == "private" or policy.paths.file_trust == "regular",
        "backslash": merged.paths.backslash in ("refuse", policy.paths.backslash),
        "protected": set(merged.paths.protected) >= set(policy.paths.protected),
        "audit": policy.audit.path in (None, merged.audit.path),
        "audit failure": merged.audit.on_failure == "refuse" or policy.audit.on_failure == "continue",
        "locked": merged.locked_commands == "deny" or policy.locked_commands == "readonly",
        "arguments": MODES.index(merged.argument_rules.mode) >= MODES.index(policy.argument_rules.mode),
        "unknown tools": merged.argument_rules.unknown_tools == "deny" or policy.argument_rules.unknown_tools == "allow",
        "tools": policy.argument_rules.tools is None
        or set(merged.argument_rules.tools or ("?" if merged.argument_rules.tools is None else ()))
        <= set(policy.argument_rules.tools),
        "formulas": set(merged.assurance.formulas) >= set(policy.assurance.formulas),
        "brittleness": merged.assurance.max_brittleness <= policy.assurance.max_brittleness,
        "documents": set(merged.argument_rules.documents) >= set(policy.argument_rules.documents),
        "confinement": confinement_widenings(merged.confinement, policy.confinement) == [],
        "pin": merged.pin_executable_digest or not policy.pin_executable_digest,
        "launch": policy.launch not in ("slots", "namespace") or merged.launch in ("slots", "namespace"),
    }
    return [name for name, holds in claims.items() if not holds]


MODES = ("off", "advisory", "enforce")


def confinement_widenings(merged: Confinement, policy: Confinement) -> list[str]:
    strength = ("off", "degradable", "strict")
    ports = {
        "off": lambda _: frozenset(),
        "ports": lambda listed: frozenset(listed),
        "full": lambda _: frozenset(range(1, 65536)),
    }
    reserved = set(merged.reserved_ports)
    weaker = [name for name in PROTECTIONS if strength.index(merged.mode(name)) < strength.index(policy.mode(name))]
    for name in ("connect_ports", "bind_ports"):
        open_now = ports[merged.network](getattr(merged, name)) - reserved
        if not open_now <= ports[policy.network](getattr(policy, name)) - set(policy.reserved_ports):
            weaker.append(name)
    if not set(merged.runtime_read_paths) <= set(policy.runtime_read_paths):
        weaker.append("runtime_read_paths")
    if not set(merged.runtime_write_paths) <= set(policy.runtime_write_paths):
        weaker.append("runtime_write_paths")
    severity = ("report", "neutralise", "fail")
    if severity.index(merged.planted_files) < severity.index(policy.planted_files):
        weaker.append("planted_files")
    words = ("off", "changes", "reads")
    if words.index(merged.observe) < words.index(policy.observe):
        weaker.append("observe")
    return weaker


def try_merge(one: BrokerPolicy, other: BrokerPolicy) -> BrokerPolicy | None:
    try:
        return merge(one, other)
    except PolicyError:
        return None


@pytest.mark.fuzz
@A_TENTH
@given(policies(), policies())
def test_a_merged_policy_is_within_both(one: BrokerPolicy, other: BrokerPolicy) -> None:
    merged = try_merge(one, other)
    assume(merged is not None)
    assert merged is not None
    assert widenings(merged, one) == []
    assert widenings(merged, other) == []


@pytest.mark.fuzz
@A_TENTH
@given(policies(), policies())
def test_the_order_does_not_matter(one: BrokerPolicy, other: BrokerPolicy) -> None:
    forward, backward = try_merge(one, other), try_merge(other, one)
    assert (forward is None) == (backward is None)
    if forward is not None and backward is not None:
        assert widenings(forward, backward) == []
        assert widenings(backward, forward) == []


@pytest.mark.fuzz
@A_TENTH
@given(policies())
def test_merging_with_itself_changes_nothing(policy: BrokerPolicy) -> None:
    assert merge(policy, policy) == policy


@pytest.mark.fuzz
@A_TENTH
@given(policies(), policies())
def test_merging_again_changes_nothing(one: BrokerPolicy, other: BrokerPolicy) -> None:
    merged = try_merge(one, other)
    assume(merged is not None)
    assert merged is not None
    assert widenings(merge(merged, one), merged) == []


def test_every_field_has_a_rule() -> None:
    assert NARROWING.keys() == set(kinds_in(BrokerPolicy))
    for kind in NARROWING:
        fields = attrs.fields(kind)
        assert NARROWING[kind].keys() == {field.name for field in fields if not isinstance(rule_of(field), Nested)}


def kinds_in(kind: type[attrs.AttrsInstance]) -> Iterator[type[attrs.AttrsInstance]]:
    yield kind
    for field in attrs.fields(kind):
        if isinstance(rule := rule_of(field), Nested):
            yield from kinds_in(rule.kind)


CASES: list[tuple[str, Any, Any, Any]] = [
    # field, one, other, merged
    ("workspace", "/usr/share", "/usr/share/doc", Path("/usr/share/doc").resolve()),
    ("allowed_executables", ["a", "b", "c"], ["c", "/usr/bin/b", "a"], ("a", "c")),
    ("allowed_executables", ["a"], ["b"], ()),
    ("max_output_bytes", 5, 3, 3),
    ("write_token_digest", "a" * 64, "a" * 64, "a" * 64),
    ("write_token_digest", "a" * 64, "b" * 64, None),
    ("write_token_digest", "a" * 64, None, None),
    ("on_output_limit", "truncate", "kill", "kill"),
    ("pin_executable_digest", False, True, True),
    ("launch", "auto", "plain", "auto"),
    ("launch", "slots", "auto", "slots"),
    ("launch", "slots", "namespace", "namespace"),
    ("environment.set", {"A": "1"}, {"B": "2"}, {"A": "1", "B": "2"}),
    ("environment.set", {"LD_PRELOAD": "/x"}, {}, {}),
    ("environment.set", {"LD_PRELOAD": "/x"}, {"LD_PRELOAD": "/x"}, {"LD_PRELOAD": "/x"}),
    ("environment.inherit", ["A*", "TERM"], ["AB*", "LANG"], ("AB*",)),
    ("environment.inherit", ["A*"], ["AB"], ("AB",)),
    ("environment.inherit", ["G*"], ["GIT_DIR"], ()),
    ("environment.request_names", ["SEED"], [], ()),
    ("environment.path", None, ["/bin"], ("/bin",)),
    ("environment.path", ["/bin", "/usr/bin"], ["/usr/bin", "/opt"], ("/usr/bin",)),
    ("limits.timeout_seconds", 5, 3, 3.0),
    ("limits.max_timeout_seconds", 500, 300, 300.0),
    ("limits.idle_timeout_seconds", None, 3, 3.0),
    ("limits.max_frame_bytes", 65536, 65537, 65536),
    ("limits.max_answer_bytes", 65536, 65537, 65536),
    ("limits.max_in_flight", 1, 2, 1),
    ("limits.memory_bytes", None, 2**30, 2**30),
    ("limits.memory_bytes", 2**29, 2**30, 2**29),
    ("limits.processes", None, 3, 3),
    ("limits.cpu_seconds", 5, 3, 3),
    ("limits.file_size_bytes", 5, None, 5),
    ("limits.open_files", 64, 65, 64),
    ("paths.file_trust", "regular", "private", "private"),
    ("paths.backslash", "literal", "separator", "refuse"),
    ("paths.backslash", "literal", "literal", "literal"),
    ("paths.protected", [".git"], [".env"], (".git", ".env")),
    ("locked_commands", "readonly", "deny", "deny"),
    ("argument_rules.mode", "advisory", "enforce", "enforce"),
    ("argument_rules.unknown_tools", "allow", "deny", "deny"),
    ("argument_rules.tools", None, ["git"], ("git",)),
    ("argument_rules.tools", ["git", "ls"], ["ls", "rm"], ("ls",)),
    ("argument_rules.documents", ["# a"], ["/etc/b.toml"], ("# a", "/etc/b.toml")),
    ("assurance.formulas", ["AG a"], ["AG b", "AG  a"], ("AG a", "AG b")),
    ("assurance.max_brittleness", 0.8, 0.5, 0.5),
    ("confinement.network", "full", "off", "off"),
    ("confinement.connect_ports", [80, 443], [443, 22], (443,)),
    ("confinement.bind_ports", [80], [443], ()),
    ("confinement.runtime_read_paths", ["/opt/a", "/opt/b"], ["/opt/b"], ("/opt/b",)),
    ("confinement.runtime_write_paths", ["/opt/a", "/opt/b"], ["/opt/b"], ("/opt/b",)),
    ("confinement.reserved_ports", [80], [443, 80], (80, 443)),
    ("confinement.planted_files", "report", "neutralise", "neutralise"),
    ("confinement.planted_files", "neutralise", "fail", "fail"),
    ("confinement.observe", "off", "changes", "changes"),
    ("confinement.observe", "reads", "off", "reads"),
    *[(f"confinement.protections.{name}", "off", "degradable", "degradable") for name in PROTECTIONS],
    *[(f"confinement.protections.{name}", "degradable", "strict", "strict") for name in PROTECTIONS],
    ("audit.path", None, "/var/log/a", Path("/var/log/a")),
    ("audit.on_failure", "continue", "refuse", "refuse"),
]


def with_field(path: str, value: Any) -> BrokerPolicy:
    document: Any = value
    for name in reversed(path.split(".")):
        document = {name: document}
    if path.endswith("_ports"):
        document["confinement"]["network"] = "ports"
    return BrokerPolicy.from_mapping({"workspace": "/usr/share"} | document)


@pytest.mark.parametrize(("path", "one", "other", "merged"), CASES)
def test_each_field_narrows_by_its_rule(path: str, one: Any, other: Any, merged: Any) -> None:
    for first, second in ((one, other), (other, one)):
        value: Any = merge(with_field(path, first), with_field(path, second))
        for name in path.split("."):
            value = getattr(value, name)
        assert set(value) == set(merged) if isinstance(merged, tuple) else value == merged


def test_the_cases_cover_every_field() -> None:
    covered = {path.rpartition(".")[2] for path, *_ in CASES}
    assert covered == {name for rules in NARROWING.values() for name in rules}


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("workspace", "/usr/share", "/opt"),
        ("environment.set", {"A": "1"}, {"A": "2"}),
        ("environment.path", ["/bin"], ["/opt"]),
        ("audit.path", "/var/log/a", "/var/log/b"),
    ],
)
def test_where_nothing_is_within_both_merging_is_refused(path: str, one: Any, other: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        merge(with_field(path, one), with_field(path, other))
    assert [where for where, _ in caught.value.faults] == [path]


def test_all_contradictions_are_listed_at_once() -> None:
    def contradicting(workspace: str, value: str) -> BrokerPolicy:
        environment = EnvironmentPolicy(set={"A": value}, path=(f"/{value}",))
        return BrokerPolicy(workspace=workspace, environment=environment, audit=AuditRules(path=f"/var/log/{value}"))

    with pytest.raises(PolicyError) as caught:
        merge(contradicting("/usr/share", "1"), contradicting("/opt", "2"))
    assert [path for path, _ in caught.value.faults] == ["workspace", "environment.set", "environment.path", "audit.path"]


def test_a_default_timeout_yields_to_a_shorter_maximum() -> None:
    merged = merge(
        with_field("limits.timeout_seconds", 100),
        BrokerPolicy(workspace="/usr/share", limits=Limits(timeout_seconds=5, max_timeout_seconds=50)),
    )
    assert (merged.limits.timeout_seconds, merged.limits.max_timeout_seconds) == (5.0, 50.0)


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ({"network": "ports", "connect_ports": [80]}, {"network": "full"}, ("ports", (80,))),
        ({"network": "ports", "connect_ports": [80]}, {"network": "off"}, ("off", ())),
        ({"network": "full"}, {"network": "full"}, ("full", ())),
    ],
)
def test_ports_narrow_with_their_network(one: Any, other: Any, merged: Any) -> None:
    for first, second in ((one, other), (other, one)):
        narrowed = merge(with_field("confinement", first), with_field("confinement", second)).confinement
        assert (narrowed.network, narrowed.connect_ports) == merged


def test_an_audit_log_inside_the_other_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    outer = BrokerPolicy(workspace=tmp_path)
    inner = BrokerPolicy(workspace=tmp_path / "inner", audit=AuditRules(path=tmp_path / "log"))
    assert merge(outer, inner).workspace == inner.workspace
