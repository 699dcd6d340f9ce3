"""What commands may read besides the system: what listed executables need, what the policy adds, never a home or the root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fable_exec import Confinement, LaunchFailed
from fable_exec.executables import resolve_executables
from fable_exec.runtimes import runtime_paths
from tests.confinement.places import confined, confined_policy, in_modes, run, states

pytestmark = pytest.mark.requires_ability("linux")


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory of the host, outside the workspace."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "data").write_text("data\n")
    return place


@in_modes()
def test_what_is_not_listed_cannot_be_read(mode: str, workspace: Path, elsewhere: Path) -> None:
    with confined(workspace, mode) as broker:
        assert not broker.execute_command(("cat", str(elsewhere / "data"))).success


@in_modes()
def test_runtime_read_paths_can_be_read_and_not_written(mode: str, workspace: Path, elsewhere: Path) -> None:
    more = Confinement(runtime_read_paths=(str(elsewhere),))
    with confined(workspace, mode, unlocked=True, confinement=more) as broker:
        assert run(broker, "cat", str(elsewhere / "data")).stdout == "data\n"
        assert not broker.execute_command(("sh", "-c", f"echo changed > {elsewhere}/data")).success
        assert not broker.execute_command(("sh", "-c", f"echo new > {elsewhere}/new")).success
    assert (elsewhere / "data").read_text() == "data\n"


@in_modes()
def test_a_listed_script_gets_its_interpreter_and_not_its_neighbours(mode: str, workspace: Path, elsewhere: Path) -> None:
    interpreter = executable(elsewhere / "inner" / "interpreter", "#!/bin/sh\necho interpreted\n")
    script = executable(elsewhere / "tool", f"#!{interpreter}\n")
    with confined(workspace, mode, allowed_executables=(str(script), "cat")) as broker:
        assert run(broker, "tool").stdout == "interpreted\n"
        assert not broker.execute_command(("cat", str(elsewhere / "data"))).success


@in_modes()
def test_an_executable_whose_runtime_is_out_of_sight_fails_with_the_field_that_helps(
    mode: str, workspace: Path, elsewhere: Path
) -> None:
    far = executable(elsewhere / "far" / "away", "#!/bin/sh\necho far\n")
    near = executable(elsewhere / "near", f"#!{far}\n")
    script = executable(elsewhere / "tool", f"#!{near}\n")  # an interpreter's own interpreter is not looked for
    with confined(workspace, mode, allowed_executables=(str(script),)) as broker, pytest.raises(LaunchFailed) as caught:
        broker.execute_command(("tool",))
    assert "confinement.runtime_read_paths" in str(caught.value)
    assert str(script) in str(caught.value)
    more = Confinement(runtime_read_paths=(str(elsewhere),))
    with confined(workspace, mode, allowed_executables=(str(script),), confinement=more) as broker:
        assert run(broker, "tool").stdout == "far\n"


@in_modes()
def test_the_interpreter_of_this_environment_works_and_everything_strict_still_holds(mode: str, workspace: Path) -> None:
    """A virtual environment made from the system's Python: where /lib is a link, the root looks like a prefix and is none."""
    with confined(workspace, mode, allowed_executables=(sys.executable,)) as broker:
        assert run(broker, Path(sys.executable).name, "-c", "import pytest, sys; print(sys.prefix)").stdout.strip() == sys.prefix
        assert states(broker)["host_reads"] == "active"


def test_a_script_of_the_workspace_that_names_what_is_no_program_opens_nothing(workspace: Path, elsewhere: Path) -> None:
    """Its first line may be an earlier command's work: neither by name, nor by a link in the workspace."""
    link = workspace / "link"
    link.symlink_to(elsewhere / "data")
    for named in (elsewhere / "data", link):
        script = executable(workspace / "build", f"#!{named}\n")
        for mode in (0o644, 0o755):  # where everything may be executed, such as a mounted Windows disk, the bits say nothing
            (elsewhere / "data").chmod(mode)
            with confined(workspace, "auto", allowed_executables=(str(script), "cat")) as broker:
                assert not broker.execute_command(("cat", str(elsewhere / "data"))).success


@pytest.mark.parametrize("home", ["{elsewhere}", "{elsewhere}/", "/", "{elsewhere}\0", "{elsewhere}/\udce9", "."])
def test_a_virtual_environment_of_the_workspace_that_names_no_python_opens_nothing(
    home: str, workspace: Path, elsewhere: Path
) -> None:
    python = workspace / ".venv/bin/python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    settings = f"home = {home.format(elsewhere=elsewhere)}\n"
    (workspace / ".venv/pyvenv.cfg").write_bytes(settings.encode("utf-8", "surrogateescape"))
    with confined(workspace, "auto", allowed_executables=(str(python), "cat")) as broker:
        assert not broker.execute_command(("cat", str(elsewhere / "data"))).success


@in_modes()
def test_a_virtual_environment_that_was_made_through_a_link_works(mode: str, workspace: Path, elsewhere: Path) -> None:
    """Its home is a directory of links, of which the one is needed and nothing beside it."""
    (elsewhere / "python3").symlink_to(os.path.realpath(sys.executable))
    made = workspace / ".venv"
    subprocess.run([elsewhere / "python3", "-m", "venv", "--without-pip", made], check=True)
    assert f"home = {elsewhere}\n" in (made / "pyvenv.cfg").read_text()
    with confined(workspace, mode, allowed_executables=(str(made / "bin/python3"), "cat")) as broker:
        assert run(broker, "python3", "-c", "import ssl, sys; print(sys.prefix)").stdout == f"{made}\n"
        assert not broker.execute_command(("cat", str(elsewhere / "data"))).success


def test_no_runtime_is_the_root_or_holds_a_home(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    tool, shim = (executable(home / place, "#!/bin/sh\n") for place in ("bin/tool", "shims/shim"))
    (home / "lib" / "node_modules").mkdir(parents=True)
    (home / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(home))
    listed = resolve_executables(
        confined_policy(workspace, allowed_executables=(str(tool), str(shim), sys.executable)), os.environ
    )
    try:
        found = {Path(path) for path in runtime_paths(listed)}
    finally:
        listed.close()
    assert home / "lib" / "node_modules" in found
    assert [path for path in found if (home / ".ssh").is_relative_to(path)] == []


_ETC_OF_LINKS = """
set -e
cp -rP /etc/passwd /etc/group /etc/nsswitch.conf /etc/ld.so.* "$1/etc/" 2>/dev/null || true
ln -s ../run/resolve/link.conf "$1/etc/resolv.conf"
ln -s ../../run/certificates "$1/etc/ssl/certs"
mount --bind "$1/etc" /etc
mount -t tmpfs none /run
mkdir /run/resolve /run/certificates
echo "nameserver 192.0.2.53" >/run/resolve/real.conf
ln -s real.conf /run/resolve/link.conf
echo certificate >/run/certificates/one.pem
echo secret >/run/resolve/secret
shift
exec "$@"
"""
_LOOK_AROUND = """
import sys
from pathlib import Path
from tests.confinement.places import confined
with confined(Path(sys.argv[1]), sys.argv[2]) as broker:
    for path in ("/etc/resolv.conf", "/etc/ssl/certs/one.pem", "/run/resolve/secret"):
        print(broker.execute_command(("cat", path)).stdout.strip() or "nothing")
"""


@in_modes()
def test_where_files_of_etc_are_links_commands_see_what_they_lead_to_and_nothing_beside_it(
    mode: str, workspace: Path, tmp_path: Path
) -> None:
    """systemd-resolved, NetworkManager and WSL keep resolv.conf elsewhere, some systems the certificates."""
    (tmp_path / "etc" / "ssl").mkdir(parents=True)
    who = "--map-root-user" if os.geteuid() == 0 else "--map-current-user"
    box = ["unshare", "--user", who, "--keep-caps", "--mount", "bash", "-c", _ETC_OF_LINKS, "bash", str(tmp_path)]
    done = subprocess.run(
        [*box, sys.executable, "-c", _LOOK_AROUND, str(workspace), mode], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["nameserver 192.0.2.53", "certificate", "nothing"], done.stderr[-2000:]


_ETC_WITH_SECRETS = """
set -e
cp -rP /etc/. "$1/etc/" 2>/dev/null || true
mkdir -p "$1/etc/apt/auth.conf.d" "$1/etc/letsencrypt/live" "$1/etc/opened"
for name in apt/auth.conf.d/one letsencrypt/live/key opened/by-policy own.conf; do echo secret >"$1/etc/$name"; done
chmod 600 "$1/etc/apt/auth.conf.d/one" "$1/etc/passwd" "$1/etc/ld.so.cache" "$1/etc/opened/by-policy"
chmod 700 "$1/etc/letsencrypt" "$1/etc/opened"
mount --bind "$1/etc" /etc
shift
exec "$@"
"""
_READ_SECRETS = """
import sys
from pathlib import Path
from fable_exec import Confinement
from tests.confinement.places import confined
with confined(Path(sys.argv[1]), sys.argv[2], confinement=Confinement(runtime_read_paths=("/etc/opened",))) as broker:
    for name in ("apt/auth.conf.d/one", "letsencrypt/live/key", "passwd", "own.conf", "opened/by-policy"):
        result = broker.execute_command(("cat", f"/etc/{name}"))
        print(name, bool(result.stdout), result.exit_code == 0)
"""


@in_modes()
def test_what_is_closed_to_others_is_closed_to_commands_of_root_too(mode: str, workspace: Path, tmp_path: Path) -> None:
    """Save what every program needs, and what the policy opens. Another user finds the same by the modes alone."""
    (tmp_path / "etc").mkdir()
    box = ["unshare", "--user", "--map-root-user", "--keep-caps", "--mount", "bash", "-c", _ETC_WITH_SECRETS, "bash"]
    argv = [*box, str(tmp_path), sys.executable, "-c", _READ_SECRETS, str(workspace), mode]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    closed = mode != "plain"  # there an empty file stands for it, here it cannot be opened
    assert done.stdout.splitlines() == [
        f"apt/auth.conf.d/one False {closed}", "letsencrypt/live/key False False", "passwd True True", "own.conf True True",
        "opened/by-policy True True",
    ], done.stderr[-2000:]  # fmt: skip


@in_modes("slots", "namespace")
def test_a_command_finds_its_own_host_by_name(mode: str, workspace: Path) -> None:
    """Java, Erlang and MPI look themselves up; git does for the identity that it makes up."""
    text = "import socket; print(socket.gethostbyname(socket.gethostname()))"
    with confined(workspace, mode) as broker:
        result = run(broker, "python3", "-c", text)
    assert result.stdout.startswith("127.") and result.denials == ()
