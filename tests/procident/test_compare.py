"""Same, other, or unknown: what two records of processes prove, and nothing more than that."""

from __future__ import annotations

import itertools
import json
from typing import Any

import attrs
import pytest
from hypothesis import given

from fable_exec.errors import StateUnreadable
from fable_exec.procident import BirthToken, Comparison, ProcessIdentity, TokenKind, compare
from tests.fuzzing import A_TENTH
from tests.procident.identities import identities, two_looks

BOOT, REBOOTED = "cdda642c-2827-49cf-ba80-5aa5d2e61366", "11111111-2827-49cf-ba80-5aa5d2e61366"
HOST, CONTAINER = 4026531836, 4026532562
CLOCKS, SHIFTED = 4026531834, 4026532326
PROCESS = ProcessIdentity(4711, BirthToken.parse(f"proc:{BOOT}:2507422"), 6653607, HOST, BOOT, CLOCKS)
OLD_KERNEL = attrs.evolve(PROCESS, unique_id=None)
PS_MONDAY, PS_TUESDAY = (
    ProcessIdentity(4711, BirthToken.parse(f"ps:{day} Nov 30 03:28:25 2026"), pid_namespace=0) for day in ("Mon", "Tue")
)
MAC = ProcessIdentity(4711, BirthToken.parse("darwin:1796009305:4711"), 6653607, 0, BOOT)
OLD_MAC = attrs.evolve(MAC, unique_id=None)


def at(identity: ProcessIdentity, token: str, **changes: Any) -> ProcessIdentity:
    """The same with another token, and the boot that it names."""
    birth = BirthToken.parse(token)
    boot_id = birth.boot_id if birth.kind is TokenKind.PROC else identity.boot_id
    return attrs.evolve(identity, birth=birth, boot_id=boot_id, **changes)


STRANGER = attrs.evolve(PROCESS, unique_id=6653608)
NO_TOKEN = attrs.evolve(PROCESS, birth=None)
LATER, HIDDEN_BOOT, HIDDEN_BOOT_LATER = f"proc:{BOOT}:2507423", "proc::2507422", "proc::2507423"
NEXT_BOOT, NEXT_BOOT_LATER = f"proc:{REBOOTED}:2507422", f"proc:{REBOOTED}:2507423"

CASES: dict[str, tuple[ProcessIdentity, ProcessIdentity, Comparison]] = {
    "nothing changed": (PROCESS, PROCESS, Comparison.SAME),
    "born in one tick, one number (168 of 200 forced reuses)": (PROCESS, STRANGER, Comparison.OTHER),
    "the kernel's number needs no ticks (S4: they cannot be read)": (PROCESS, NO_TOKEN, Comparison.SAME),
    "seen from another time namespace": (PROCESS, at(PROCESS, LATER, time_namespace=SHIFTED), Comparison.SAME),
    "seen from another PID namespace": (PROCESS, attrs.evolve(PROCESS, pid=7, pid_namespace=CONTAINER), Comparison.SAME),
    "another number in one namespace": (PROCESS, attrs.evolve(PROCESS, pid=4712), Comparison.OTHER),
    "the kernel's number again after a reboot": (PROCESS, at(PROCESS, NEXT_BOOT_LATER), Comparison.OTHER),
    "a container shows a boot id of its own (S22)": (PROCESS, at(PROCESS, NEXT_BOOT), Comparison.UNKNOWN),
    "the boot id is hidden (S22)": (PROCESS, at(PROCESS, HIDDEN_BOOT), Comparison.UNKNOWN),
    "the boot id was hidden on both sides": (at(PROCESS, HIDDEN_BOOT), at(PROCESS, HIDDEN_BOOT), Comparison.UNKNOWN),
    "hidden boot id, another tick: rebooted": (PROCESS, at(PROCESS, HIDDEN_BOOT_LATER), Comparison.OTHER),
    "hidden boot id, another tick, another number of the kernel's": (
        PROCESS,
        at(PROCESS, HIDDEN_BOOT_LATER, unique_id=6653608),
        Comparison.OTHER,
    ),
    "old kernel": (OLD_KERNEL, OLD_KERNEL, Comparison.SAME),
    "old kernel, one tick later (S18: no tolerance)": (OLD_KERNEL, at(OLD_KERNEL, LATER), Comparison.OTHER),
    "old kernel, a tick that cannot be read (S4)": (OLD_KERNEL, attrs.evolve(OLD_KERNEL, birth=None), Comparison.UNKNOWN),
    "old kernel, rebooted (S19: after 60 days)": (OLD_KERNEL, at(OLD_KERNEL, NEXT_BOOT_LATER), Comparison.OTHER),
    "old kernel, rebooted or a container's boot id, one tick": (OLD_KERNEL, at(OLD_KERNEL, NEXT_BOOT), Comparison.UNKNOWN),
    "old kernel, another time namespace, other ticks": (
        OLD_KERNEL,
        at(OLD_KERNEL, LATER, time_namespace=SHIFTED),
        Comparison.UNKNOWN,
    ),
    "old kernel, another time namespace, same ticks": (
        OLD_KERNEL,
        attrs.evolve(OLD_KERNEL, time_namespace=SHIFTED),
        Comparison.UNKNOWN,
    ),
    "old kernel, another PID namespace, same number (S22: container restarted)": (
        OLD_KERNEL,
        attrs.evolve(OLD_KERNEL, pid_namespace=CONTAINER),
        Comparison.UNKNOWN,
    ),
    "old kernel, another PID namespace, another tick": (
        OLD_KERNEL,
        at(OLD_KERNEL, LATER, pid_namespace=CONTAINER),
        Comparison.UNKNOWN,
    ),
    "another process in another PID namespace: the recorded one may live": (
        PROCESS,
        attrs.evolve(STRANGER, pid_namespace=CONTAINER),
        Comparison.UNKNOWN,
    ),
    "old kernel, no namespace is known": (
        attrs.evolve(OLD_KERNEL, pid_namespace=None),
        at(OLD_KERNEL, LATER, pid_namespace=None),
        Comparison.UNKNOWN,
    ),
    "no namespace is known on one side": (PROCESS, attrs.evolve(STRANGER, pid_namespace=None), Comparison.UNKNOWN),
    "old kernel, hidden boot id": (at(OLD_KERNEL, HIDDEN_BOOT), at(OLD_KERNEL, HIDDEN_BOOT), Comparison.UNKNOWN),
    "old kernel, hidden boot id, another tick": (at(OLD_KERNEL, HIDDEN_BOOT), at(OLD_KERNEL, LATER), Comparison.OTHER),
    "only one side has the kernel's number": (PROCESS, OLD_KERNEL, Comparison.UNKNOWN),
    "only one side has the kernel's number, another tick": (PROCESS, at(OLD_KERNEL, LATER), Comparison.OTHER),
    "a bare number (S17, S19: legacy files)": (ProcessIdentity(4711), PROCESS, Comparison.UNKNOWN),
    "macOS": (MAC, MAC, Comparison.SAME),
    "macOS, the microsecond after": (OLD_MAC, at(OLD_MAC, "darwin:1796009305:4712"), Comparison.OTHER),
    "macOS without the kernel's number": (OLD_MAC, OLD_MAC, Comparison.SAME),
    "macOS without the kernel's number, rebooted": (
        OLD_MAC,
        attrs.evolve(OLD_MAC, boot_id=REBOOTED),
        Comparison.UNKNOWN,
    ),
    "macOS without the kernel's number and the boot id": (
        attrs.evolve(OLD_MAC, boot_id=""),
        attrs.evolve(OLD_MAC, boot_id=""),
        Comparison.SAME,
    ),
    "macOS in one moment, another number of the kernel's": (MAC, attrs.evolve(MAC, unique_id=6653608), Comparison.OTHER),
    "ps says the same": (PS_MONDAY, PS_MONDAY, Comparison.UNKNOWN),
    "ps says otherwise (S2: the clock was set)": (PS_MONDAY, PS_TUESDAY, Comparison.UNKNOWN),
    "ps and the kernel": (PS_MONDAY, OLD_MAC, Comparison.UNKNOWN),
}


@pytest.mark.parametrize(("recorded", "live", "expected"), CASES.values(), ids=list(CASES))
def test_two_records_prove_what_they_prove(recorded: ProcessIdentity, live: ProcessIdentity, expected: Comparison) -> None:
    assert compare(recorded, live) is expected
    assert compare(live, recorded) is expected


@pytest.mark.fuzz
@given(two_looks())
def test_whoever_looks_and_from_wherever_nothing_false_is_proved(looks: dict[str, Any]) -> None:
    """The model: processes that are one or two, onlookers in namespaces who see more or less. Proved means true."""
    (first, second), (one, two) = looks["processes"], looks["onlookers"]
    answer = compare(*looks["identities"])
    if answer is Comparison.OTHER:
        assert (
            one.pid_namespace == two.pid_namespace is not None
        )  # elsewhere the number proves nothing about the recorded process
    if first == second:
        assert answer is not Comparison.OTHER
        if one == two and one.has_proc and one.names_boot != "hidden":
            assert answer is Comparison.SAME
    elif answer is Comparison.SAME:
        # What only a kernel that numbers its processes can tell apart, and `weaker` says so.
        assert not one.has_descriptors and not two.has_descriptors
        assert (first.boot, first.tick) == (second.boot, second.tick)
        assert looks["identities"][0].pid == looks["identities"][1].pid


@pytest.mark.fuzz
@A_TENTH
@given(identities(), identities())
def test_the_order_does_not_matter_and_same_is_never_guessed(one: ProcessIdentity, other: ProcessIdentity) -> None:
    answer = compare(one, other)
    assert compare(other, one) is answer
    if answer is Comparison.SAME:
        by_number = one.unique_id == other.unique_id is not None and one.boot_id == other.boot_id != ""
        by_birth = one.birth == other.birth and one.birth is not None and one.birth.may_authorise
        assert by_number or (by_birth and one.pid == other.pid and one.pid_namespace == other.pid_namespace is not None)


@pytest.mark.fuzz
@A_TENTH
@given(identities())
def test_nobody_is_another_than_himself(identity: ProcessIdentity) -> None:
    answer = compare(identity, identity)
    by_birth = identity.birth is not None and identity.birth.may_authorise and identity.pid_namespace is not None
    assert answer is (Comparison.SAME if by_birth or (identity.unique_id and identity.boot_id) else Comparison.UNKNOWN)


@pytest.mark.fuzz
@A_TENTH
@given(identities())
def test_an_identity_survives_a_state_file(identity: ProcessIdentity) -> None:
    members = json.loads(json.dumps(identity.to_members()))
    assert ProcessIdentity.from_members(members) == identity
    known = {name: value for name, value in members.items() if value not in (None, "")}
    assert ProcessIdentity.from_members(known) == identity


MEMBERS = PROCESS.to_members()


def test_the_members_are_plain_and_named() -> None:
    assert PROCESS.to_members() == {
        "pid": 4711,
        "birth_token": f"proc:{BOOT}:2507422",
        "unique_id": 6653607,
        "pid_namespace": HOST,
        "boot_id": BOOT,
        "time_namespace": CLOCKS,
    }


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"birth_token": f"proc:{BOOT}:1"},
        {**MEMBERS, "pid": 0},
        {**MEMBERS, "pid": -1},
        {**MEMBERS, "pid": True},
        {**MEMBERS, "pid": 4711.0},
        {**MEMBERS, "pid": "4711"},
        {**MEMBERS, "pid": None},
        {**MEMBERS, "birth_token": "proc"},
        {**MEMBERS, "birth_token": 2507422},
        {**MEMBERS, "birth_token": f"proc:{REBOOTED}:2507422"},
        {**MEMBERS, "birth_token": "proc::2507422"},
        {**MEMBERS, "unique_id": -1},
        {**MEMBERS, "unique_id": "6653607"},
        {**MEMBERS, "pid_namespace": False},
        {**MEMBERS, "boot_id": None},
        {**MEMBERS, "boot_id": ""},
        {**MEMBERS, "boot_id": BOOT.upper()},
        {**MEMBERS, "time_namespace": [CLOCKS]},
        {**MEMBERS, "pgid": 4711},
    ],
    ids=lambda members: json.dumps(dict(itertools.islice(members.items(), 6)))[:80],
)
def test_a_record_that_is_not_of_its_form_is_unreadable(members: dict[str, Any]) -> None:
    with pytest.raises(StateUnreadable, match="not a process identity"):
        ProcessIdentity.from_members(members)


def test_a_token_names_the_boot_of_its_record() -> None:
    assert ProcessIdentity(4711, BirthToken.parse(f"proc:{BOOT}:1")).boot_id == BOOT
    assert ProcessIdentity.from_members({"pid": 4711, "birth_token": f"proc:{BOOT}:1"}).boot_id == BOOT
    assert ProcessIdentity(4711, BirthToken.parse("darwin:1:2")).boot_id == ""
