"""What a policy document says of samples, without inspect-ai: what holds without one, and what it must not say."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, PolicyError
from fable_exec.adapters.inspect_ai_operations import InspectOperations, TooMuchOutput
from fable_exec.adapters.inspect_ai_policy import sample_document
from fable_exec.errors import ConfinementUnavailable
from tests.adapters.inspect_samples import CONFINED, within
from tests.cli.typed import PROJECT


@CONFINED
def test_a_document_bounds_what_a_sample_may(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('allowed_executables = ["sh"]\nmax_output_bytes = 1000\n')

    async def body(sample: InspectOperations) -> None:
        with pytest.raises(TooMuchOutput) as much:
            await sample.execute(["sh", "-c", "yes | head -c 100000"])
        assert (much.value.limit, len(much.value.stdout)) == (1000, 1000)
        await sample.write("large", b"x" * 2000)
        with pytest.raises(OSError, match="2000 bytes"):
            await sample.read("large")

    within(body, str(tmp_path / "policy.toml"))


def test_a_document_adds_to_what_holds_without_one() -> None:
    def policy(given: dict[str, Any]) -> BrokerPolicy:
        return BrokerPolicy.from_mapping({**sample_document(given), "workspace": str(PROJECT)})

    plain = policy({})
    assert (plain.limits.timeout_seconds, plain.limits.max_timeout_seconds, plain.max_output_bytes) == (3600, 3600, 100 * 1024**2)
    for name in ("CUSTOM", "_x", "PATH", "HOME", "PYTHONPATH", "lower"):
        assert plain.environment.admits_request(name)
    said = policy({"environment": {"set": {"A": "b"}}, "limits": {"max_timeout_seconds": 60}, "allowed_executables": ["git"]})
    assert said.environment.admits_request("CUSTOM")
    assert (dict(said.environment.set), said.allowed_executables) == ({"A": "b"}, ("git",))
    assert (said.limits.timeout_seconds, said.paths.file_trust) == (60, plain.paths.file_trust)
    assert policy({"limits": {"timeout_seconds": 5}}).limits.timeout_seconds == 5
    assert not policy({"environment": {"request_names": []}}).environment.admits_request("CUSTOM")
    assert policy({"environment": None}).environment.admits_request("CUSTOM")
    for faulty in ({"limits": 3}, {"environment": []}, {"paths": "x"}):
        with pytest.raises(PolicyError):
            policy(faulty)


@CONFINED
def test_more_time_than_the_policy_allows_is_what_it_allows(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("limits.max_timeout_seconds = 1\n")

    async def body(sample: InspectOperations) -> None:
        assert (await sample.execute(["sh", "-c", "sleep 600"], timeout=300)).timed_out
        assert (await sample.execute(["sh", "-c", "sleep 600"])).timed_out

    within(body, str(tmp_path / "policy.toml"))


@CONFINED
def test_what_no_sample_could_do_without_is_told_by_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    asyncio.run(InspectOperations.check())
    (tmp_path / "policy.toml").write_text('launch = "plain"\nconfinement.protections.later_files = "strict"\n')
    with pytest.raises(ConfinementUnavailable, match="later_files"):
        asyncio.run(InspectOperations.check(str(tmp_path / "policy.toml")))
    assert os.listdir(tmp_path) == ["policy.toml"]


@pytest.mark.parametrize("line", ['workspace = "/srv"', f'write_token_digest = "{"0" * 64}"', "colour = 1"])
def test_a_document_that_says_what_is_the_samples_own_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(line)
    with pytest.raises(PolicyError):
        within(lambda _: asyncio.sleep(0), str(tmp_path / "policy.toml"))
