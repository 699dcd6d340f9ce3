"""Landlock rules as data: the table of rights, what they compile to, and what older kernels lose."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.confine.landlock import (
    FILE_RIGHTS,
    NEWEST_ABI,
    RIGHTS,
    LandlockRules,
    Ruleset,
    compile_rules,
    downgrade,
    left_open,
    rights,
)

HEADER = Path("/usr/include/linux/landlock.h")
HANDLED_FS = {
    1: 0x1FFF,
    2: 0x3FFF,
    3: 0x7FFF,
    4: 0x7FFF,
    5: 0xFFFF,
    6: 0xFFFF,
    7: 0xFFFF,
    8: 0xFFFF,
    9: 0x1FFFF,
    10: 0x1FFFF,
    11: 0x1FFFF,
}
HANDLED_NET = {3: 0, 4: 3, 9: 3, 10: 0xF}
SCOPED = {5: 0, 6: 3, 11: 3}
FLAGS = {6: 0, 7: 0x7, 8: 0xF, 11: 0x1F}

paths = st.lists(st.sampled_from(["/usr", "/etc", "/work", "/dev/null", "/tmp", "/run/x.sock"]), max_size=4).map(tuple)
ports = st.none() | st.lists(st.integers(0, 65535), max_size=4).map(tuple)
rules_ = st.builds(
    LandlockRules,
    read=paths,
    execute=paths,
    write=paths,
    devices=paths,
    sockets=paths,
    optional=paths,
    ports_bind=ports,
    ports_connect=ports,
    scopes=st.sampled_from([(), ("signal",), ("abstract_unix_socket", "signal")]),
    log_refusals=st.booleans(),
)


@pytest.mark.parametrize(
    ("kind", "table"),
    [("fs", HANDLED_FS), ("net", HANDLED_NET), ("scope", SCOPED), ("flag", FLAGS)],
    ids=["fs", "net", "scope", "flag"],
)
def test_each_abi_has_the_rights_that_the_manual_gives_it(kind: str, table: dict[int, int]) -> None:
    assert {abi: rights(kind, abi=abi) for abi in table} == table  # type: ignore[arg-type]  # the parameters are the kinds


def test_the_table_says_what_the_machines_header_says() -> None:
    if not HEADER.exists():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(
        r"#define LANDLOCK_(ACCESS_FS|ACCESS_NET|SCOPE|RESTRICT_SELF)_(\w+)\s+\(1U?L?L? << (\d+)\)", HEADER.read_text()
    )
    kinds = {"ACCESS_FS": "fs", "ACCESS_NET": "net", "SCOPE": "scope", "RESTRICT_SELF": "flag"}
    bits = {(right.kind, right.name): right.bit for right in RIGHTS}
    assert len(found) >= 13
    for group, name, bit in found:
        assert bits[kinds[group], name.lower()] == int(bit)  # type: ignore[index]  # the words are kinds


def test_a_right_is_named_once_and_says_what_its_absence_means() -> None:
    assert len({(right.kind, right.name) for right in RIGHTS}) == len(RIGHTS)
    assert len({(right.kind, right.bit) for right in RIGHTS}) == len(RIGHTS)
    assert all(right.without for right in RIGHTS)


def test_everything_that_can_be_restricted_is_restricted_by_default() -> None:
    ruleset = compile_rules(LandlockRules())
    assert ruleset == Ruleset(handled_fs=0x1FFFF, handled_net=0xF, scoped=3)


def test_nothing_grants_making_devices() -> None:
    every = ("/x",)
    ruleset = compile_rules(LandlockRules(read=every, execute=every, write=every, devices=every, sockets=every))
    ((_, granted, _),) = ruleset.paths
    assert granted == rights("fs") & ~rights("fs", "make_char", "make_block")


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("read", {"read_file", "read_dir"}),
        ("execute", {"read_file", "read_dir", "execute"}),
        ("devices", {"read_file", "read_dir", "write_file", "truncate", "ioctl_dev"}),
        ("sockets", {"resolve_unix"}),
    ],
)
def test_each_list_grants_what_it_says(field: str, names: set[str]) -> None:
    ((path, granted, optional),) = compile_rules(LandlockRules(**{field: ("/x",)})).paths  # type: ignore[arg-type]  # a field's name
    assert (path, optional) == ("/x", False)
    assert granted == rights("fs", *names)


def test_a_path_in_two_lists_gets_both_rights_in_one_rule() -> None:
    ruleset = compile_rules(LandlockRules(execute=("/work",), write=("/work",), optional={"/work"}))
    ((_, granted, optional),) = ruleset.paths
    assert optional
    assert granted & rights("fs", "execute", "write_file") == rights("fs", "execute", "write_file")


def test_ports_are_granted_one_by_one_and_none_leaves_them_alone() -> None:
    ruleset = compile_rules(LandlockRules(ports_bind=(8080,), ports_connect=(443, 8080)))
    assert ruleset.ports == ((443, 2), (8080, 3))
    assert compile_rules(LandlockRules(ports_bind=None, ports_connect=None)).handled_net == 0
    assert compile_rules(LandlockRules(ports_bind=None)).handled_net == rights("net", "connect_tcp", "connect_send_udp")


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match="0 to 65535"):
        LandlockRules(ports_bind=(port,))


@pytest.mark.parametrize(
    ("abi", "lost"),
    [
        (NEWEST_ABI, []),
        (9, ["bind_udp", "connect_send_udp"]),
        (7, ["bind_udp", "connect_send_udp", "resolve_unix"]),
        (5, ["abstract_unix_socket", "bind_udp", "connect_send_udp", "resolve_unix", "signal"]),
        (
            3,
            [
                "abstract_unix_socket",
                "bind_tcp",
                "bind_udp",
                "connect_send_udp",
                "connect_tcp",
                "ioctl_dev",
                "resolve_unix",
                "signal",
            ],
        ),
    ],
)
def test_what_an_older_kernel_loses_is_named(abi: int, lost: list[str]) -> None:
    assert sorted(right.name for right in left_open(abi)) == lost
    assert all(right.without for right in left_open(abi))


def test_moving_between_directories_is_an_ability_and_not_a_protection() -> None:
    assert "refer" not in {right.name for right in left_open(1)}


def test_without_landlock_nothing_is_left() -> None:
    ruleset = downgrade(compile_rules(LandlockRules(read=("/usr",), ports_bind=(1,))), 0)
    assert ruleset == Ruleset(handled_fs=0, handled_net=0, scoped=0)
    assert {right.name for right in left_open(0)} >= {"read_file", "execute", "bind_tcp", "signal"}


@given(rules_, st.integers(0, NEWEST_ABI + 3))
def test_a_downgrade_never_asks_for_more_than_the_kernel_has_and_never_grants_what_is_not_restricted(
    rules: LandlockRules, abi: int
) -> None:
    whole = compile_rules(rules)
    ruleset = downgrade(whole, abi)
    assert ruleset.handled_fs == whole.handled_fs & rights("fs", abi=abi)
    assert ruleset.handled_net == whole.handled_net & rights("net", abi=abi)
    assert ruleset.scoped & ~rights("scope", abi=abi) == 0
    assert ruleset.flags & ~rights("flag", abi=abi) == 0
    assert all(granted and granted & ~ruleset.handled_fs == 0 for _, granted, _ in ruleset.paths)
    assert all(granted and granted & ~ruleset.handled_net == 0 for _, granted in ruleset.ports)


@given(rules_, st.integers(0, NEWEST_ABI), st.integers(0, NEWEST_ABI))
def test_a_downgrade_in_two_steps_is_one_to_the_lower(rules: LandlockRules, one: int, other: int) -> None:
    twice = downgrade(downgrade(compile_rules(rules), one), other)
    assert twice == downgrade(compile_rules(rules), min(one, other))


@given(rules_)
def test_a_ruleset_travels_as_json(rules: LandlockRules) -> None:
    wire = compile_rules(rules).to_wire()
    assert json.loads(json.dumps(wire)) == wire
    assert (
        wire["file_rights"]
        == FILE_RIGHTS
        == rights("fs", "execute", "write_file", "read_file", "truncate", "ioctl_dev", "resolve_unix")
    )
