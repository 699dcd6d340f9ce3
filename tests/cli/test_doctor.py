"""`fable-exec doctor`: what holds on this host, why not and what to do, for people and for programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.confine.landlock import left_open
from fable_exec.policy import PROTECTIONS, Protections
from tests.cli.typed import PROGRAM, environment, the_object, typed_here


@pytest.mark.requires_ability("confinement")
def test_doctor_tells_every_protection_in_the_words_of_outcomes(workspace: Path) -> None:
    finished = typed_here("doctor", "--json")
    answer = the_object(finished)
    assert finished.returncode == (0 if answer["ok"] else 1)
    assert {"system", "kernel", "machine", "python", "fable_exec"} == answer["host"].keys()
    run = the_object(typed_here("run", "--workspace", str(workspace), "--json", "--", "true"))
    told = {each["protection"]: each for each in answer["protections"]}
    for applied in run["result"]["confinement"]:
        assert told[applied["protection"]].items() >= applied.items()


def test_doctor_for_people_goes_to_standard_error() -> None:
    finished = typed_here("doctor")
    assert finished.stdout == b""
    for word in (
        "abilities",
        "protections",
        "kept",
        "quarantine",
        "namespaces",
        "landlock",
        "whole_tree_end",
        "trictly asked for",
    ):
        assert word in finished.stderr.decode()


@pytest.mark.parametrize("flags", [(), ("--confinement", "strict")], ids=["by default", "by the flag"])
def test_doctor_shows_every_protection_of_strict_confinement_as_a_canary_proved_it(flags: tuple[str, ...]) -> None:
    finished = typed_here("doctor", *flags, "--json")
    answer = the_object(finished)
    assert [each["protection"] for each in answer["protections"]] == list(PROTECTIONS)
    assert {each["protection"]: each["mode"] for each in answer["protections"]} == attrs.asdict(Protections())
    assert finished.returncode == (0 if answer["ok"] else 1)


@pytest.mark.requires_ability("userns", "landlock")
def test_doctor_finds_everything_that_is_strict_active_on_a_capable_host() -> None:
    answer = the_object(typed_here("doctor", "--confinement", "strict", "--json"))
    assert [each["protection"] for each in answer["protections"] if each["mode"] == "strict" and each["state"] != "active"] == []
    assert answer["ok"] is True


@pytest.mark.requires_ability("landlock")
def test_doctor_names_what_landlock_leaves_open_here_and_newer_kernels_close() -> None:
    answer = the_object(typed_here("doctor", "--json"))
    (row,) = [each for each in answer["abilities"] if each["name"] == "landlock"]
    abi = int(row["means"].removeprefix("ABI "))
    assert [right.without for right in left_open(abi) if right.without not in row["reason"]] == []
    assert bool(row["reason"]) == bool(left_open(abi))


@pytest.mark.requires_ability("userns", "landlock")
def test_doctor_tells_what_strict_confinement_lacks_without_namespaces() -> None:
    """Landlock and seccomp hold what is strict there; what is degradable is told, with the reason and what to do."""
    answer = the_object(without_namespaces("doctor", "--confinement", "strict", "--json"))
    assert answer["ok"] is True
    weaker = {each["protection"]: each for each in answer["protections"] if each["state"] != "active"}
    assert {"host_metadata", "later_files", "other_processes"} <= weaker.keys()
    assert all(each["reason"] and "namespaces" in each["remedy"] for name, each in weaker.items() if name != "resources")


WITHOUT_NAMESPACES = (
    'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all -- "$@"'
)


def without_namespaces(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The command line on a host that has no namespaces to give."""
    who = "--map-root-user" if os.geteuid() == 0 else "--map-current-user"
    argv = ["unshare", "--user", who, "--keep-caps", "bash", "-c", WITHOUT_NAMESPACES, "bash", *PROGRAM, *arguments]
    return subprocess.run(argv, env=environment(), capture_output=True, timeout=30)


@pytest.mark.requires_ability("userns")
def test_doctor_says_what_is_missing_why_and_what_to_do() -> None:
    answer = the_object(without_namespaces("doctor", "--json"))
    namespaces = next(each for each in answer["abilities"] if each["name"] == "namespaces")
    assert namespaces["state"] == "unavailable"
    assert "max_user_namespaces" in namespaces["reason"] and "max_user_namespaces" in namespaces["remedy"]
    weaker: list[dict[str, Any]] = [each for each in answer["protections"] if each["state"] != "active"]
    assert weaker and all(each["reason"] for each in weaker)
    assert any("namespaces" in each["remedy"] for each in weaker)


@pytest.mark.requires_ability("userns")
def test_doctor_exits_1_when_what_a_policy_asks_for_strictly_cannot_be_had(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'workspace = "{workspace}"\nlaunch = "slots"\n')
    finished = without_namespaces("doctor", "--policy", str(policy), "--json")
    answer = the_object(finished)
    assert (finished.returncode, answer["ok"]) == (1, False)
    assert [each["protection"] for each in answer["protections"] if each["mode"] == "strict" and each["state"] == "unavailable"]
    told = without_namespaces("doctor", "--policy", str(policy))
    assert told.returncode == 1
    assert b"not held: whole_tree_end" in told.stderr


def rows_of(finished: subprocess.CompletedProcess[bytes]) -> dict[str, str]:
    """What a person reads, by the name of each row: one line where nobody folds."""
    rows = re.findall(r"^((?:yes|in part|no) +([a-z_]+) .*)$", finished.stderr.decode(), re.MULTILINE)
    return {name: row for row, name in rows}


def test_each_row_says_what_it_is_and_whether_it_holds() -> None:
    rows = rows_of(typed_here("doctor"))
    assert rows.keys() >= {"namespaces", "own_proc", "seccomp", "notifications", "landlock", *PROTECTIONS, "quarantine"}
    for name, row in rows.items():
        assert re.fullmatch(rf"(yes|in part|no) +{name} +(strict |degradable )? *[A-Z][^.]+[.;].*", row), row
    answer = the_object(typed_here("doctor", "--json"))
    for section in ("abilities", "protections", "kept"):
        assert [each for each in answer[section] if not each["what"].endswith(".") or not each["what"][0].isupper()] == []


@pytest.mark.requires_ability("userns")
def test_a_row_that_does_not_hold_says_why_and_where_something_helps_what_to_do() -> None:
    rows = rows_of(without_namespaces("doctor"))
    assert re.search(r"^no +namespaces .* Why not: ENOSPC: .* What to do: sysctl user\.max_user_namespaces", rows["namespaces"])
    weaker = {name: row for name, row in rows.items() if not row.startswith("yes")}
    assert {"host_metadata", "later_files", "other_processes"} <= weaker.keys()
    assert [row for row in weaker.values() if "Why not: " not in row or "What to do: " not in row] == []
    assert [row for name, row in rows.items() if name not in weaker and "Why not: " in row] == []


def test_what_a_policy_switches_off_is_told_to_be_off() -> None:
    told = typed_here("doctor", "--confinement", "off").stderr.decode().splitlines()
    (off,) = [line for line in told if line.startswith("Not asked for, and so not held: ")]
    assert all(name in off for name in PROTECTIONS if name not in ("other_processes", "whole_tree_end"))
    assert not [line for line in typed_here("doctor").stderr.decode().splitlines() if line.startswith("Not asked for")]


def test_doctor_judges_a_policy_without_a_workspace_in_the_one_that_is_named(workspace: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('allowed_executables = ["true"]\n[confinement.protections]\nnetwork = "off"\n')
    assert typed_here("doctor", "--policy", str(policy)).returncode == 2
    found = the_object(typed_here("doctor", "--policy", str(policy), "--workspace", str(workspace), "--json"))
    assert {each["mode"] for each in found["protections"] if each["protection"] == "network"} <= {"off"}
    assert {each["mode"] for each in found["protections"]} >= {"strict"}


def test_doctor_refuses_a_policy_with_faults(tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.toml"
    faulty.write_text('workspace = "/no/such/place"\n')
    assert typed_here("doctor", "--policy", str(faulty)).returncode == 2
