"""Profiles as they are written and as they are meant: golden bytes, decisions, and that no path gets out of its string."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec.errors import PolicyError
from fable_exec.seatbelt import HostBoundary, SeatbeltProfile, render
from fable_exec.seatbelt.profile import SYSTEM_RUNTIME_PATHS, Grant, is_ambiguous, profile_text
from tests.seatbelt.boundaries import CASES, Case, decisions, place

GOLDEN = Path(__file__).parent / "golden"
STRINGS = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def rendered(each: Case) -> bytes:
    return render(each.boundary, each.workspace, each.spec, system_paths=SYSTEM_RUNTIME_PATHS)


def test_there_are_enough_boundaries() -> None:
    assert len(CASES) >= 12


@pytest.mark.parametrize("name", CASES)
def test_the_profiles_are_the_committed_ones_and_mean_what_they_should(name: str) -> None:
    """FABLE_EXEC_WRITE_GOLDEN=1 writes the files anew."""
    with place() as root:
        each = CASES[name](root)
        profile = rendered(each)
        text = profile.decode("ascii").replace(str(root), "/tmp/ROOT")
        file = GOLDEN / f"{name}.sb"
        if os.environ.get("FABLE_EXEC_WRITE_GOLDEN"):
            file.write_text(text)
        assert file.read_text() == text
        read, table = SeatbeltProfile.parse(profile), decisions(each)
        assert len(table) >= 40
        assert [row for row in table if read.decide(*row[:2]) != row[2]] == []
        assert is_ambiguous(profile) == (name == "unicode")


def test_the_order_of_the_paths_makes_no_difference_and_that_of_the_ports_does() -> None:
    with place() as root:
        each = CASES["everything"](root)
        shuffled = HostBoundary(
            workspace_roots=each.boundary.workspace_roots,
            protected_root=str(each.boundary.protected_root),
            runtime_read_paths=[*reversed(each.boundary.runtime_read_paths), *each.boundary.runtime_read_paths],
            runtime_write_paths=list(reversed(each.boundary.runtime_write_paths)),
            child_path=tuple(reversed(each.boundary.child_path)),
            reserved_ports=each.boundary.reserved_ports,
            engine_source=each.boundary.engine_source,
        )
        assert rendered(attrs.evolve(each, boundary=shuffled)) == rendered(each)
        system = tuple(reversed(SYSTEM_RUNTIME_PATHS))
        assert render(each.boundary, each.workspace, each.spec, system_paths=system) == rendered(each)
        ports = attrs.evolve(each.boundary, reserved_ports=tuple(reversed(each.boundary.reserved_ports)))
        assert rendered(attrs.evolve(each, boundary=ports)) != rendered(each)


@pytest.mark.parametrize("name", CASES)
def test_however_the_paths_of_a_boundary_are_shuffled_its_profile_has_the_same_bytes(name: str) -> None:
    with place() as root:
        each = CASES[name](root)
        expected = rendered(each)
        for seed in range(10):
            chance = random.Random(seed)
            lists: dict[str, Any] = {
                field: chance.sample(getattr(each.boundary, field), k=len(getattr(each.boundary, field)))
                for field in ("workspace_roots", "runtime_read_paths", "runtime_write_paths", "child_path")
            }
            system = chance.sample(SYSTEM_RUNTIME_PATHS, k=len(SYSTEM_RUNTIME_PATHS))
            assert render(attrs.evolve(each.boundary, **lists), each.workspace, each.spec, system_paths=system) == expected


def test_only_what_exists_of_the_system_is_granted() -> None:
    with place() as root:
        each = CASES["minimal"](root)
        assert b"/System" not in render(each.boundary, each.workspace, each.spec, system_paths=("/usr",))
        assert (b'(subpath "/System")' in render(each.boundary, each.workspace, each.spec)) == os.path.exists("/System")


@pytest.mark.parametrize(
    "wrong", ["root", "protected", "outside", "missing", "file", "engine", "in-engine", "engine-holds-a-root", "holds-a-root"]
)
def test_a_workspace_that_is_not_strictly_inside_a_root_is_refused(wrong: str) -> None:
    with place() as root:
        each = CASES["two-roots"](root)
        nested, boundary = each.workspace / "nested", each.boundary
        nested.mkdir()
        if wrong.endswith("engine"):
            boundary = attrs.evolve(boundary, engine_source=nested if wrong == "engine" else each.workspace)
        if wrong == "engine-holds-a-root":
            boundary = attrs.evolve(boundary, engine_source=boundary.workspace_roots[0])
            assert not each.workspace.is_relative_to(boundary.workspace_roots[0])
        if wrong == "holds-a-root":
            boundary = attrs.evolve(boundary, workspace_roots=(*boundary.workspace_roots, nested))
        given_workspace = {
            "root": boundary.workspace_roots[0],
            "protected": boundary.protected_root,
            "outside": root / "beside",
            "missing": each.workspace / "missing",
            "file": each.spec,
            "in-engine": nested,
        }.get(wrong, each.workspace)
        with pytest.raises(PolicyError, match=r"^invalid host boundary: workspace: "):
            render(boundary, given_workspace, each.spec)


@pytest.mark.parametrize("wrong", ["directory", "missing", "relative"])
def test_a_specification_is_an_existing_file(wrong: str) -> None:
    with place() as root:
        each = CASES["minimal"](root)
        spec = {"directory": each.boundary.protected_root, "missing": root / "none.md", "relative": Path("spec.md")}[wrong]
        with pytest.raises(PolicyError, match=r"^invalid host boundary: spec: "):
            render(each.boundary, each.workspace, spec)


@pytest.mark.parametrize("way", ["{ws}/task.md", "{ws}/docs/../task.md", "{ws}/docs/secret", "{ws}/docs/../../two/secret"])
def test_no_link_in_the_workspace_makes_another_file_the_specification(way: str) -> None:
    """Whoever works there can have made it."""
    with place() as root:
        each = CASES["minimal"](root)
        (each.siblings[0] / "secret").touch()
        (each.workspace / "task.md").symlink_to(each.siblings[0] / "secret")
        (each.workspace / "docs").symlink_to(each.siblings[0])
        with pytest.raises(PolicyError, match=r"^invalid host boundary: spec: "):
            render(each.boundary, each.workspace, way.format(ws=each.workspace))


def test_a_specification_may_be_reached_by_the_hosts_links_and_from_the_workspace_upwards() -> None:
    with place() as root:
        each = CASES["spec-inside"](root)
        (root / "link").symlink_to(each.workspace)
        (root / "other.md").symlink_to(root / "spec.md")
        (each.workspace / "own.md").symlink_to("task.md")
        for way, spec in (
            (root / "link/task.md", each.spec),
            (root / "other.md", root / "spec.md"),
            (each.workspace / "own.md", each.spec),
            (f"{each.workspace}/../../../spec.md", root / "spec.md"),
        ):
            assert render(each.boundary, each.workspace, way) == render(each.boundary, each.workspace, spec)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ['"', "\\", '\\"', ")", '") (allow default) ("', ";", "\n", "\r", "\t", "#|", "|#", "..", "\0", "é", "\u2028", "\x7f", "a:b"]
)


@pytest.mark.fuzz
@given(st.lists(NAMES, min_size=1, max_size=3))
def test_any_name_is_refused_or_is_one_string_of_the_profile(names: list[str]) -> None:
    with place() as root:
        each = CASES["minimal"](root)
        directory = each.workspace / "/".join(name.replace("/", "") or "x" for name in names)
        try:
            directory.mkdir(parents=True)
        except (ValueError, OSError):
            directory = each.workspace / "there"
            directory.mkdir()
        try:
            profile = rendered(attrs.evolve(each, workspace=directory))
        except PolicyError:
            return
        strings = {json.loads(found) for found in STRINGS.findall(profile.decode())}
        workspace = str(directory.resolve())
        assert workspace in strings
        above = {str(parent) for parent in directory.resolve().parents}
        assert strings - above <= {*FIXED, workspace, str(each.spec)}
        assert SeatbeltProfile.parse(profile).decide("file-write-data", f"{workspace}/x") == "allow"


FIXED = {
    *SYSTEM_RUNTIME_PATHS,
    *("/Library", "/private", "/private/var", "/private/var/db"),
    *("/", "/dev", "/etc", "/tmp", "/var", "/dev/fd", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"),
    *("/private/var/run/mDNSResponder", "*:8080"),
}

PARTS = st.sampled_from(["a", "b", "ab", "a b", '"', "\\", ")", "é", "..", ".", "", "a\nb"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: "/granted/" + "/".join(parts))
CLEAN = PATHS.map(os.path.normpath).filter(lambda path: path.startswith("/granted/"))
GRANTS = st.lists(st.builds(Grant, CLEAN, st.booleans()), max_size=4)


@pytest.mark.fuzz
@given(
    GRANTS, GRANTS, st.lists(st.integers(1, 65535), max_size=3, unique=True), st.lists(PATHS, min_size=1, max_size=8), st.data()
)
def test_nothing_is_granted_outside_of_the_lists(
    read: list[Grant], write: list[Grant], ports: list[int], targets: list[str], data: st.DataObject
) -> None:
    profile = SeatbeltProfile.parse(profile_text(read, write, ports))
    targets += [f"{grant.path}{data.draw(st.sampled_from(['', '/x', 'x', '/../x', '/..']))}" for grant in (*read, *write)]
    for target in targets:
        written = any(holds(grant, target) for grant in write)
        assert profile.decide("file-write-data", target) == ("allow" if written else "deny"), target
        granted = written or any(holds(grant, target) for grant in read) or os.path.normpath(target) == "/"
        assert profile.decide("file-read-data", target) == ("allow" if granted else "deny"), target
    port = data.draw(st.integers(1, 65535) | st.sampled_from([*ports, 1]))
    for operation in ("network-outbound", "network-bind"):
        assert profile.decide(operation, f"tcp:127.0.0.1:{port}") == ("deny" if port in ports else "allow")


def holds(grant: Grant, target: str) -> bool:
    """The same question, asked of the standard library."""
    real = "/" + os.path.normpath(target).lstrip("/")
    return real == grant.path or (grant.is_directory and os.path.commonpath((real, grant.path)) == grant.path)


NAMED = st.lists(NAMES.map(lambda name: name.replace("/", "")), max_size=3)
BELOW = ("", "/x", "x", "/..", "/../x", "/x/../y")


@pytest.mark.fuzz
@given(NAMED, NAMED, NAMES.map(lambda name: name.replace("/", "")), st.data())
def test_no_boundary_lets_its_profile_grant_anything_outside_of_its_lists(
    read: list[str], write: list[str], engine: str, data: st.DataObject
) -> None:
    """Directories of any name, as a whole boundary: it is refused, or its profile grants its lists and no more."""
    with place() as root:
        each = CASES["minimal"](root)
        made = {name: [root / kind / one for one in names] for name, kind, names in (("r", "r", read), ("w", "w", write))}
        try:
            for directory in (*made["r"], *made["w"], root / "e" / engine):
                directory.mkdir(parents=True, exist_ok=True)
            boundary = attrs.evolve(
                each.boundary, runtime_read_paths=made["r"], runtime_write_paths=made["w"], engine_source=root / "e" / engine
            )
            text = rendered(attrs.evolve(each, boundary=boundary))
        except (ValueError, OSError):  # PolicyError is one
            return
        profile = SeatbeltProfile.parse(text)
        written = [os.path.realpath(path) for path in (*made["w"], each.workspace)]
        granted = [*written, *(os.path.realpath(path) for path in (*made["r"], root / "e" / engine, each.spec))]
        targets = [str(root), f"{root}/r", f"{root}/beside", str(each.siblings[0]), str(boundary.protected_root), f"{root}/e"]
        targets += [place + data.draw(st.sampled_from(BELOW)) for place in granted]
        for target in map(os.path.normpath, targets):
            for operation, places in (("file-write-data", written), ("file-read-data", granted)):
                within = target in places or any(target.startswith(held + "/") for held in places if held != str(each.spec))
                assert profile.decide(operation, target) == ("allow" if within else "deny"), (operation, target)
