"""What commands and files of the inspect-ai sandbox do, without inspect-ai: shells, places that only commands see, and its rules
for errors."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
import pwd
import re
import time
import tomllib
from pathlib import Path

import pytest

from fable_exec.adapters.inspect_ai_operations import InspectOperations, TooMuchOutput, is_own_user
from fable_exec.errors import ExecutableDenied, PathDenied
from tests.adapters.inspect_samples import CONFINED, began, within
from tests.cli.typed import PROJECT, is_running

NAMESPACES = pytest.mark.requires_ability("confinement", "userns")


@pytest.fixture
def in_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample's directory is in /tmp, whatever TMPDIR says."""
    monkeypatch.setattr("tempfile.tempdir", "/tmp")


@CONFINED
def test_how_a_command_ended_is_a_result() -> None:
    async def body(sample: InspectOperations) -> None:
        done = await sample.execute(["sh", "-c", "echo grün; echo err >&2; exit 70"])
        assert (done.status, done.stdout.decode(), done.stderr) == (70, "grün\n", b"err\n")
        assert (await sample.execute(["sh", "-c", "kill -15 $$"])).status == 143
        assert (await sample.execute(["no-such-program-here"])).status == 127
        assert (await sample.execute(["python3", "-c", "print(input())"], stdin="schön\n")).stdout.decode() == "schön\n"
        late = await sample.execute(["sh", "-c", "echo before; sleep 60"], timeout=1)
        assert (late.timed_out, late.stdout) == (True, b"before\n")
        with pytest.raises(PermissionError):
            await sample.execute(["/etc/passwd"])

    within(body)


def test_only_the_own_user_is_known() -> None:
    assert is_own_user(str(os.geteuid()))
    assert all(is_own_user(user.pw_name) for user in pwd.getpwall() if user.pw_uid == os.geteuid())
    assert [user for user in ("65533", "no-such-user-here", "", "0:0", "root ", "a\0") if is_own_user(user)] == []


@NAMESPACES
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_a_shell_starts_gets_the_directory_and_the_variables_that_were_asked_for(shell: str, tmp_path: Path) -> None:
    document = tmp_path / "policy.toml"
    document.write_text(f'allowed_executables = ["{shell}"]')

    async def body(sample: InspectOperations) -> None:
        await sample.write("sub/mine", "")
        await sample.write("-/minus", "")
        await sample.execute([shell, "-c", "mkdir -p /tmp/other/sub"])
        for directory, held in (("sub", b"mine\n"), ("-", b"minus\n")):
            done = await sample.execute(["ls"], cwd=directory, env={"CDPATH": "/tmp/other", "OLDPWD": "/tmp/other"})
            assert (done.status, done.stdout) == (0, held)
        names = {"mark": "a", "cwd": "b", "words": "c"}
        found = (await sample.execute(["env"], env=names)).stdout.decode().splitlines()
        assert {f"{name}={value}" for name, value in names.items()} <= set(found)

    within(body, str(document))


@NAMESPACES
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_program_whose_name_begins_with_a_hyphen_is_no_option_of_the_shell(shell: str, tmp_path: Path) -> None:
    document = tmp_path / "policy.toml"
    document.write_text(f'allowed_executables = ["{shell}"]')

    async def body(sample: InspectOperations) -> None:
        for words in (["-c", "id"], ["-a", "x", "id"], ["-l", "id"], ["--", "id"]):
            done = await sample.execute(words)
            assert (done.status, done.stdout) == (127, b"")
        await sample.execute([shell, "-c", "mkdir ./-c; printf '#!/bin/sh\\necho own $1' >./-c/own; chmod +x ./-c/own"])
        assert (await sample.execute(["-c/own", "-x"])).stdout == b"own -x\n"

    within(body, str(document))


@NAMESPACES
def test_programs_that_no_list_can_name_are_for_a_listed_shell() -> None:
    async def body(sample: InspectOperations) -> None:
        assert (await sample.execute(["ls", "-a"])).stdout == b".\n..\n"
        await sample.write("own", "#!/bin/sh\necho own $1 $PWD; exit 7\n")
        await sample.write("/tmp/there", "#!/bin/sh\necho there\n")
        with pytest.raises(PermissionError, match="own"):
            await sample.execute(["./own"])
        await sample.execute(["chmod", "+x", "own", "/tmp/there"])
        done = await sample.execute(["./own", "a b"])
        assert (done.status, done.stdout.decode()) == (7, f"own a b {sample.workspace.root}\n")
        assert (await sample.execute([f"{sample.workspace.root}/own"])).status == 7
        assert (await sample.execute(["there"], env={"PATH": "/tmp:/usr/bin:/bin"})).stdout == b"there\n"
        assert (await sample.execute(["kill", "-9", "$$"])).status != 0
        assert (await sample.execute(["no-such", "x"])).status == 127
        for no_program in ("/etc/passwd", "/etc"):
            with pytest.raises(PermissionError):
                await sample.execute([no_program])

    within(body)


@NAMESPACES
def test_a_command_may_start_wherever_commands_may_go(in_tmp: None) -> None:
    async def body(sample: InspectOperations) -> None:
        await sample.execute(["sh", "-c", "mkdir -p deep /tmp/deep; ln -s deep link; echo > file"])
        for cwd, told in (("deep", f"{sample.workspace.root}/deep"), ("/usr/bin", "/usr/bin"), ("/tmp/deep", "/tmp/deep")):
            assert (await sample.execute(["pwd"], cwd=cwd)).stdout.decode() == f"{told}\n"
        assert (await sample.execute(["pwd", "-P"], cwd="link")).stdout.decode() == f"{sample.workspace.root}/deep\n"
        assert (await sample.execute(["pwd", "-P"], cwd="..")).stdout == b"/tmp\n"
        for cwd, kind in (("/no-such", FileNotFoundError), ("/etc/passwd", NotADirectoryError), ("no-such", FileNotFoundError)):
            with pytest.raises(kind, match=re.escape(cwd)):
                await sample.execute(["sh", "-c", "true"], cwd=cwd)

    within(body)


@NAMESPACES
def test_files_are_where_commands_have_them(in_tmp: None, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")

    async def body(sample: InspectOperations) -> None:
        await sample.write("/tmp/deep/✨", "grün\r\n")
        assert (await sample.execute(["cat", "/tmp/deep/✨"])).stdout.decode() == "grün\r\n"
        await sample.execute(
            ["sh", "-c", "printf '\\303(' > /tmp/raw; ln -s /tmp/raw inner; ln -s raw /tmp/outer; mkfifo /tmp/fifo"]
        )
        for path in ("/tmp/raw", "inner", "/tmp/outer", "../raw", f"{sample.workspace.root}/../raw"):
            assert await sample.read(path) == b"\xc3("
        await sample.write("inner", b"")
        assert await sample.read("/tmp/raw") == b""
        await sample.write("a:b?", "no portable name")
        assert await sample.read("a:b?") == b"no portable name"
        assert await sample.read("/etc/passwd") == Path("/etc/passwd").read_bytes()
        await sample.write("/tmp/large", b"x" * 12_000_000)
        assert len(await sample.read("/tmp/large")) == 12_000_000
        for path, kind in (
            ("/etc", IsADirectoryError), ("/no-such", FileNotFoundError),
            (str(secret), FileNotFoundError), ("/tmp/fifo", OSError),
        ):  # fmt: skip
            with pytest.raises(kind, match=re.escape(path)):
                await sample.read(path)
        with pytest.raises(OSError, match="large") as large:
            await sample.read("/tmp/large", 11_999_999)
        assert large.value.errno == errno.EFBIG
        for path, error in (
            ("/etc/new", PermissionError), ("/etc/passwd", PermissionError), ("/tmp", IsADirectoryError),
            ("/tmp/fifo", OSError), ("/tmp/raw/below", PermissionError), ("/new/below", PermissionError),
        ):  # fmt: skip
            with pytest.raises(error, match=re.escape(path)):
                await sample.write(path, "x")

    within(body)
    assert secret.read_text() == "of the host"


@CONFINED
def test_without_a_shell_there_is_only_the_directory_and_the_list(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('allowed_executables = ["python3"]\n')

    async def body(sample: InspectOperations) -> None:
        await sample.write("a", "b")
        assert (await sample.execute(["python3", "-c", "print(open('a').read())"])).stdout == b"b\n"
        assert (await sample.execute(["no-such-program-here"])).status == 127
        for refused in (["ls"], ["/bin/ls"], ["./a"]):
            with pytest.raises(ExecutableDenied):
                await sample.execute(refused)
        for act in (sample.read("/etc/passwd"), sample.write("/tmp/x", ""), sample.execute(["python3", "-V"], cwd="/tmp")):
            with pytest.raises(PathDenied):
                await act
        with pytest.raises(ExecutableDenied):
            await sample.keep(["sleep", "1"])

    within(body, str(tmp_path / "policy.toml"))


@CONFINED
def test_names_that_the_policy_protects_have_no_second_way(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('paths.protected = ["secret"]\n')

    async def body(sample: InspectOperations) -> None:
        await sample.execute(["sh", "-c", "mkdir d; echo > secret; ln -s secret link"])
        for path in ("secret", "d/../secret", "link", f"{sample.workspace.root}/./secret", "/proc/self/cwd/secret"):
            with pytest.raises(PathDenied):
                await sample.read(path)

    within(body, str(tmp_path / "policy.toml"))


@CONFINED
def test_output_beyond_what_is_asked_for_ends_the_command() -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(sample: InspectOperations) -> None:
        with pytest.raises(TooMuchOutput) as much:
            await sample.execute(["sh", "-c", f"echo err >&2; sleep {marker} & yes"], max_output_bytes=10)
        assert (much.value.limit, much.value.stdout) == (10, b"y\n" * 5)
        assert much.value.stderr in (b"", b"err\n")  # which stream is heard first is not told
        assert not is_running(marker)
        exactly = await sample.execute(["sh", "-c", "printf 0123456789"], max_output_bytes=10)
        assert exactly.stdout == b"0123456789"

    within(body)


@CONFINED
def test_commands_and_files_share_the_directory_of_the_sample() -> None:
    async def body(sample: InspectOperations) -> str:
        root = sample.workspace.root
        await sample.write("deep/✨.file", "great #content\r\n")
        assert await sample.read("deep/✨.file") == b"great #content\r\n"
        assert (await sample.execute(["sh", "-c", "pwd; ls"])).stdout.decode() == f"{root}\ndeep\n"
        assert (await sample.execute(["sh", "-c", "cat *"], cwd="deep")).stdout == b"great #content\r\n"
        assert (await sample.execute(["sh", "-c", "pwd"], cwd=f"{root}/deep")).stdout.decode() == f"{root}/deep\n"
        await sample.write(f"{root}/binary", b"\xc3\x28" * 2_500_000)
        assert await sample.read("binary") == b"\xc3\x28" * 2_500_000
        await sample.execute(["sh", "-c", "chmod a-w binary"])
        with pytest.raises(PermissionError, match="binary"):
            await sample.write("binary", "this won't stick")
        with pytest.raises(FileNotFoundError, match="nonexistent"):
            await sample.read("nonexistent")
        with pytest.raises(IsADirectoryError, match="directory"):
            await sample.read("deep")
        with pytest.raises(IsADirectoryError, match="directory"):
            await sample.write("deep", "x")
        await sample.execute(["sh", "-c", "chmod a-r binary"])
        with pytest.raises(PermissionError, match="binary"):
            await sample.read("binary")
        return root

    assert not Path(within(body)).exists()


@CONFINED
def test_a_cancelled_command_is_dead_before_the_cancellation_goes_on() -> None:
    marker = f"7{time.time_ns() % 10**9}"

    async def body(sample: InspectOperations) -> None:
        running = await began(sample, marker)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_running(marker)

    within(body)


def test_the_entry_point_names_the_adapter() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["inspect_ai"].values()
    assert importlib.util.find_spec("fable_exec.adapters") is not None
    assert (PROJECT / (module.replace(".", "/") + ".py")).exists()
