"""Documents are read strictly and judged as a whole; what is dumped is read back the same."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.errors import PolicyError
from fable_exec.policy import (
    PROTECTIONS,
    BrokerPolicy,
    Confinement,
    Protections,
    dump_json,
    dump_toml,
    load_policy,
    parse_json,
    parse_toml,
    to_mapping,
)
from fable_exec.policy.document import MAX_DOCUMENT_BYTES
from fable_exec.testing.strategies import policies
from tests.fuzzing import A_TENTH

FULL = """
workspace = "{workspace}"
allowed_executables = ["git", "~/bin/tool"]
max_output_bytes = 5000
write_token_digest = "{digest}"
on_output_limit = "truncate"
pin_executable_digest = true
launch = "plain"
locked_commands = "deny"

[environment]
set = {{ CI = "1", "ProgramFiles(x86)" = "C:" }}
inherit = ["LC_*"]
request_names = ["SEED"]
path = ["/usr/bin"]

[limits]
timeout_seconds = 5
max_timeout_seconds = 60.5
idle_timeout_seconds = 3
max_frame_bytes = 65536
max_answer_bytes = 65536
max_in_flight = 1
memory_bytes = 1073741824
processes = 500
cpu_seconds = 60
file_size_bytes = 1048576
open_files = 256

[paths]
file_trust = "regular"
backslash = "refuse"
protected = [".git"]

[audit]
path = "/var/log/a.jsonl"
on_failure = "continue"

[confinement]
network = "ports"
connect_ports = [443]
bind_ports = [8080]
runtime_read_paths = ["/opt/tool"]
runtime_write_paths = ["/srv/cache"]
reserved_ports = [22]
planted_files = "report"
observe = "reads"

[confinement.protections]
{protections}

[argument_rules]
mode = "enforce"
unknown_tools = "allow"
tools = ["git"]
documents = ["# none"]

[assurance]
formulas = ["AG !network_open"]
max_brittleness = 0.5
"""


EACH_PROTECTION_CHANGED = "\n".join(
    f'{name} = "{"degradable" if getattr(Protections(), name) == "off" else "off"}"' for name in PROTECTIONS
)


def faults(read: Callable[[], object]) -> list[tuple[str, str]]:
    with pytest.raises(PolicyError) as caught:
        read()
    return list(caught.value.faults)


def test_a_full_document_sets_every_field(workspace: Path) -> None:
    policy = parse_toml(FULL.format(workspace=workspace, digest="AB" * 32, protections=EACH_PROTECTION_CHANGED))
    default = BrokerPolicy(workspace=workspace)
    for field in attrs.fields(BrokerPolicy):
        value, plain = getattr(policy, field.name), getattr(default, field.name)
        if attrs.has(type(value)):
            assert unchanged(value, plain) == []
        else:
            assert field.name == "workspace" or value != plain


def unchanged(value: Any, plain: Any) -> list[str]:
    """The fields of a table that are the same in `plain`, tables in it entered."""
    names = []
    for name in to_keys(value):
        one, other = getattr(value, name), getattr(plain, name)
        names += unchanged(one, other) if attrs.has(type(one)) else [name] * (one == other)
    return names


def to_keys(value: Any) -> list[str]:
    return [field.name for field in attrs.fields(type(value))]


def test_every_fault_of_a_document_is_listed_with_its_path(workspace: Path) -> None:
    document = {
        "limits": {"timeout_seconds": "3", "max_timeout_seconds": True, "max_in_flight": 0, "speed": 1},
        "environment": {"set": {"PATH": "x", "OK": 1}, "inherit": ["LD_*"]},
        "paths": [],
        "audit": {"path": "log"},
        "max_output_bytes": 3.0,
        "pin_executable_digest": "false",
        "allowed_executables": "python",
        "sandbox": False,
    }
    assert [path for path, _ in faults(lambda: BrokerPolicy.from_mapping(document))] == [
        "workspace",
        "allowed_executables",
        "max_output_bytes",
        "environment.set.PATH",
        "environment.set.OK",
        "environment.inherit[0]",
        "limits.timeout_seconds",
        "limits.max_timeout_seconds",
        "limits.max_in_flight",
        "limits.speed",
        "paths",
        "audit.path",
        "pin_executable_digest",
        "sandbox",
    ]


def test_faults_between_fields_are_listed_beside_others(workspace: Path) -> None:
    document = {
        "workspace": str(workspace),
        "audit": {"path": f"{workspace}/log"},
        "limits": {"timeout_seconds": 9, "max_timeout_seconds": 8, "max_in_flight": 0},
        "x": 1,
    }
    assert [path for path, _ in faults(lambda: BrokerPolicy.from_mapping(document))] == [
        "limits.max_in_flight",
        "limits.timeout_seconds",
        "audit.path",
        "x",
    ]


def test_null_means_the_default_everywhere(workspace: Path) -> None:
    names = [name for name in to_mapping(BrokerPolicy(workspace=workspace)) if name != "workspace"]
    nulls = {"workspace": str(workspace), **dict.fromkeys(names)}
    assert BrokerPolicy.from_mapping(nulls) == BrokerPolicy(workspace=workspace)
    tables = {
        name: dict.fromkeys(table)
        for name, table in to_mapping(BrokerPolicy(workspace=workspace)).items()
        if isinstance(table, dict)
    }
    assert BrokerPolicy.from_mapping({"workspace": str(workspace), **tables}) == BrokerPolicy(workspace=workspace)
    assert faults(lambda: BrokerPolicy.from_mapping({"workspace": None})) == [("workspace", "is required")]


@pytest.mark.parametrize("table", [{}, {"confinement": None}, {"confinement": {}}, {"confinement": {"protections": {}}}])
def test_a_document_that_says_nothing_of_confinement_is_strict(table: dict[str, Any], workspace: Path) -> None:
    assert BrokerPolicy.from_mapping({"workspace": str(workspace), **table}).confinement == Confinement.strict()


def test_the_document_that_switches_confinement_off_is_the_one_in_the_manual(workspace: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/confine.md").read_text()
    document = page.partition("## Switch it off")[2].partition("```toml\n")[2].partition("```")[0]
    assert parse_toml(f'workspace = "{workspace}"\n{document}').confinement == Confinement.off()


@pytest.mark.parametrize("document", [None, [], "x", 3, [("workspace", "/usr")]])
def test_a_document_that_is_no_table_is_refused(document: Any) -> None:
    assert faults(lambda: BrokerPolicy.from_mapping(document))[0][1].startswith("must be a table")


def test_only_the_top_may_name_a_schema(workspace: Path) -> None:
    schema = {"$schema": "policy.schema.json"}
    assert BrokerPolicy.from_mapping({**schema, "workspace": str(workspace)})
    assert faults(lambda: BrokerPolicy.from_mapping({"workspace": str(workspace), "limits": schema}))[0][0] == "limits.$schema"
    assert faults(lambda: BrokerPolicy.from_mapping({"workspace": str(workspace), "$schema": 3}))[0][0] == "$schema"


@pytest.mark.parametrize("key", [3, None, "a\nb", "x" * 5000, "\udc80"])
def test_an_odd_unknown_key_is_shown_bounded_and_printable(key: Any, workspace: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        BrokerPolicy.from_mapping({"workspace": str(workspace), key: 1})
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"workspace": "/usr/share", "workspace": "/usr"}',
        '{"workspace": "/usr/share", "limits": {"max_in_flight": 1, "max_in_flight": 2}}',
        '{"workspace": "/usr/share", "max_output_bytes": NaN}',
        '{"workspace": "/usr/share", "limits": {"timeout_seconds": Infinity}}',
        '{"workspace": "/usr/share", "limits": {"timeout_seconds": 1e999}}',
        '{"workspace": "/usr/share", "max_output_bytes": ' + "9" * 5000 + "}",
        '{"workspace": "/usr/share"} x',
        '{"workspace": "/usr\\udc80"}',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
    ids=range(14),
)
def test_bad_json_is_one_policy_error(text: str) -> None:
    assert len(faults(lambda: parse_json(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "workspace",
        "workspace = '/usr'\nworkspace = '/usr'",
        "a = " + "[" * 5000,
        "workspace = 1979-05-27",
        "workspace = '/usr'\nx = nan",
    ],
    ids=range(5),
)
def test_bad_toml_is_one_policy_error(text: str) -> None:
    with pytest.raises(PolicyError):
        parse_toml(text)


def test_files_are_read_by_their_suffix(workspace: Path, tmp_path: Path) -> None:
    policy = BrokerPolicy(workspace=workspace)
    (tmp_path / "p.toml").write_text(dump_toml(policy))
    (tmp_path / "p.JSON").write_text(dump_json(policy))
    assert load_policy(tmp_path / "p.toml") == load_policy(str(tmp_path / "p.JSON")) == policy
    assert BrokerPolicy.from_toml(tmp_path / "p.toml") == BrokerPolicy.from_json(tmp_path / "p.JSON") == policy
    assert faults(lambda: load_policy(tmp_path / "p.yaml"))[0][0] == ""


def test_a_file_that_cannot_be_read_is_a_policy_error(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"workspace = '\xff'")
    (tmp_path / "long.toml").write_bytes(b"#" * (MAX_DOCUMENT_BYTES + 1))
    (tmp_path / "dir.toml").mkdir()
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "dangling.toml").symlink_to("gone.toml")
    told = {
        "bytes": "not UTF-8 at byte 13",
        "long": "longer than",
        "dir": "a directory, not a file",
        "fifo": "not a regular file",
        "gone": "no such file",
        "dangling": "no such file",
        "n\0l": "no such file",
    }
    for name, words in told.items():
        ((_, text),) = faults(partial(load_policy, tmp_path / f"{name}.toml"))
        assert words in text and ascii(f"{name}.toml")[1:-1] in text


def test_a_file_that_is_not_there_is_told_before_its_ending(tmp_path: Path) -> None:
    assert faults(lambda: load_policy(tmp_path / "MISSING")) == [("", f"no such file: '{tmp_path}/MISSING'")]


@pytest.mark.fuzz
@A_TENTH
@given(policies())
def test_every_policy_is_read_back_as_it_was_dumped(policy: BrokerPolicy) -> None:
    for again in (parse_json(dump_json(policy)), parse_toml(dump_toml(policy)), BrokerPolicy.from_mapping(to_mapping(policy))):
        assert again == policy
        assert again.digest == policy.digest
    assert json.loads(dump_json(policy)) == to_mapping(policy)
    assert tomllib.loads(dump_toml(policy)).keys() <= to_mapping(policy).keys()


@pytest.mark.fuzz
@A_TENTH
@given(policies(), policies())
def test_policies_have_one_digest_exactly_when_they_are_equal(one: BrokerPolicy, other: BrokerPolicy) -> None:
    assert (one.digest == other.digest) == (one == other)


@pytest.mark.fuzz
@A_TENTH
@given(policies(), st.data())
def test_the_digest_changes_with_any_field(policy: BrokerPolicy, data: st.DataObject) -> None:
    other = data.draw(policies())
    for field in attrs.fields(BrokerPolicy):
        value, changed = getattr(policy, field.name), getattr(other, field.name)
        inner = attrs.fields(type(value)) if attrs.has(type(value)) else ()
        candidates = [changed] if not inner else [swapped(value, changed, each.name) for each in inner]
        for candidate in candidates:
            if candidate is not None and candidate != value:
                assert attrs.evolve(policy, **{field.name: candidate}).digest != policy.digest


def swapped(value: Any, other: Any, name: str) -> Any:
    try:
        return attrs.evolve(value, **{name: getattr(other, name)})
    except PolicyError:
        return None  # the two timeouts would cross


def test_the_canonical_form_is_stable() -> None:
    """The digest stands in logs and attestations: it must not change unless the policy's meaning does."""
    policy = BrokerPolicy(workspace="/usr/share")
    assert dump_json(policy) == (
        '{"allowed_executables":["python","python3","pytest"],'
        '"argument_rules":{"documents":[],"mode":"off","tools":null,"unknown_tools":"deny"},'
        '"assurance":{"formulas":[],"max_brittleness":0.8},'
        '"audit":{"on_failure":"refuse","path":null},"confinement":{"bind_ports":[],"connect_ports":[],"network":"off",'
        '"observe":"changes",'
        '"planted_files":"neutralise","protections":{"host_metadata":"degradable","host_reads":"strict","host_sockets":"strict",'
        '"host_writes":"strict","kernel_surface":"strict","later_files":"degradable","network":"strict",'
        '"other_processes":"degradable","resources":"degradable","whole_tree_end":"strict","workspace_writes":"strict"},'
        '"reserved_ports":[],"runtime_read_paths":[],"runtime_write_paths":[]},'
        '"environment":{"inherit":[],"path":null,"request_names":[],"set":{}},"launch":"auto",'
        '"limits":{"cpu_seconds":null,"file_size_bytes":null,"idle_timeout_seconds":null,"max_answer_bytes":16777216,'
        '"max_frame_bytes":1048576,"max_in_flight":64,"max_timeout_seconds":3600,"memory_bytes":null,"open_files":null,'
        '"processes":null,"timeout_seconds":120},"locked_commands":"readonly","max_output_bytes":1000000,"on_output_limit":"kill",'
        '"paths":{"backslash":"separator","file_trust":"private","protected":[]},"pin_executable_digest":false,'
        '"workspace":"/usr/share","write_token_digest":null}'
    )
    assert policy.digest == hashlib.sha256(dump_json(policy).encode()).hexdigest()
