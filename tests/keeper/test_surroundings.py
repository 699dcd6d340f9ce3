"""What a job finds around it: its environment, its descriptors, its place among processes, and nothing of its keeper's."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.keeper.surroundings import DIRECTORIES
from fable_exec.supervisor import Execution
from tests.keeper.scenes import NEEDS, Scene, ending, log, supervising

PASSED = {
    "LANG": "de_DE.UTF-8", "LC_ALL": "C", "LC_TIME": "en_DK", "LOGNAME": "somebody", "NO_COLOR": "1", "SHELL": "/bin/sh",
    "TERM": "dumb", "USER": "somebody",
}  # fmt: skip
KEPT_BACK = {
    "AWS_SECRET_ACCESS_KEY": "secret", "ANTHROPIC_API_KEY": "secret", "SSH_AUTH_SOCK": "/secret", "LD_LIBRARY_PATH": "/secret",
    "PYTHONPATH": "/secret", "PYTHONSTARTUP": "/secret", "GIT_DIR": "/secret", "BASH_ENV": "/secret", "LC": "secret",
    "XDG_RUNTIME_DIR": "/secret",
    "FABLE_EXEC_STATE_DIR": "/secret", "HOME": "/secret", "TMPDIR": "/tmp", "FABLE_EXEC_ID": "secret",
}  # fmt: skip
SETTINGS = {
    "PYTHONUNBUFFERED": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1", "GIT_CONFIG_NOSYSTEM": "1", "FABLE_EXEC_SUPERVISED": "1",
}  # fmt: skip
IN_RUNTIME = {
    "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state",
    "npm_config_cache": "npm", "BUN_INSTALL_CACHE_DIR": "bun", "CLAUDE_CONFIG_DIR": "claude", "GIT_CONFIG_GLOBAL": "gitconfig",
}  # fmt: skip
CONFINED = pytest.mark.requires_ability("confinement", "pid_namespace", "own_proc")


def told(execution: Execution) -> Any:
    assert ending(execution)[0] == "completed", execution.to_members()
    return json.loads(log(execution))


def test_the_environment_has_the_listed_names_and_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LC_")]:
        monkeypatch.delenv(name)
    for name, value in {**PASSED, **KEPT_BACK}.items():
        monkeypatch.setenv(name, value)
    execution = scene.run("env", "-0", environment={"OF_THE_SPEC": "with\nlines", "LANG": "C.UTF-8"})
    found = dict(entry.split("=", 1) for entry in log(execution).decode().rstrip("\0").split("\0"))
    runtime = found["XDG_CACHE_HOME"].removesuffix("/cache")
    assert found == {
        **PASSED,
        **SETTINGS,
        **{name: f"{runtime}/{each}" for name, each in IN_RUNTIME.items()},
        "HOME": f"{runtime}/home",
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), f"{runtime}/tmp"),
        "TMPPREFIX": f"{runtime}/tmp/zsh",
        "PATH": found["PATH"],
        "OF_THE_SPEC": "with\nlines",
        "LANG": "C.UTF-8",
        "FABLE_EXEC_ID": execution.execution_id,
        "FABLE_EXEC_DIR": str(execution.directory),
        "FABLE_EXEC_TARGET_DIR": str(scene.workspace),
    }
    assert all(os.path.isabs(each) for each in found["PATH"].split(":"))


def test_values_of_the_environment_are_written_nowhere(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "d41d8cd98f00-of-the-host")
    execution = scene.run("true", environment={"B_TOKEN": "d41d8cd98f00-of-the-spec"})
    for path in execution.directory.rglob("*"):
        assert not path.is_file() or b"d41d8cd98f00" not in path.read_bytes(), path


LOOK = """
import json, os, resource, signal, stat
descriptors = {}
for name in os.listdir("/proc/self/fd"):
    try:
        descriptors[name] = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        pass
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
mask = os.umask(0)
try:
    os.open("/dev/tty", os.O_RDWR)
    terminal = True
except OSError:
    terminal = False
ours = os.getpid()
print(json.dumps({
    "descriptors": descriptors, "umask": mask, "cwd": os.getcwd(), "terminal": terminal,
    "leads": [os.getsid(0) == ours, os.getpgrp() == ours], "blocked": status["SigBlk"],
    "ignored": int(status["SigIgn"], 16) & ~(3 << 31),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "null": os.read(0, 1) == b"",
    "same": os.fstat(1).st_ino == os.fstat(2).st_ino, "pipe": stat.S_ISFIFO(os.fstat(1).st_mode),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "uid": os.getuid(), "groups": os.getgroups(),
}))
"""


def test_it_leads_its_own_session_and_has_three_descriptors(scene: Scene) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = told(scene.ended(scene.python(LOOK)))
    assert found.pop("descriptors").keys() == {"0", "1", "2"}
    assert found.pop("uid") == os.getuid()
    found.pop("groups")
    assert found == {
        "umask": 0o022, "cwd": str(scene.workspace), "terminal": False, "leads": [True, True],
        "blocked": "0" * 16, "ignored": 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1),
        "files": soft, "null": True, "same": True, "pipe": True, "core": [0, 0],
    }  # fmt: skip
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


@pytest.mark.parametrize("rung", [pytest.param(rung, marks=pytest.mark.requires_ability(*NEEDS[rung])) for rung in NEEDS])
def test_what_the_host_blocks_or_ignores_is_not_passed_on(tmp_path: Path, workspace: Path, rung: str) -> None:
    """Nor what Python ignores; two numbers are the C library's own, whose posix_spawn(3) leaves them ignored."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD})
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        with supervising(tmp_path) as supervisor:
            scene = Scene(supervisor=supervisor, workspace=workspace, rung=rung)
            execution = scene.run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    finally:
        signal.signal(signal.SIGUSR2, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1, signal.SIGCHLD})
    blocked, ignored = (int(word, 16) for word in log(execution).split()[1::2])
    assert (blocked, ignored & ~(3 << 31)) == (0, 0)


def test_its_directories_are_its_own(scene: Scene) -> None:
    program = """
import json, os, stat
runtime = os.path.dirname(os.environ["XDG_CACHE_HOME"])
found = {name: oct(stat.S_IMODE(os.stat(f"{runtime}/{name}").st_mode)) for name in ["."] + os.listdir(runtime)}
open(os.environ["TMPDIR"] + "/file", "x").close()
print(json.dumps([found, open(os.environ["GIT_CONFIG_GLOBAL"]).read(), os.path.isdir(os.environ["HOME"])]))
"""
    modes, settings, has_home = told(scene.ended(scene.python(program)))
    settings_mode = modes.pop("gitconfig")
    assert modes == dict.fromkeys((".", *DIRECTORIES), "0o700")
    assert int(settings_mode, 8) & 0o022 == 0
    assert "gpgsign = false" in settings and has_home


@CONFINED
@pytest.mark.parametrize("linked", [False, True])
def test_a_confined_job_has_one_root_and_cannot_write_in_it(tmp_path: Path, workspace: Path, linked: bool) -> None:
    """It is built below the job's own directory, which is shown with all that is mounted there."""
    program = """
import json, os
runtime = os.path.dirname(os.environ["XDG_CACHE_HOME"])
open(f"{runtime}/root/planted", "x").close()
places = [line.split()[4] for line in open("/proc/self/mountinfo")]
mounted = [place for place in places if place.startswith(f"{runtime}/")]
print(json.dumps([mounted, os.listdir(f"{runtime}/root"), os.listdir("/")]))
"""
    place = tmp_path / "place"
    place.mkdir()
    if linked:
        (tmp_path / "link").symlink_to(place)
    with supervising(tmp_path / "link" if linked else place) as supervisor:
        scene = Scene(supervisor=supervisor, workspace=workspace, rung="pidns")
        mounted, beside, root = told(scene.ended(scene.python(program, confined=True)))
    assert mounted == [] and beside == ["planted"] and "planted" not in root


@CONFINED
def test_a_confined_job_reads_its_spec_and_reaches_nothing_else_of_its_keepers(supervisor: Any, workspace: Path) -> None:
    scene = Scene(supervisor=supervisor, workspace=workspace, rung="pidns")
    program = """
import errno, fcntl, json, os
directory = os.environ["FABLE_EXEC_DIR"]
def tried(act, *arguments):
    try:
        return repr(act(*arguments))
    except OSError as error:
        return errno.errorcode[error.errno]
def at(name):
    return os.path.join(directory, name)
answers = {"spec": open(at("spec.md")).read()}
for name in ("state.json", "run.lock", ".lock", "terminal.rec", "bell", "runner.log", "supervisor.log"):
    answers[name] = [tried(os.open, at(name), flags) for flags in (os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK)]
answers["changes"] = [
    tried(os.open, at("spec.md"), os.O_WRONLY), tried(os.unlink, at("spec.md")), tried(os.chmod, at("spec.md"), 0o777),
    tried(os.rename, at("spec.md"), at("state.json")),
]
tried(os.open, at("new"), os.O_CREAT | os.O_WRONLY)  # may succeed: in memory of its own, which is no directory of the host
tried(os.mkfifo, at("bell"))
answers["siblings"] = [name for name in os.listdir(os.path.dirname(directory)) if name != os.path.basename(directory)]
print(json.dumps(answers))
"""
    other = scene.run("true", confined=True)
    before = (other.directory / "state.json").read_bytes()
    execution = scene.ended(scene.python(program, spec_text="do as you are told\n", confined=True))
    found = told(execution)
    assert found.pop("spec") == "do as you are told\n"
    changes, siblings = found.pop("changes"), found.pop("siblings")
    assert found == {name: ["ENOENT", "ENOENT"] for name in found} and len(found) == 7
    assert set(changes) <= {"EACCES", "EROFS", "EPERM", "ENOENT", "EBUSY", "EXDEV"}, changes
    assert siblings == []
    assert "new" not in os.listdir(execution.directory)
    assert (execution.directory / "spec.md").read_text() == "do as you are told\n"
    assert (other.directory / "state.json").read_bytes() == before
    assert stat.S_IMODE((execution.directory / "spec.md").stat().st_mode) & 0o022 == 0


@CONFINED
def test_a_confined_job_has_the_same_surroundings(supervisor: Any, workspace: Path) -> None:
    found = told(Scene(supervisor=supervisor, workspace=workspace, rung="pidns").run(
        "python3", "-I", "-S", "-c", LOOK, confined=True
    ))  # fmt: skip
    assert found["descriptors"].keys() == {"0", "1", "2"}
    assert (found["cwd"], found["umask"], found["leads"], found["terminal"]) == (str(workspace), 0o022, [True, True], False)


@pytest.mark.requires_ability("root")
def test_of_root_it_runs_as_the_owner_of_its_workspace(scene: Scene) -> None:
    owner = 23_456
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        workspace = Path(directory).resolve() / "workspace"
        workspace.mkdir(mode=0o700)
        os.chown(workspace, owner, owner)
        there = attrs.evolve(scene, workspace=workspace)
        found = told(there.ended(there.python(LOOK)))
    assert (found["uid"], found["groups"], found["descriptors"].keys()) == (owner, [], {"0", "1", "2"})
