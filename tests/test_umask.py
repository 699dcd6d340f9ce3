"""A host's umask reaches nothing that the library makes: files, directories, the log, the canary's bait."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests import hosts


@pytest.mark.requires_ability("confinement")
@pytest.mark.parametrize("mask", ["0", "077", "0777"])
def test_everything_has_its_own_mode_whatever_the_umask(workspace: Path, tmp_path: Path, mask: str) -> None:
    program = """
    import asyncio
    from fable_exec import AuditRules, BrokerClient, Confinement, ExecutionBroker
    from fable_exec.audit import verify_log
    from tests.doors import TOKEN, policy_for
    os.umask(int(sys.argv[3], 8))
    policy = policy_for(Path(sys.argv[1]), confinement=Confinement.named("strict"), audit=AuditRules(path=sys.argv[2]))
    said = []
    for make in (ExecutionBroker, BrokerClient):
        name = make.__name__
        with make(policy) as broker:
            said.append(broker.execute_command(["bash", "-c", "umask; echo x > $TMPDIR/x; cat $TMPDIR/x"]).stdout)
            broker.unlock_writes(TOKEN)
            broker.write_file(f"{name}/deep/written", "text")
            broker.append(f"{name}/appended", "a")
            broker.append(f"{name}/appended", "b")
            broker.make_directory(f"{name}/made/deeper")
            broker.write_file(f"{name}/made/deeper/file", "text")
            said.append(broker.inspect_files(f"{name}/appended").content)
            said.append(broker.execute_command(["bash", "-c", f"umask; echo y > {name}/made/by; cat {name}/made/by"]).stdout)
    answer([said, os.umask(0o022), verify_log(Path(sys.argv[2])).ok])
    """
    log = tmp_path / "audit.jsonl"
    said, still, verified = hosts.answer_of(program, str(workspace), str(log), mask)
    assert said == ["0022\nx\n", "ab", "0022\ny\n"] * 2
    assert (still, verified) == (int(mask, 8), True)
    made = {path.relative_to(workspace).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in workspace.rglob("*")}
    assert {mode for path, mode in made.items() if (workspace / path).is_dir()} == {0o700}
    assert {mode for path, mode in made.items() if not path.endswith("/by") and not (workspace / path).is_dir()} == {0o600}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize("mask", [0o077, 0o777])
def test_doctor_proves_under_any_umask(mask: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fable_exec", "doctor", "--json"],
        capture_output=True, text=True, cwd=hosts.PROJECT, umask=mask, timeout=60,
    )  # fmt: skip
    plain = subprocess.run(
        [sys.executable, "-m", "fable_exec", "doctor", "--json"], capture_output=True, text=True, cwd=hosts.PROJECT, timeout=60
    )
    assert (done.returncode, done.stderr) == (plain.returncode, "")
