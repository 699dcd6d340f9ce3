"""What of /etc is closed to other users, for commands of root: also what is replaced, made again, oddly named, or beside what is
opened.

Each test has an /etc of its own, in a mount namespace. Another user finds the same by the modes alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.confinement.places import in_modes

_PREPARED = r"""
set -e
umask 022
cp -rP /etc/. "$1/etc/" 2>/dev/null || true
mount --bind "$1/etc" /etc
cd /etc
closed() { mkdir -p "$(dirname "$1")"; rm -rf "$1"; echo secret >"$1"; chmod 600 "$1"; }
for name in closed shadow '{private}/x' 'a{b}' %s $'new\nline' 'back\slash' ' space ' é $'\xff' apt/auth.conf.d/one; do
    closed "$name"
done
for name in inner/readable within/{opened,key} within/deeper/{opened,key} project/closed project/ws/own; do
    closed "$name"
    chmod 644 "$name"
done
chmod 700 inner within project
chmod 755 project/ws
[ -d ssl/certs ] || mkdir -p ssl/certs
[ -L ssl/certs ] || closed ssl/certs/one.key
rm -rf ssh
mkdir ssh
echo key >ssh/ssh_host_rsa_key
echo open >open
cd "$OLDPWD"
shift
exec "$@"
"""
_BEGINNING = '''
import json, os, sys, time
from pathlib import Path
from fable_exec import Confinement
from tests.confinement.places import confined
workspace, mode = Path(sys.argv[1]), sys.argv[2]
def cat(broker, *names):
    return [broker.execute_command(("cat", "--", f"/etc/{name}")).stdout.strip() for name in names]
def cat_soon(broker, *names):
    """What is new is covered within half a millisecond, and later where the processors are busy."""
    give_up_at = time.monotonic() + 5
    while any(found := cat(broker, *names)) and time.monotonic() < give_up_at:
        pass
    return found
def replace(name, text):
    new = f"/etc/{name}.new"
    with open(new, "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.rename(new, f"/etc/{name}")
'''


def in_an_etc_of_its_own(text: str, tmp_path: Path, *arguments: str) -> Any:
    """What the program prints as JSON, run as root of a user namespace."""
    (tmp_path / "etc").mkdir()
    box = ["unshare", "--user", "--map-root-user", "--keep-caps", "--mount", "bash", "-c", _PREPARED, "bash", str(tmp_path)]
    program = [sys.executable, "-c", _BEGINNING + text, *arguments]
    done = subprocess.run([*box, *program], capture_output=True, timeout=120, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-3000:]
    return json.loads(done.stdout)


_ODD = """
names = ["closed", "shadow", "{private}/x", "a{b}", "%s", "new\\nline", "back\\\\slash", " space ", "é", "apt/auth.conf.d/one"]
script = "cd /etc && cat -- closed shadow '{private}/x' a* %s new* back* ' space ' é* ? ??"  # the last: a byte that is no text
with confined(workspace, mode) as broker:
    print(json.dumps([cat(broker, *names), "secret" in broker.execute_command(("sh", "-c", script)).stdout]))
"""


@in_modes()
def test_names_of_any_form_are_hidden(mode: str, workspace: Path, tmp_path: Path) -> None:
    read, found = in_an_etc_of_its_own(_ODD, tmp_path, str(workspace), mode)
    assert (set(read), found) == ({""}, False)


_REPLACED = """
with confined(workspace, mode) as broker:
    answers = [cat(broker, "closed", "shadow", "open")]
    replace("closed", "secret once more")
    replace("shadow", "secret once more")
    answers.append(cat_soon(broker, "closed", "shadow"))
    os.unlink("/etc/closed")
    answers.append(cat_soon(broker, "closed"))
    replace("closed", "secret that came back")
    answers.append(cat_soon(broker, "closed"))
    os.rename("/etc/inner", "/etc/moved")
    os.mkdir("/etc/inner")
    Path("/etc/inner/readable").write_text("secret in a new directory")
    answers.append(cat_soon(broker, "inner/readable", "moved/readable"))
    print(json.dumps(answers))
"""


@in_modes()
def test_what_is_put_in_the_place_of_what_is_hidden_is_hidden_as_well(mode: str, workspace: Path, tmp_path: Path) -> None:
    """As passwd(1) does it: the kernel takes a mount away with the file that it lies over."""
    answers = in_an_etc_of_its_own(_REPLACED, tmp_path, str(workspace), mode)
    assert answers == [["", "", "open"], ["", ""], [""], [""], ["", ""]]


_WHILE_RUNNING = """
script = "while [ ! -e go ]; do :; done; sleep 0.5; cat /etc/closed; cat /etc/shadow"
with confined(workspace, mode) as broker:
    command = broker.start_command(("sh", "-c", script))
    replace("closed", "secret once more")
    replace("shadow", "secret once more")
    (workspace / "go").touch()
    print(json.dumps(command.wait().stdout))
"""


@in_modes()
def test_a_command_that_runs_meanwhile_does_not_see_it_either(mode: str, workspace: Path, tmp_path: Path) -> None:
    assert in_an_etc_of_its_own(_WHILE_RUNNING, tmp_path, str(workspace), mode) == ""


_OPENED = """
opened = ("/etc/within/opened", "/etc/within/deeper/opened")
with confined(workspace, mode, confinement=Confinement(runtime_read_paths=opened)) as broker:
    print(json.dumps(cat(broker, "within/opened", "within/deeper/opened", "within/key", "within/deeper/key", "closed")))
"""


@in_modes()
def test_what_a_policy_opens_in_a_closed_directory_opens_nothing_beside_it(mode: str, workspace: Path, tmp_path: Path) -> None:
    assert in_an_etc_of_its_own(_OPENED, tmp_path, str(workspace), mode) == ["secret", "secret", "", "", ""]


_WORKSPACE = """
with confined(Path("/etc/project/ws"), mode) as broker:
    print(json.dumps(cat(broker, "project/ws/own", "project/closed", "closed")))
"""


@in_modes()
def test_a_workspace_may_lie_in_a_closed_directory(mode: str, tmp_path: Path) -> None:
    assert in_an_etc_of_its_own(_WORKSPACE, tmp_path, "-", mode) == ["secret", "", ""]


_WORKSPACE_WITH_A_SECRET = """
with confined(Path("/etc/ssh"), mode) as broker:
    answers = [cat(broker, "ssh/ssh_host_rsa_key", "closed")]
    replace("closed", "secret once more")
    replace("ssh/ssh_host_rsa_key", "another key")
    answers.append(cat(broker, "ssh/ssh_host_rsa_key", "closed"))
    print(json.dumps(answers))
"""


@in_modes()
def test_what_a_workspace_holds_stays_in_sight_whatever_is_covered_again(mode: str, tmp_path: Path) -> None:
    answers = in_an_etc_of_its_own(_WORKSPACE_WITH_A_SECRET, tmp_path, "-", mode)
    assert answers == [["key", ""], ["another key", ""]]


_BY_RULE = """
from fable_exec.runtimes import system_secrets
os.chmod("/etc/ssl", 0o700)
Path("/etc/ssl/readable.key").write_text("secret")
Path("/etc/ssl/certs").is_symlink() or os.chmod("/etc/ssl/certs", 0o700)
closed = system_secrets()
os.chmod("/etc/ssl", 0o755)
Path("/etc/ssl/certs").is_symlink() or os.chmod("/etc/ssl/certs", 0o755)
print(json.dumps([closed, system_secrets()]))
"""


def test_a_key_among_certificates_is_hidden_unless_a_strict_umask_has_closed_them_all(tmp_path: Path) -> None:
    closed, opened = in_an_etc_of_its_own(_BY_RULE, tmp_path, "-", "-")
    assert "/etc/ssl/readable.key" in closed and "/etc/ssl/readable.key" not in opened
    assert not [path for path in closed if path.startswith("/etc/ssl/certs")]
    assert [path for path in opened if path.startswith("/etc/ssl/certs")] in ([], ["/etc/ssl/certs/one.key"])
    for found in (closed, opened):
        assert {"/etc/closed", "/etc/inner", "/etc/within", "/etc/project", "/etc/apt/auth.conf.d/one"} <= set(found)
        assert not {"/etc/passwd", "/etc/open", "/etc/apt", "/etc/ssl"} & set(found)


_RACE = """
import threading
from fable_exec.runtimes import system_secrets
Path("/etc/busy").mkdir()
going = True
def change():
    number = 0
    while going:
        number += 1
        place = f"/etc/busy/{number % 50}"
        os.mkdir(place)
        Path(place, "file").touch(0o600)
        os.chmod("/etc/open", 0o600 if number % 2 else 0o644)
        os.unlink(f"{place}/file")
        os.rmdir(place)
changing = threading.Thread(target=change)
changing.start()
found = [set(system_secrets()) for _ in range(200)]
going = False
changing.join()
print(json.dumps(sorted(set.intersection(*found))))
"""


def test_an_etc_that_is_changed_meanwhile_hides_nothing_of_what_stays(tmp_path: Path) -> None:
    always = in_an_etc_of_its_own(_RACE, tmp_path, "-", "-")
    assert {"/etc/closed", "/etc/inner", "/etc/within", "/etc/apt/auth.conf.d/one", "/etc/{private}/x"} <= set(always)


_JOB = """
from fable_exec.supervisor import ExecutionSpec, Supervisor
from tests.confinement.places import confined_policy
names = "closed shadow inner/readable within/key within/opened apt/auth.conf.d/one open"
script = "cd /etc; for each in " + names + "; do echo $each $(cat $each 2>/dev/null); done"
confinement = Confinement(runtime_read_paths=("/etc/within/opened",))
policy = confined_policy(workspace, mode, allowed_executables=("sh",), confinement=confinement)
with Supervisor(root=workspace.parent / "records") as supervisor:
    spec = ExecutionSpec(argv=("sh", "-c", script), workspace=workspace, policy=policy)
    execution = supervisor.wait(supervisor.start(spec).execution_id, 60)
    print(json.dumps([execution.document["state"], (execution.directory / "runner.log").read_text().split("\\n")]))
"""
_SEEN = ["closed", "shadow", "inner/readable", "within/key", "within/opened secret", "apt/auth.conf.d/one", "open open", ""]


@in_modes("slots", "plain")
def test_supervised_jobs_do_not_see_it_either(mode: str, workspace: Path, tmp_path: Path) -> None:
    """The first of the modes stands for the one with namespaces: a job has an init of its own."""
    mode = {"slots": "auto"}.get(mode, mode)
    assert in_an_etc_of_its_own(_JOB, tmp_path, str(workspace), mode) == ["exited", _SEEN]


_LONG_JOB = """
import time
from fable_exec.supervisor import ExecutionSpec, Supervisor
from tests.confinement.places import confined_policy
script = "echo up; while [ ! -e go ]; do :; done; sleep 0.5; cat /etc/closed /etc/shadow; echo end"
policy = confined_policy(workspace, mode, allowed_executables=("sh",))
with Supervisor(root=workspace.parent / "records") as supervisor:
    spec = ExecutionSpec(argv=("sh", "-c", script), workspace=workspace, policy=policy)
    execution = supervisor.start(spec)
    log = execution.directory / "runner.log"
    for _ in range(1000):
        if log.exists() and "up" in log.read_text():
            break
        time.sleep(0.03)
    for _ in range(3):
        replace("closed", "secret once more")
        replace("shadow", "secret once more")
    (workspace / "go").touch()
    supervisor.wait(execution.execution_id, 60)
    print(json.dumps(log.read_text().split()))
"""


@pytest.mark.requires_ability("userns")
def test_a_job_that_runs_meanwhile_does_not_see_it_either(workspace: Path, tmp_path: Path) -> None:
    assert in_an_etc_of_its_own(_LONG_JOB, tmp_path, str(workspace), "auto") == ["up", "end"]


_DISABLING_JOB = """
import time
from fable_exec.supervisor import ExecutionSpec, Supervisor
from tests.confinement.places import confined_policy
script = '''
import os, resource, time
try:
    resource.prlimit(1, resource.RLIMIT_NOFILE, (6, 6))  # enough for what its init has open, and for nothing else
except PermissionError:
    print("refused")
print("up", flush=True)
while not os.path.exists("go"):
    pass
time.sleep(0.5)
print(open("/etc/shadow").read(), "end")
'''
policy = confined_policy(workspace, "auto", allowed_executables=("python3",))
with Supervisor(root=workspace.parent / "records") as supervisor:
    execution = supervisor.start(ExecutionSpec(argv=("python3", "-c", script), workspace=workspace, policy=policy))
    log = execution.directory / "runner.log"
    for _ in range(1000):
        if log.exists() and "up" in log.read_text():
            break
        time.sleep(0.03)
    replace("shadow", "secret once more")
    (workspace / "go").touch()
    supervisor.wait(execution.execution_id, 60)
    print(json.dumps(log.read_text().split()))
"""


@pytest.mark.requires_ability("userns", "own_proc")
def test_a_job_cannot_keep_its_init_from_covering_what_is_replaced(workspace: Path, tmp_path: Path) -> None:
    assert in_an_etc_of_its_own(_DISABLING_JOB, tmp_path, str(workspace), "auto") == ["refused", "up", "end"]


_BETWEEN = """
import subprocess
from fable_exec._launcher import kernel, mounts
from fable_exec._launcher.covers import Covers
root = workspace / "root"
root.mkdir()
script = "read go && echo secret >/etc/closed.new && mv /etc/closed.new /etc/closed"
host = subprocess.Popen(("sh", "-c", script), stdin=subprocess.PIPE)  # where nothing is mounted over it
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_SLAVE)
mounts.begin_root(str(root))
mounts.bind("/etc", "/etc", "read-only", "required")
mounts.cover("/etc/closed")
host.communicate(b"go\\n")
before = (root / "etc/closed").read_text().strip()
Covers(["/etc/closed"])
print(json.dumps([before, (root / "etc/closed").read_text()]))
"""


@pytest.mark.requires_ability("userns")
def test_what_is_replaced_while_a_launcher_is_made_is_hidden_once_it_is(workspace: Path, tmp_path: Path) -> None:
    assert in_an_etc_of_its_own(_BETWEEN, tmp_path, str(workspace), "-") == ["secret", ""]


_BOUNDARY = """
from fable_exec.bounded.rooms import linux_room
from fable_exec.seatbelt import HostBoundary
root = workspace.parent
for name in ("ws/one", "engine"):
    (root / "projects" / name).mkdir(parents=True)
boundary = HostBoundary(
    workspace_roots=(root / "projects/ws",), protected_root=root / "projects", engine_source=root / "projects/engine",
    runtime_read_paths=(Path("/etc/within/opened"),),
)
names = "closed shadow inner/readable within/key within/opened open"
script = "cd /etc; for each in " + names + "; do echo $each $(cat $each 2>/dev/null); done"
with linux_room(boundary, root / "projects/ws/one", {"PATH": "/usr/bin:/bin"}) as room:
    done = room.run(("sh", "-c", script), 60)
    print(json.dumps(done.stdout.decode().split("\\n")))
"""


@pytest.mark.requires_ability("confinement")
def test_programs_within_a_host_boundary_do_not_see_it_either(workspace: Path, tmp_path: Path) -> None:
    seen = in_an_etc_of_its_own(_BOUNDARY, tmp_path, str(workspace), "-")
    assert seen == [each for each in _SEEN if not each.startswith("apt")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all of it")
def test_nothing_is_looked_for_where_the_modes_hold_by_themselves() -> None:
    from fable_exec.runtimes import system_secrets

    assert system_secrets() == ()
