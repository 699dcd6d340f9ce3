"""Every rule of a boundary: the setting and the message; that nothing is made by a refused one; and its identity."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.errors import PolicyError
from fable_exec.seatbelt import HostBoundary

PREFIX = "FABLE_EXEC_HOST_"
SYSTEM = ":".join(dict.fromkeys(os.path.realpath(each) for each in ("/usr/bin", "/bin", "/usr/sbin", "/sbin")))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Directories of a host: projects with two roots, libraries, caches, a file, a link to the root."""
    root = tmp_path.resolve()
    for name in ("projects/ws/one", "projects/more", "lib", "cache", "engine/inner", "tools/bin"):
        (root / name).mkdir(parents=True)
    (root / "file").touch()
    (root / "to-root").symlink_to("/")
    (root / "loop").symlink_to(root / "loop")
    (root / "to-lib").symlink_to(root / "lib")
    (root / "odd").mkdir()
    (root / "odd/new\nline").mkdir()
    (root / "to-odd").symlink_to(root / "odd/new\nline")
    return root


def settings(host: Path) -> dict[str, str]:
    return {
        "WORKSPACE_ROOTS": f"{host}/projects/ws",
        "PROTECTED_ROOT": f"{host}/projects",
        "RUNTIME_READ_PATHS": f"{host}/lib:{host}/tools",
        "RUNTIME_WRITE_PATHS": f"{host}/cache",
        "CHILD_PATH": f"{host}/tools/bin:{SYSTEM}",
        "RESERVED_PORTS": "8080,3000",
        "ENGINE_SOURCE": f"{host}/engine",
    }


def environment(values: dict[str, str]) -> dict[str, str]:
    return {PREFIX + name: value for name, value in values.items()}


Paths = ("WORKSPACE_ROOTS", "RUNTIME_READ_PATHS", "RUNTIME_WRITE_PATHS", "CHILD_PATH")
EVERY_PATH: list[tuple[str, str]] = [
    ("lib", "must be absolute"),
    ("{host}/missing", "does not exist"),
    ("{host}/file/x", "cannot be resolved"),
    ("{host}/loop", "cannot be resolved"),
    ("{host}/li\nb", "must not contain a newline, carriage return or tab"),
    ("{host}/li\rb", "must not contain a newline, carriage return or tab"),
    ("{host}/li\tb", "must not contain a newline, carriage return or tab"),
    ("{host}/to-odd", "must not contain a newline, carriage return or tab"),
    ("{host}/li\0b", "must not contain NUL"),
    ("{host}/li\udcffb", "must be valid Unicode"),
    ("/", "must not be the root of the file system"),
    ("{host}/to-root", "must not be the root of the file system"),
    ("~no-such-user-at-all", "has no home directory"),
]
ALONE: list[tuple[str, str, str]] = [
    ("WORKSPACE_ROOTS", "", "has an empty element"),
    ("WORKSPACE_ROOTS", "{host}/projects/ws:", "has an empty element"),
    ("RUNTIME_READ_PATHS", ":{host}/lib", "has an empty element"),
    ("RUNTIME_WRITE_PATHS", "{host}/cache::{host}/lib", "has an empty element"),
    ("CHILD_PATH", "", "has an empty element"),
    ("PROTECTED_ROOT", "", "must not be empty"),
    ("ENGINE_SOURCE", "", "must not be empty"),
    ("WORKSPACE_ROOTS", "{host}/file", "must be a directory"),
    ("PROTECTED_ROOT", "{host}/file", "must be a directory"),
    ("CHILD_PATH", "{host}/file", "must be a directory"),
    ("RESERVED_PORTS", "", "has an empty element"),
    ("RESERVED_PORTS", "80,", "has an empty element"),
    ("RESERVED_PORTS", "80,,81", "has an empty element"),
    *[
        ("RESERVED_PORTS", text, "must be ports in ASCII digits")
        for text in ("http", " 80", "80 ", "+80", "-1", "8_0", "\u0668", "1e3")
    ],
    ("RESERVED_PORTS", "100000", "must be ports in ASCII digits"),
    ("RESERVED_PORTS", "0", "must be a port from 1 to 65535"),
    ("RESERVED_PORTS", "65536", "must be a port from 1 to 65535"),
    ("RESERVED_PORTS", "80,443,80", "lists the port 80 twice"),
    ("RESERVED_PORTS", "80,080", "lists the port 80 twice"),
    ("WORKSPACE_ROOTS", "{host}/projects", "must lie strictly inside protected_root"),
    ("WORKSPACE_ROOTS", "{host}/lib", "must lie strictly inside protected_root"),
    ("WORKSPACE_ROOTS", "{host}", "must lie strictly inside protected_root"),
    ("RUNTIME_READ_PATHS", "{host}/tools:{host}/projects", "must not overlap protected_root"),
    ("RUNTIME_READ_PATHS", "{host}/tools:{host}/projects/more", "must not overlap protected_root"),
    ("RUNTIME_READ_PATHS", "{host}", "must not overlap protected_root"),
    ("RUNTIME_WRITE_PATHS", "{host}/projects/ws/one", "must not overlap protected_root"),
    ("RUNTIME_WRITE_PATHS", "{host}", "must not overlap protected_root"),
    ("CHILD_PATH", "{host}/tools/bin", "must contain the system's command directory"),
    ("CHILD_PATH", "{host}/cache:" + SYSTEM, "lies below no path that programs can read"),
    ("ENGINE_SOURCE", "{host}/cache", "must not be written"),
    ("RUNTIME_WRITE_PATHS", "{host}/engine/inner", "must not be written"),
]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [*[(name, value, message) for name in (*Paths, "PROTECTED_ROOT", "ENGINE_SOURCE") for value, message in EVERY_PATH], *ALONE],
)
def test_each_fault_names_the_setting_and_nothing_is_made(host: Path, name: str, value: str, message: str) -> None:
    before = sorted(map(str, host.rglob("*")))
    with pytest.raises(PolicyError) as caught:
        HostBoundary.from_env(environment({**settings(host), name: value.format(host=host)}))
    named = "ENGINE_SOURCE" if message == "must not be written" else name
    assert [text for place, text in caught.value.faults if place.partition("[")[0] == PREFIX + named and message in text], str(
        caught.value
    )
    assert "\n" not in str(caught.value)
    assert sorted(map(str, host.rglob("*"))) == before


@pytest.mark.parametrize("path", ["/usr", "/usr/lib"])
def test_the_protected_root_is_none_of_what_every_program_reads(path: str, host: Path) -> None:
    with pytest.raises(PolicyError, match="FABLE_EXEC_HOST_PROTECTED_ROOT: overlaps /usr"):
        HostBoundary.from_env(
            environment({**settings(host), "PROTECTED_ROOT": path, "WORKSPACE_ROOTS": "/usr/lib/os-release"[:8]})
        )


@pytest.mark.parametrize("name", ["WORKSPACE_ROOTS", "PROTECTED_ROOT"])
def test_what_is_required_is_named(host: Path, name: str) -> None:
    values = settings(host)
    del values[name]
    with pytest.raises(PolicyError, match=f"{PREFIX}{name}: is required"):
        HostBoundary.from_env(environment(values))


def test_every_fault_is_listed_at_once(host: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        HostBoundary.from_env(
            environment({**settings(host), "PROTECTED_ROOT": "x", "RUNTIME_READ_PATHS": "y:/nope", "RESERVED_PORTS": "0"})
        )
    assert [place for place, _ in caught.value.faults] == [
        f"{PREFIX}PROTECTED_ROOT",
        f"{PREFIX}RUNTIME_READ_PATHS[0]",
        f"{PREFIX}RUNTIME_READ_PATHS[1]",
        f"{PREFIX}RESERVED_PORTS[0]",
    ]


WRONG_TYPES: list[tuple[str, Any]] = [
    ("workspace_roots", "/tmp"),
    ("workspace_roots", ()),
    ("workspace_roots", (3,)),
    ("protected_root", None),
    ("protected_root", Path()),
    ("runtime_read_paths", None),
    ("runtime_read_paths", (None,)),
    ("child_path", ()),
    ("reserved_ports", "80"),
    ("reserved_ports", (True,)),
    ("reserved_ports", (80.0,)),
    ("reserved_ports", ("80",)),
    ("engine_source", 3),
]


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES)
def test_the_constructor_coerces_nothing(host: Path, name: str, value: Any) -> None:
    fields = {"workspace_roots": (host / "projects/ws",), "protected_root": host / "projects", name: value}
    with pytest.raises(PolicyError) as caught:
        HostBoundary(**fields)
    assert caught.value.faults[0][0].partition("[")[0] == name


def test_a_separator_within_a_listed_path_is_refused(host: Path) -> None:
    (host / "a:b").mkdir()
    with pytest.raises(PolicyError, match=r"runtime_read_paths\[0\]: must not contain :"):
        HostBoundary((host / "projects/ws",), host / "projects", (host / "a:b",))


def test_links_and_repetitions_are_resolved_and_the_order_is_kept(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(host))
    boundary = HostBoundary(
        ("~/projects/ws", host / "projects/more", host / "projects/ws"),
        "~/projects",
        (host / "tools", host / "to-lib", host / "lib"),
    )
    assert boundary.workspace_roots == (host / "projects/ws", host / "projects/more")
    assert boundary.runtime_read_paths == (host / "tools", host / "lib")
    assert len(set(boundary.child_path)) == len(boundary.child_path) and Path("/bin").resolve() in boundary.child_path


def test_the_three_ways_to_say_it_are_one(host: Path, tmp_path: Path) -> None:
    values = settings(host)
    by_environment = HostBoundary.from_env(environment(values))
    lists = {name.lower(): value.split(":") for name, value in values.items() if name in Paths}
    in_code = HostBoundary(
        **lists, protected_root=values["PROTECTED_ROOT"], reserved_ports=[8080, 3000], engine_source=values["ENGINE_SOURCE"]
    )
    file = tmp_path / "boundary.toml"
    document = {**lists, "protected_root": values["PROTECTED_ROOT"], "engine_source": values["ENGINE_SOURCE"]}
    file.write_text(
        "reserved_ports = [8080, 3000]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in document.items())
    )
    texts = tmp_path / "texts.toml"
    texts.write_text("".join(f"{name.lower()} = {json.dumps(value)}\n" for name, value in values.items()))
    assert by_environment == in_code == HostBoundary.from_toml(file) == HostBoundary.from_toml(texts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('workspace_root = ["/x"]', "workspace_root: unknown setting"),
        ("workspace_roots = 3", "workspace_roots: must be a list"),
        ("reserved_ports = ['80']", "reserved_ports"),
        ("x", "not a TOML document"),
    ],
)
def test_a_file_is_read_strictly(host: Path, text: str, message: str) -> None:
    file = host / "boundary.toml"
    file.write_text(f'protected_root = "{host}/projects"\n{text}\n')
    with pytest.raises(PolicyError, match=rf"^invalid host boundary: .*{message}"):
        HostBoundary.from_toml(file)


@pytest.mark.parametrize("name", ["boundary.json", "missing.toml"])
def test_a_file_that_is_none_is_refused(host: Path, name: str) -> None:
    (host / "boundary.json").write_text("{}")
    with pytest.raises(PolicyError, match=r"^invalid host boundary: "):
        HostBoundary.from_toml(host / name)


def test_the_identity_is_what_a_manifest_advertises(host: Path) -> None:
    boundary = HostBoundary.from_env(environment(settings(host)))
    lists = ("child_path", "runtime_read_paths", "runtime_write_paths", "workspace_roots")
    configuration = {name: [str(path) for path in getattr(boundary, name)] for name in lists}
    canonical = {**configuration, "protected_root": f"{host}/projects", "reserved_ports": [8080, 3000]}
    assert boundary.identity() == {
        "workspace_root": f"{host}/projects/ws",
        "protected_root": f"{host}/projects",
        "runtime_read_paths": f"{host}/lib:{host}/tools",
        "runtime_write_paths": f"{host}/cache",
        "child_path": f"{host}/tools/bin:{SYSTEM}",
        "reserved_ports": "8080,3000",
        "config_sha256": hashlib.sha256(json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()).hexdigest(),
    }
    assert attrs.evolve(boundary, engine_source=None).config_sha256 == boundary.config_sha256


CHANGES: dict[str, Callable[[HostBoundary, Path], dict[str, Any]]] = {
    "roots": lambda boundary, host: {"workspace_roots": (host / "projects/more",)},
    "protected": lambda boundary, host: {"protected_root": host / "projects/ws", "workspace_roots": (host / "projects/ws/one",)},
    "read": lambda boundary, host: {"runtime_read_paths": tuple(reversed(boundary.runtime_read_paths))},
    "write": lambda boundary, host: {"runtime_write_paths": ()},
    "path": lambda boundary, host: {"child_path": boundary.child_path[1:]},
    "ports": lambda boundary, host: {"reserved_ports": (3000, 8080)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_of_the_settings_changes_the_digest(host: Path, name: str) -> None:
    boundary = HostBoundary.from_env(environment(settings(host)))
    assert attrs.evolve(boundary, **CHANGES[name](boundary, host)).config_sha256 != boundary.config_sha256


def test_the_root_of_an_identity_is_exactly_one_of_the_roots(host: Path) -> None:
    boundary = HostBoundary((host / "projects/ws", host / "projects/more"), host / "projects")
    assert boundary.identity(host / "projects/more")["workspace_root"] == f"{host}/projects/more"
    for wrong in (None, host / "projects", host / "projects/ws/one", host / "missing"):
        with pytest.raises(PolicyError, match="workspace_root: "):
            boundary.identity(wrong)


def test_the_reference_says_what_is_true(host: Path) -> None:
    """The example of docs/reference/seatbelt.md, with its places put here."""
    (host / "spec.md").touch()
    page = (Path(__file__).resolve().parents[2] / "docs/reference/seatbelt.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert "assert " in example
    places = {"/srv/projects": str(host / "projects"), "/srv/spec.md": str(host / "spec.md"), "/opt/tool": str(host / "lib")}
    for written, there in places.items():
        example = example.replace(written, there)
    exec(example, {})


def test_every_setting_is_on_the_reference_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/seatbelt.md").read_text()
    for field in attrs.fields(HostBoundary):
        assert f"`{field.name}`" in page and f"`{PREFIX}{field.name.upper()}`" in page
