"""The classes check what they are given, whoever builds them, and list every fault."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.errors import PolicyError
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

MIB = 1024 * 1024
DEFAULTS: dict[type, dict[str, Any]] = {
    BrokerPolicy: {
        "allowed_executables": ("python", "python3", "pytest"),
        "max_output_bytes": 1_000_000,
        "write_token_digest": None,
        "on_output_limit": "kill",
        "environment": EnvironmentPolicy(),
        "limits": Limits(),
        "paths": PathRules(),
        "audit": AuditRules(),
        "confinement": Confinement.strict(),
        "locked_commands": "readonly",
        "argument_rules": ArgumentPolicy(),
        "assurance": AssurancePolicy(),
        "pin_executable_digest": False,
        "launch": "auto",
    },
    Confinement: {
        "protections": Protections(),
        "network": "off",
        "connect_ports": (),
        "bind_ports": (),
        "runtime_read_paths": (),
        "runtime_write_paths": (),
        "reserved_ports": (),
        "planted_files": "neutralise",
        "observe": "changes",
    },
    Protections: dict.fromkeys(PROTECTIONS, "strict")
    | dict.fromkeys(("host_metadata", "later_files", "other_processes", "resources"), "degradable"),
    ArgumentPolicy: {"mode": "off", "unknown_tools": "deny", "tools": None, "documents": ()},
    AssurancePolicy: {"formulas": (), "max_brittleness": 0.8},
    EnvironmentPolicy: {"set": {}, "inherit": (), "request_names": (), "path": None},
    Limits: {
        "timeout_seconds": 120.0,
        "max_timeout_seconds": 3600.0,
        "idle_timeout_seconds": None,
        "max_frame_bytes": MIB,
        "max_answer_bytes": 16 * MIB,
        "max_in_flight": 64,
        "memory_bytes": None,
        "processes": None,
        "cpu_seconds": None,
        "file_size_bytes": None,
        "open_files": None,
    },
    PathRules: {"file_trust": "private", "backslash": "separator", "protected": ()},
    AuditRules: {"path": None, "on_failure": "refuse"},
}


def build(kind: type, workspace: Path, /, **fields: Any) -> Any:
    return kind(**({"workspace": workspace} | fields if kind is BrokerPolicy else fields))


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_defaults_are_the_documented_ones(kind: type, workspace: Path) -> None:
    value = build(kind, workspace)
    assert {name: getattr(value, name) for name in DEFAULTS[kind]} == DEFAULTS[kind]
    assert {field.name for field in attrs.fields(kind)} - {"workspace"} == DEFAULTS[kind].keys()


class Word(str):
    """A subclass that a rule must not keep: it could change its answers."""


NESTED = ("environment", "limits", "paths", "audit", "confinement", "argument_rules", "assurance")
REFUSED: list[tuple[type, str, Any, str]] = [
    # kind, field, value, path of the fault
    (BrokerPolicy, "workspace", "", "workspace"),
    (BrokerPolicy, "workspace", "/no/such/directory", "workspace"),
    (BrokerPolicy, "workspace", "/dev/null", "workspace"),
    (BrokerPolicy, "workspace", "~no-such-user-at-all/x", "workspace"),
    (BrokerPolicy, "workspace", "/usr\0", "workspace"),
    (BrokerPolicy, "workspace", "/usr\udc80", "workspace"),
    (BrokerPolicy, "workspace", b"/usr", "workspace"),
    (BrokerPolicy, "workspace", None, "workspace"),
    (BrokerPolicy, "workspace", 3, "workspace"),
    (BrokerPolicy, "workspace", ["/usr"], "workspace"),
    (BrokerPolicy, "allowed_executables", "python", "allowed_executables"),
    (BrokerPolicy, "allowed_executables", {"python": 1}, "allowed_executables"),
    (BrokerPolicy, "allowed_executables", {"python"}, "allowed_executables"),
    (BrokerPolicy, "allowed_executables", None, "allowed_executables"),
    (BrokerPolicy, "allowed_executables", iter(["python"]), "allowed_executables"),
    (BrokerPolicy, "allowed_executables", ["python", 3], "allowed_executables[1]"),
    (BrokerPolicy, "allowed_executables", [b"python"], "allowed_executables[0]"),
    (BrokerPolicy, "allowed_executables", [["python"]], "allowed_executables[0]"),
    *[
        (BrokerPolicy, "allowed_executables", ["git", entry], "allowed_executables[1]")
        for entry in ("", "bin/git", "./git", "../git", "git/", "/", "/usr/bin/", "/usr/bin/..", ".", "..", "a\0b", "a\udcff")
    ],
    *[
        (BrokerPolicy, "max_output_bytes", value, "max_output_bytes")
        for value in (0, -1, True, 3.0, "3", None, 2**53, 10**5000, [1])
    ],
    *[
        (BrokerPolicy, "write_token_digest", value, "write_token_digest")
        for value in ("a" * 63, "a" * 65, "g" * 64, "٣" * 64, "sha256:" + "a" * 64, 3, b"a" * 64, "a" * 63 + "\0")
    ],
    *[(BrokerPolicy, "on_output_limit", value, "on_output_limit") for value in ("", "KILL", "kill ", None, True, ["kill"])],
    *[(BrokerPolicy, "pin_executable_digest", value, "pin_executable_digest") for value in ("false", 0, 1, None, "")],
    *[(BrokerPolicy, "launch", value, "launch") for value in ("", "Auto", None, 1)],
    *[(BrokerPolicy, name, value, name) for name in NESTED for value in ({}, None, "x", ())],
    *[(BrokerPolicy, "locked_commands", value, "locked_commands") for value in ("allow", None, True)],
    *[(Protections, name, value, name) for name in PROTECTIONS for value in ("on", "STRICT", None, True)],
    *[(Confinement, "protections", value, "protections") for value in ({}, None, "strict")],
    *[(Confinement, "network", value, "network") for value in ("", "on", None, False)],
    *[
        (Confinement, field, value, path)
        for field in ("connect_ports", "bind_ports")
        for value, path in (
            ((80,), field),  # only for network = "ports"
            (80, field),
            ((0,), f"{field}[0]"),
            ((65536,), f"{field}[0]"),
            (("80",), f"{field}[0]"),
            ((True,), f"{field}[0]"),
        )
    ],
    *[
        (Confinement, name, ["/opt", entry], f"{name}[1]")
        for name in ("runtime_read_paths", "runtime_write_paths")
        for entry in ("", "opt", "~no-such-user-at-all/x", "/", "//", "/opt/../root", "/a\0", 3, None)
    ],
    (Confinement, "runtime_read_paths", "/opt", "runtime_read_paths"),
    *[(Confinement, "runtime_write_paths", ["/opt", entry], "runtime_write_paths[1]") for entry in ("/usr", "/home", "/etc")],
    *[(Confinement, "reserved_ports", ports, path) for ports, path in ((80, "reserved_ports"), ((0,), "reserved_ports[0]"))],
    *[(Confinement, "planted_files", value, "planted_files") for value in ("", "delete", None)],
    *[(Confinement, "observe", value, "observe") for value in ("", "writes", True, None)],
    *[
        (AssurancePolicy, "formulas", value, path)
        for value, path in (("AG a", "formulas"), (["AG a", "AG"], "formulas[1]"), ([""], "formulas[0]"), ([3], "formulas[0]"))
    ],
    *[(AssurancePolicy, "max_brittleness", value, "max_brittleness") for value in (0, 0.009, 1.01, True, "0.5", float("nan"))],
    *[(ArgumentPolicy, "mode", value, "mode") for value in ("", "on", None, True)],
    *[(ArgumentPolicy, "unknown_tools", value, "unknown_tools") for value in ("refuse", None)],
    *[(ArgumentPolicy, "tools", value, path) for value, path in (("git", "tools"), (["a", 3], "tools[1]"), (["\0"], "tools[0]"))],
    *[
        (ArgumentPolicy, "documents", value, path)
        for value, path in (
            ("# x", "documents"),
            (["# x", ""], "documents[1]"),
            ([" \n"], "documents[0]"),
            (["/a\nb"], "documents[0]"),
            (["# x", "rules.toml"], "documents[1]"),
            (["./deep/rules.toml"], "documents[0]"),
        )
    ],
    (BrokerPolicy, "limits", PathRules(), "limits"),
    (EnvironmentPolicy, "set", [("A", "1")], "set"),
    (EnvironmentPolicy, "set", "A=1", "set"),
    (EnvironmentPolicy, "set", {"A": 1}, "set.A"),
    (EnvironmentPolicy, "set", {"A": None}, "set.A"),
    (EnvironmentPolicy, "set", {"A": "a\0"}, "set.A"),
    (EnvironmentPolicy, "set", {"A": "\ud800"}, "set.A"),
    (EnvironmentPolicy, "set", {"PATH": "/bin"}, "set.PATH"),
    (EnvironmentPolicy, "set", {"Path": "/bin"}, "set.Path"),
    *[(EnvironmentPolicy, "set", {name: "1"}, "set") for name in ("", "A=B", "1A", "A B", "A\0", "é", 3, "BASH_FUNC_x%%")],
    *[
        (EnvironmentPolicy, field, ["TERM", entry], f"{field}[1]")
        for field in ("inherit", "request_names")
        for entry in (
            "",
            "*",
            "A=B",
            "**",
            "A**",
            "*A",
            "LD_*",
            "LD_PRE*",
            "python*",
            "GIT_*",
            "BASH_FUNC_*",
            "DYLD_*",
            3,
            None,
            "A\0",
        )
    ],
    (EnvironmentPolicy, "inherit", "TERM", "inherit"),
    (EnvironmentPolicy, "path", (), "path"),
    (EnvironmentPolicy, "path", "/bin", "path"),
    *[
        (EnvironmentPolicy, "path", ("/bin", entry), "path[1]")
        for entry in ("", ".", "bin", "~no-one-at-all/x", "/a:/b", "/a\0", 3)
    ],
    *[
        (Limits, field, value, field)
        for field in ("timeout_seconds", "max_timeout_seconds", "idle_timeout_seconds")
        for value in (0, -1, 0.0, True, "120", float("nan"), float("inf"), 3600.1, 10**400, [1])
    ],
    (Limits, "timeout_seconds", None, "timeout_seconds"),
    (Limits, "max_timeout_seconds", 60, "timeout_seconds"),
    *[(Limits, "max_frame_bytes", value, "max_frame_bytes") for value in (64 * 1024 - 1, 64 * MIB + 1, True, 1e6, "1048576")],
    *[(Limits, "max_answer_bytes", value, "max_answer_bytes") for value in (64 * 1024 - 1, 1024 * MIB + 1, None)],
    *[(Limits, "max_in_flight", value, "max_in_flight") for value in (0, 4097, False, 1.0)],
    *[(Limits, "memory_bytes", value, "memory_bytes") for value in (0, 32 * MIB - 1, 2**53, True, 1e9, "64MB")],
    *[(Limits, "processes", value, "processes") for value in (0, -1, 1_000_001, True, 10.0)],
    *[(Limits, "cpu_seconds", value, "cpu_seconds") for value in (0, 0.5, 1.0, 1_000_001, False, "1")],
    *[(Limits, "file_size_bytes", value, "file_size_bytes") for value in (0, -1, 2**53, True, 1e6)],
    *[(Limits, "open_files", value, "open_files") for value in (0, 15, 1_048_577, True, 64.0)],
    (PathRules, "file_trust", "none", "file_trust"),
    (PathRules, "backslash", "/", "backslash"),
    *[(PathRules, "protected", ["ok", entry], "protected[1]") for entry in ("", ".", "..", "a/b", "a\\b", "a\0", 3)],
    (PathRules, "protected", ".git", "protected"),
    *[(AuditRules, "path", value, "path") for value in ("", "log", "~no-one/log", "/", "/a/..", "/a\0", 3, b"/log", "/\udc80")],
    (AuditRules, "on_failure", "ignore", "on_failure"),
]


REFUSED_IDS = [
    f"{kind.__name__}.{field}-{number}" for number, (kind, field, *_) in enumerate(REFUSED)
]  # some values have no str()


@pytest.mark.parametrize(("kind", "field", "value", "path"), REFUSED, ids=REFUSED_IDS)
def test_a_faulty_value_is_refused_at_its_path(kind: type, field: str, value: Any, path: str, workspace: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        build(kind, workspace, **{field: value})
    assert [where for where, _ in caught.value.faults] == [path]
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_the_table_of_refusals_covers_every_field() -> None:
    assert {(kind, field) for kind, field, *_ in REFUSED} == {
        (kind, field.name) for kind in DEFAULTS for field in attrs.fields(kind)
    }


ACCEPTED: list[tuple[type, str, Any, Any]] = [
    # kind, field, value, what it becomes
    (BrokerPolicy, "allowed_executables", ["git", "git", "/usr/bin/git"], ("git", "/usr/bin/git")),
    (BrokerPolicy, "allowed_executables", (), ()),
    (BrokerPolicy, "allowed_executables", ["...", "with space", "back\\slash"], ("...", "with space", "back\\slash")),
    (BrokerPolicy, "max_output_bytes", 1, 1),
    (BrokerPolicy, "write_token_digest", f"  {'AB' * 32}\n", "ab" * 32),
    (BrokerPolicy, "write_token_digest", " \t\n", None),
    (BrokerPolicy, "write_token_digest", "", None),
    (Limits, "timeout_seconds", 3, 3.0),
    (Limits, "timeout_seconds", 3600, 3600.0),
    (Limits, "timeout_seconds", 1e-9, 1e-9),
    (Limits, "idle_timeout_seconds", 2, 2.0),
    (Limits, "max_frame_bytes", 64 * 1024, 64 * 1024),
    (
        EnvironmentPolicy,
        "set",
        {"LD_PRELOAD": "/x.so", "ProgramFiles(x86)": ""},
        {"LD_PRELOAD": "/x.so", "ProgramFiles(x86)": ""},
    ),
    (EnvironmentPolicy, "inherit", ["PYTHONPATH", "LC_*", "G*"], ("PYTHONPATH", "LC_*", "G*")),
    (EnvironmentPolicy, "path", ["/bin"], ("/bin",)),
    (PathRules, "protected", [".git", ".env"], (".git", ".env")),
    (AssurancePolicy, "formulas", ["AG( a->b )", "AG (a -> b)", "[]x"], ("AG (a -> b)", "AX x")),
    (AssurancePolicy, "max_brittleness", 1, 1.0),
    (AuditRules, "path", "/var/log/a.jsonl", Path("/var/log/a.jsonl")),
]


@pytest.mark.parametrize(("kind", "field", "value", "becomes"), ACCEPTED)
def test_a_good_value_takes_its_one_form(kind: type, field: str, value: Any, becomes: Any, workspace: Path) -> None:
    settled = getattr(build(kind, workspace, **{field: value}), field)
    assert settled == becomes
    assert type(settled) is type(becomes) or field == "set"


def test_subclasses_of_str_are_not_kept(workspace: Path) -> None:
    policy = BrokerPolicy(workspace=workspace, allowed_executables=(Word("git"),), launch=Word("plain"))  # type: ignore[arg-type]  # a subclass of str, on purpose
    assert type(policy.allowed_executables[0]) is str
    assert type(policy.launch) is str


def test_every_fault_is_listed_at_once(workspace: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy(workspace=workspace / "gone", allowed_executables=["a/b", ""], max_output_bytes=0, launch="x")  # type: ignore[arg-type]  # wrong on purpose
    assert [path for path, _ in caught.value.faults] == [
        "workspace",
        "allowed_executables[0]",
        "allowed_executables[1]",
        "max_output_bytes",
        "launch",
    ]


def test_rules_hold_with_attrs_validators_switched_off(workspace: Path) -> None:
    with attrs.validators.disabled(), pytest.raises(PolicyError):
        BrokerPolicy(workspace=workspace, max_output_bytes=0)


def test_evolve_checks_too(workspace: Path) -> None:
    policy = BrokerPolicy(workspace=workspace)
    assert attrs.evolve(policy, max_output_bytes=5).max_output_bytes == 5
    with pytest.raises(PolicyError):
        attrs.evolve(policy, max_output_bytes=0)


def test_a_policy_cannot_change(workspace: Path) -> None:
    variables, names = {"A": "1"}, ["TERM"]
    policy = BrokerPolicy(workspace=workspace, environment=EnvironmentPolicy(set=variables, inherit=names))
    before = policy.digest
    variables["LD_PRELOAD"] = "/x.so"
    names.append("LD_PRELOAD")
    assert policy.environment.set == {"A": "1"}
    assert policy.environment.inherit == ("TERM",)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        policy.launch = "plain"
    with pytest.raises(TypeError):
        policy.environment.set["B"] = "2"  # type: ignore[index]  # it must fail
    assert attrs.evolve(policy).digest == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_equal_in_value_hash_and_digest(copied: Callable[[Any], Any], workspace: Path) -> None:
    policy = BrokerPolicy(workspace=workspace, environment=EnvironmentPolicy(set={"A": "1"}))
    twin = copied(policy)
    assert (twin, hash(twin), twin.digest) == (policy, hash(policy), policy.digest)


def test_printing_a_policy_shows_no_token_digest_and_no_values_of_variables(workspace: Path) -> None:
    environment = EnvironmentPolicy(set={"API_KEY": "s3cret"})
    printed = repr(BrokerPolicy(workspace=workspace, write_token_digest="a" * 64, environment=environment))
    assert "API_KEY" in printed
    assert "s3cret" not in printed
    assert "aaaa" not in printed


def test_faults_show_no_secret(workspace: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy(workspace=workspace, write_token_digest="my-token")
    assert "my-token" not in str(caught.value)
    with pytest.raises(PolicyError) as caught:
        EnvironmentPolicy(set={"A": "s3cret\0"})
    assert "s3cret" not in str(caught.value)
