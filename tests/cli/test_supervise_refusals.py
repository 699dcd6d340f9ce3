"""What `fable-exec supervise` refuses before anything is done, by the word that was typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.supervising import NOBODY, status_here, supervise

pytestmark = pytest.mark.requires_ability("confinement")


Wrongly = Callable[..., str]


@pytest.fixture
def typed_wrongly(root: Path, capfd: pytest.CaptureFixture[str]) -> Wrongly:
    """The last line of what wrong usage gets; nothing was made."""

    def run(verb: str, *arguments: str) -> str:
        status = status_here(verb, root, *arguments)
        captured = capfd.readouterr()
        assert (status, captured.out) == (2, ""), captured.err
        assert not root.exists()
        return captured.err.splitlines()[-1].removeprefix("fable-exec: ").removeprefix("Error: ")

    return run


@pytest.mark.parametrize("flag", ["--hard-timeout", "--idle-timeout", "--stop-grace", "--restart-delay"])
def test_a_number_that_no_time_can_have_is_refused_by_its_flag(flag: str, typed_wrongly: Wrongly, workspace: Path) -> None:
    for number in ("-1", "nan", "inf", "-inf", "1e300"):
        words = typed_wrongly("start", "--workspace", str(workspace), flag, number, "--", "true")
        assert words.startswith(f"{flag} must be a number of seconds, ")


REFUSED = {
    "--workspace must be an existing directory: '/no/such/place'": ["--workspace", "/no/such/place", "--", "true"],
    "--restarts must be a whole number up to 100, not 101": ["--restarts", "101", "--workspace", ".", "--", "true"],
    "Missing option '--workspace'.": ["--", "true"],
    "Missing argument 'ARGV...'.": ["--workspace", "."],
    "--proof-... and --attest-key: proof is for the verdict 'proof'": [
        "--proof-require", "tree", "--workspace", ".", "--", "true",
    ],
    "Invalid value for '--proof-jwks': /no/such/file: No such file or directory": [
        "--verdict", "proof", "--proof-jwks", "/no/such/file", "--workspace", ".", "--", "true",
    ],
    "Invalid value for '--attest-key': /no/such/key: No such file or directory": [
        "--verdict", "proof", "--attest-key", "/no/such/key", "--workspace", ".", "--", "true",
    ],
    "Invalid value for '--id': execution id 'seven' must be a valid UUID": ["--id", "seven", "--workspace", ".", "--", "true"],
    "Invalid value for '--label': \"plain\" is not NAME=VALUE": ["--label", "plain", "--workspace", ".", "--", "true"],
    "--env has a variable that cannot be set: '1 X'": ["--env", "1 X=3", "--workspace", ".", "--", "true"],
    "--spec cannot be read: '/no/such/file': No such file or directory": [
        "--spec", "/no/such/file", "--workspace", ".", "--", "true",
    ],
    "--spec must be a regular file, or /dev/stdin: '/dev/zero'": ["--spec", "/dev/zero", "--workspace", ".", "--", "true"],
    "no such file: '/no/such/file.toml'": [
        "--policy", "/no/such/file.toml", "--workspace", ".", "--", "true",
    ],
    "the program to run: must be a bare name or an absolute path: 'bin/true'": ["--workspace", ".", "--", "bin/true"],
}  # fmt: skip


@pytest.mark.parametrize(("words", "arguments"), REFUSED.items(), ids=REFUSED)
def test_wrong_usage_of_start_is_told_by_the_flag_and_starts_nothing(
    words: str, arguments: list[str], typed_wrongly: Wrongly
) -> None:
    assert typed_wrongly("start", *arguments) == words


def test_a_program_that_cannot_be_named_is_told_as_it_was_typed_in_the_foreground_too(typed_wrongly: Wrongly) -> None:
    words = typed_wrongly("start", "--foreground", "--workspace", ".", "--", "bin/true")
    assert words == "the program to run: must be a bare name or an absolute path: 'bin/true'"


def test_a_key_that_nobody_could_sign_with_is_refused_before_anything_is_started(typed_wrongly: Wrongly, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("no key\n")
    arguments = ("start", "--verdict", "proof", "--attest-key", str(key), "--workspace", ".", "--", "true")
    key.chmod(0o644)
    assert "others may open it; its mode must be 0600" in typed_wrongly(*arguments)
    key.chmod(0o600)
    assert "neither an Ed25519 nor a P-256 private key" in typed_wrongly(*arguments)


def test_a_key_that_is_too_long_is_refused_and_not_cut(root: Path, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "key.asc").write_bytes(b"a" * (1 << 20) + b"\n")
    key = ("--verdict", "proof", "--proof-gpg-key", str(tmp_path / "key.asc"))
    refused = supervise("start", root, *key, "--workspace", str(workspace), "--", "true")
    assert (refused.returncode, b"proof keys may be 16, of 1048576 characters each" in refused.stderr) == (2, True), (
        refused.stderr
    )
    assert not root.exists()


@pytest.mark.parametrize("verb", ["show", "stop", "wait", "logs"])
def test_an_id_that_is_none_is_wrong_usage_and_an_unknown_one_exits_4(verb: str, root: Path, typed_wrongly: Wrongly) -> None:
    assert typed_wrongly(verb, "seven") == "Invalid value for 'ID': execution id 'seven' must be a valid UUID"
    unknown = supervise(verb, root, NOBODY)
    assert (unknown.returncode, unknown.stdout) == (4, b"")
    assert NOBODY in unknown.stderr.decode() and unknown.stderr.count(b"\n") == 1
    assert not root.exists()
