"""From command line, environment and policy file to one policy: what wins, and what is a fault."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement, PolicyError
from fable_exec.policy import dump_json
from fable_exec.policy.document import MAX_DOCUMENT_BYTES
from fable_exec.server.options import Options, read_options

DIGESTS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("flag", "new", "old", "file", "document")}


def options(workspace: Path, *flags: str, **environment: str) -> Options:
    return read_options(["--workspace", str(workspace), *flags], environment)


def test_the_seeds_flags_are_the_policy(workspace: Path) -> None:
    found = options(workspace, "--allow-executable", "git", "--allow", "python3", "--max-output-bytes", "5")
    assert found.policy == BrokerPolicy(workspace=workspace, allowed_executables=("git", "python3"), max_output_bytes=5)
    assert options(workspace).policy == BrokerPolicy(workspace=workspace)


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_flags_complete_and_win_over_a_policy_file(workspace: Path, tmp_path: Path, suffix: str) -> None:
    text = {".json": '{"max_output_bytes": 7, "launch": "plain"}', ".toml": 'max_output_bytes = 7\nlaunch = "plain"\n'}[suffix]
    (tmp_path / f"policy{suffix}").write_text(text)
    found = options(workspace, "--policy", str(tmp_path / f"policy{suffix}"), "--max-output-bytes", "8")
    assert (found.policy.max_output_bytes, found.policy.launch) == (8, "plain")


def test_commands_are_confined_unless_a_flag_or_the_policy_says_otherwise(workspace: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[confinement]\nnetwork = "full"\n')
    assert options(workspace).policy.confinement == Confinement.strict()
    assert options(workspace, "--policy", str(file)).policy.confinement == Confinement(network="full")
    for word, confinement in (("off", Confinement.off()), ("strict", Confinement.strict())):
        assert options(workspace, "--policy", str(file), "--confinement", word).policy.confinement == confinement
    assert options(workspace, "--workspace", "/tmp", "--confinement", "off").policy.workspace == Path("/tmp")
    with pytest.raises(PolicyError, match="choose a directory of its own"):
        options(workspace, "--workspace", "/tmp")


def test_a_policy_may_come_by_a_descriptor(workspace: Path) -> None:
    policy = BrokerPolicy(workspace=workspace, write_token_digest=DIGESTS["document"])
    with tempfile.TemporaryFile() as file:
        file.write(dump_json(policy).encode())
        file.seek(0)
        found = read_options(["--policy-fd", str(os.dup(file.fileno()))], {})
    assert found.policy == policy


def test_a_policy_may_come_in_pieces_by_a_pipe_that_does_not_block(workspace: Path) -> None:
    text = b" " * 500_000 + dump_json(BrokerPolicy(workspace=workspace, max_output_bytes=7)).encode()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)  # as the event loop of a parent does that shares it
    with open(writing, "wb") as pipe, ThreadPoolExecutor(1) as reader:
        found = reader.submit(read_options, ["--policy-fd", str(reading)], {})
        pipe.write(text)
        pipe.close()
        assert found.result(30).policy.max_output_bytes == 7


def test_one_bound_holds_for_a_policy_however_it_comes(workspace: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    text = dump_json(BrokerPolicy(workspace=workspace, max_output_bytes=7)).encode()

    def both_ways(size: int) -> list[Options | str]:
        file.write_bytes(text.ljust(size))
        return [_found_or_told(flag) for flag in (["--policy", str(file)], ["--policy-fd", str(os.open(file, os.O_RDONLY))])]

    by_file, by_descriptor = both_ways(MAX_DOCUMENT_BYTES)
    assert isinstance(by_file, Options) and by_file == by_descriptor
    by_file, by_descriptor = both_ways(MAX_DOCUMENT_BYTES + 1)
    words = f"invalid policy: the document is longer than {MAX_DOCUMENT_BYTES} bytes"
    assert (by_file, by_descriptor) == (f"{words}: '{file}'", words)


def test_flags_complete_and_win_over_a_policy_by_a_descriptor(workspace: Path) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b'{"max_output_bytes": 7, "launch": "plain"}')
        file.seek(0)
        found = options(workspace, "--policy-fd", str(os.dup(file.fileno())), "--max-output-bytes", "8")
    assert (found.policy.workspace, found.policy.max_output_bytes, found.policy.launch) == (workspace, 8, "plain")


def test_each_descriptor_that_cannot_be_meant_is_told_by_its_flag(workspace: Path) -> None:
    with tempfile.TemporaryFile() as file:
        given = str(file.fileno())
        with pytest.raises(PolicyError) as caught:
            options(workspace, "--policy-fd=-1", "--admin-fd", "2147483648", "--host-fd", given)
        assert str(caught.value) == (
            "invalid setting: --policy-fd: descriptor -1 is no number that one has; "
            "--admin-fd: descriptor 2147483648 is no number that one has; "
            f"--host-fd: descriptor {given} is not that of a process"
        )
        with pytest.raises(PolicyError, match=f"--policy-fd: descriptor {given} is given twice; --admin-fd: .* is given twice"):
            options(workspace, "--policy-fd", given, "--admin-fd", given)
        os.set_inheritable(file.fileno(), True)
        options(workspace, "--admin-fd", given)
        assert not os.get_inheritable(file.fileno())


@pytest.mark.parametrize("text", ["x", "", "1.0", " 5", "1_0", "+7", "\u0663", "9" * 5000])
@pytest.mark.parametrize("flag", ["--policy-fd", "--admin-fd", "--host-fd", "--max-output-bytes"])
def test_a_number_is_plain_digits(flag: str, text: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        read_options([f"{flag}={text}"], {})
    last = capsys.readouterr().err.splitlines()[-1]
    assert caught.value.code == 2
    assert last.startswith(f"python -m fable_exec.server: error: argument {flag}: must be a whole number: '") and len(last) < 200


def _found_or_told(flags: list[str]) -> Options | str:
    try:
        return read_options(flags, {})
    except PolicyError as error:
        return str(error)


@pytest.mark.parametrize(
    ("flags", "environment", "winner"),
    [
        ([], {}, None),
        ([], {"FABLE_BROKER_WRITE_TOKEN_DIGEST": DIGESTS["old"]}, "old"),
        ([], {"FABLE_BROKER_WRITE_TOKEN_DIGEST": DIGESTS["old"], "FABLE_EXEC_WRITE_TOKEN_DIGEST": DIGESTS["new"]}, "new"),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": f"  {DIGESTS['new'].upper()}\n"}, "new"),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": " "}, None),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": " ", "FABLE_BROKER_WRITE_TOKEN_DIGEST": DIGESTS["old"]}, "old"),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST_FILE": "FILE"}, "file"),
        ([], {"FABLE_BROKER_WRITE_TOKEN_DIGEST_FILE": "FILE"}, "file"),
        (["--write-token-digest", DIGESTS["flag"]], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": DIGESTS["new"]}, "flag"),
        (["--write-token-digest-file", "FILE"], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": DIGESTS["new"]}, "file"),
    ],
)
def test_the_first_level_that_gives_a_digest_wins(
    workspace: Path, tmp_path: Path, flags: list[str], environment: dict[str, str], winner: str | None
) -> None:
    file = tmp_path / "digest"
    file.write_text(f"{DIGESTS['file']}\n")

    def placed(text: str) -> str:
        return text.replace("FILE", str(file)) if text == "FILE" else text

    given = {name: placed(value) for name, value in environment.items()}
    found = options(workspace, *map(placed, flags), **given)
    assert found.policy.write_token_digest == (None if winner is None else DIGESTS[winner])


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        (["--write-token-digest", "abc"], {}),
        (["--write-token-digest", DIGESTS["flag"], "--write-token-digest-file", "/dev/null"], {}),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": DIGESTS["new"], "FABLE_EXEC_WRITE_TOKEN_DIGEST_FILE": "/dev/null"}),
        ([], {"FABLE_BROKER_WRITE_TOKEN_DIGEST": DIGESTS["new"], "FABLE_BROKER_WRITE_TOKEN_DIGEST_FILE": "/dev/null"}),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": "not a digest"}),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST_FILE": "/nowhere/at/all"}),
        (["--max-output-bytes", "0"], {}),
        (["--audit-log", "relative"], {}),
        (["--policy", "/nowhere.toml"], {}),
        (["--policy", "/nowhere.toml", "--policy-fd", "9"], {}),
        (["--policy-fd", "999"], {}),
    ],
)
def test_settings_that_cannot_be_meant_are_faults_of_the_policy(
    workspace: Path, flags: list[str], environment: dict[str, str]
) -> None:
    with pytest.raises(PolicyError):
        options(workspace, *flags, **environment)


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        (["--workspace", "/no/such/place"], {}, "--workspace: must be an existing directory: '/no/such/place'"),
        (["--allow", "git", "--allow", "bin/git"], {}, "--allow: must be a bare name or an absolute path: 'bin/git'"),
        (["--allow-executable", ""], {}, "--allow: must name a file"),
        (["--max-output-bytes", "0"], {}, "--max-output-bytes: must be from 1 "),
        (["--audit-log", "log"], {}, "--audit-log: must be the absolute path of a file: 'log'"),
        (["--audit-log", "/no/such/place/log"], {}, "--audit-log: its directory does not exist; make it"),
        (["--write-token-digest", "abc"], {}, "--write-token-digest: must be the SHA-256"),
        (
            ["--write-token-digest-file", "/gone"],
            {},
            "--write-token-digest-file: cannot be read: No such file or directory: '/gone'",
        ),
        ([], {"FABLE_EXEC_WRITE_TOKEN_DIGEST": "abc"}, "FABLE_EXEC_WRITE_TOKEN_DIGEST: must be the SHA-256"),
        ([], {"FABLE_BROKER_WRITE_TOKEN_DIGEST_FILE": "/gone"}, "FABLE_BROKER_WRITE_TOKEN_DIGEST_FILE: cannot be read: "),
        (["--policy", "/gone.toml"], {}, "no such file: '/gone.toml'"),
    ],
)
def test_a_faulty_setting_is_told_by_the_flag_or_variable_that_gave_it(
    workspace: Path, flags: list[str], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        options(workspace, *flags, **environment)
    assert str(caught.value).startswith(f"invalid policy: {words}")


def test_what_the_policy_file_says_is_told_by_its_place_in_the_file(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps({"audit": {"on_failure": "never"}, "limits": {"max_in_flight": 0}}))
    with pytest.raises(PolicyError) as caught:
        options(workspace, "--policy", str(tmp_path / "policy.json"), "--audit-log", "log")
    assert [place for place, _ in caught.value.faults] == ["limits.max_in_flight", "--audit-log", "audit.on_failure"]


def test_a_workspace_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="--workspace, or a --policy that names one: is required"):
        read_options([], {})


@pytest.mark.parametrize("flags", [["--no-such-flag"], ["--max-output-bytes", "many"], ["--work", "x"], ["extra"]])
def test_a_command_line_that_is_not_of_its_form_is_status_two(flags: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        read_options(flags, {})
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_admins_places_come_from_flags_or_environment(workspace: Path) -> None:
    with tempfile.TemporaryFile() as given:
        flags = ("--admin-fd", str(given.fileno()))
        found = options(workspace, *flags, FABLE_BROKER_ADMIN_FILE="/old", FABLE_EXEC_ADMIN_SOCKET="127.0.0.1:0").admin
        assert (found.descriptor, found.file, found.socket) == (given.fileno(), Path("/old"), "127.0.0.1:0")
    found = options(workspace, "--admin-file", "/flag", FABLE_EXEC_ADMIN_FILE="/new", FABLE_BROKER_ADMIN_FILE="/old").admin
    assert found.file == Path("/flag")
    assert options(workspace, FABLE_EXEC_ADMIN_FILE="/new", FABLE_BROKER_ADMIN_FILE="/old").admin.file == Path("/new")


def test_an_audit_log_by_flag_keeps_the_other_rules_of_the_file(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(json.dumps({"audit": {"on_failure": "continue"}}))
    found = options(workspace, "--policy", str(tmp_path / "policy.json"), "--audit-log", str(tmp_path / "log"))
    assert (found.policy.audit.path, found.policy.audit.on_failure) == (tmp_path / "log", "continue")
