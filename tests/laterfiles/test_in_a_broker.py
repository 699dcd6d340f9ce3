"""The sentry as a broker posts it: told in which launch mode pins hold."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement, ExecutionBroker
from fable_exec.policy import Protections
from tests.laterfiles.conftest import PINNING

_PLAIN = pytest.param("plain", marks=pytest.mark.requires_ability("linux", "git"))
DEGRADABLE: dict[str, Any] = dict.fromkeys(
    ("workspace_writes", "host_writes", "host_reads", "network", "host_sockets", "whole_tree_end", "kernel_surface"), "degradable"
)


@pytest.mark.parametrize("mode", [*PINNING, _PLAIN])
def test_a_configuration_cannot_be_written_by_another_name_in_any_launch_mode(mode: Any, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    policy = BrokerPolicy(
        workspace=workspace,
        allowed_executables=("sh",),
        write_token_digest=hashlib.sha256(b"token").hexdigest(),
        confinement=Confinement(protections=Protections(**DEGRADABLE)),
        launch=mode,
    )
    with ExecutionBroker(policy) as broker:
        broker.unlock_writes("token")
        broker.execute_command(["sh", "-c", "ln .git/config alias"])
        broker.execute_command(["sh", "-c", r"printf '[core]\n\tfsmonitor = touch x\n' >> alias"])
    assert "fsmonitor" not in (workspace / ".git/config").read_text()
