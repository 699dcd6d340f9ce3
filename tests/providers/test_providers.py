"""Provider checks against small command lines, inside the confinement, for real; and that nothing which they print gets out."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path

import attrs
import pytest

from fable_exec.errors import InvalidRequest, PolicyError, ProviderUnavailable
from fable_exec.providers import PRESETS, Classification, Finding, ProviderSpec, check, checking, provider_named
from fable_exec.providers.parsing import claude_auth, claude_readiness, exit_status
from fable_exec.seatbelt import HostBoundary
from fable_exec.testing.processes import alive_with
from tests.seatbelt.sandboxes import OBEDIENT, fake, given

SECRET = "sk-ant-marker-7f3a9c"
IN = json.dumps({"loggedIn": True, "email": SECRET})
READY = '{"is_error": false, "result": "OK."}'


@pytest.fixture
def boundary(tmp_path: Path) -> HostBoundary:
    root = tmp_path.resolve()
    for name in ("projects/ws", "tools/bin"):
        (root / name).mkdir(parents=True)
    system = tuple(dict.fromkeys(Path(each).resolve() for each in ("/usr/bin", "/bin", "/usr/sbin", "/sbin")))
    return HostBoundary(
        workspace_roots=(root / "projects/ws",),
        protected_root=root / "projects",
        runtime_read_paths=(root / "tools",),
        child_path=(root / "tools/bin", *system),
    )


def tool(boundary: HostBoundary, script: str, name: str = "claude", mode: int = 0o755) -> None:
    program = boundary.child_path[0] / name
    program.write_text(script)
    program.chmod(mode)


def says(auth: str, answer: str = READY, *, auth_status: int = 0, answer_status: int = 0) -> str:
    """A claude that answers so."""
    return (
        f"#!/bin/sh\necho {SECRET} >&2\n"
        f"if [ \"$1\" = auth ]; then printf '%s' '{auth}'; exit {auth_status}; fi\nprintf '%s' '{answer}'; exit {answer_status}\n"
    )


linux = pytest.mark.requires_ability("confinement")
TABLE: dict[str, tuple[str, str, bool | None]] = {
    "logged in and answering": (says(IN), "available", True),
    "logged out": (says('{"loggedIn": false}', auth_status=1), "provider_auth_unavailable_in_confinement", None),
    "logged in and failing": (says(IN, auth_status=3), "provider_auth_unavailable_in_confinement", None),
    "no JSON": (says(f"Logged in as {SECRET}"), "provider_auth_status_invalid", None),
    "no JSON and failing": (says("oops", auth_status=1), "provider_auth_status_invalid", None),
    "prints secrets without end": (
        f"#!/bin/sh\nwhile :; do echo {SECRET}; n=$((n+1)); [ $n -gt 20000 ] && exit 0; done\n",
        "provider_auth_status_invalid",
        None,
    ),
    "no program at all": ("not a program", "provider_cli_unavailable", None),
    "an interpreter that is not there": ("#!/no/such/interpreter\n", "provider_cli_unavailable", None),
    "answers wrongly": (says(IN, '{"is_error": false, "result": "Sure! OK"}'), "provider_live_inference_unavailable", False),
    "answers an error": (says(IN, '{"is_error": true, "result": "OK"}'), "provider_live_inference_unavailable", False),
    "answers no JSON": (says(IN, SECRET), "provider_live_inference_unavailable", False),
    "answers and fails": (says(IN, READY, answer_status=1), "provider_live_inference_unavailable", False),
}


@linux
@pytest.mark.parametrize("name", TABLE)
def test_each_answer_has_its_classification_and_not_a_byte_of_it_gets_out(
    boundary: HostBoundary, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    script, classification, inference = TABLE[name]
    tool(boundary, script)
    with caplog.at_level(logging.DEBUG):
        found = check("claude", boundary)
    assert (found.classification.value, found.live_inference_passed) == (classification, inference)
    assert found.available == (classification == "available")
    assert bool(found.action) != found.available
    members = found.to_members()
    assert members["classification"] == classification and ("live_inference_passed" in members) == (inference is not None)
    told = [repr(found), str(members), caplog.text, *capfd.readouterr()]
    assert [text for text in told if SECRET in text] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != boundary.child_path[0]]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert list(boundary.workspace_roots[0].iterdir()) == []


@linux
def test_a_command_that_is_missing_is_no_command_line(boundary: HostBoundary) -> None:
    found = check("claude", boundary)
    assert found.classification is Classification.CLI_UNAVAILABLE
    assert found.action.startswith("Install `claude` in a directory of the boundary's child_path. Run `claude auth login`")
    tool(boundary, says(IN), mode=0o644)
    assert check("claude", boundary).classification is Classification.CLI_UNAVAILABLE


@linux
@pytest.mark.parametrize(
    ("hangs", "classification"), [("auth", "provider_auth_probe_timeout"), ("--print", "provider_readiness_probe_timeout")]
)
def test_what_hangs_is_ended_with_its_tree(
    boundary: HostBoundary, hangs: str, classification: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "AUTH_SECONDS", 2.0)
    monkeypatch.setattr(checking, "READINESS_SECONDS", 2.0)
    marker = f"{40000 + os.getpid() % 10000}.{hangs.count('-') + 25}"
    script = says(IN).replace(
        "\n", f'\nif [ "$1" = {hangs} ]; then (setsid sleep {marker} &) ; trap "" TERM; sleep {marker}; fi\n', 1
    )
    tool(boundary, script)
    found = check("claude", boundary)
    assert (found.classification.value, found.live_inference_passed) == (classification, None if hangs == "auth" else False)

    assert alive_with(marker) == []


@linux
def test_nothing_is_left_of_what_a_command_closed_and_no_link_of_it_is_followed(boundary: HostBoundary, tmp_path: Path) -> None:
    """An ordinary user may neither list nor remove it as it is."""
    deep = "/".join("abc" * 40)
    makes = f"mkdir -p {deep} x/y; echo {SECRET} > x/y/z; ln -s {tmp_path} x/link; chmod 0 x/y {deep} a; chmod 500 x"
    tool(boundary, f"#!/bin/sh\n{makes}\ncd $TMPDIR\n{makes}\n", "own")
    tmp_path.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        assert check(ProviderSpec(name="own", auth_command=("own",)), boundary).classification is Classification.AVAILABLE
    assert [*boundary.workspace_roots[0].iterdir(), *temporary.iterdir()] == []
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@linux
def test_the_commands_run_within_the_boundary_and_its_environment(boundary: HostBoundary, tmp_path: Path) -> None:
    sibling = tmp_path / "projects/ws/sibling"
    sibling.mkdir()
    (sibling / "secret").write_text(SECRET)
    workspace = tmp_path / "projects/ws/mine"
    workspace.mkdir()
    tool(
        boundary,
        f'#!/bin/sh\nenv > environment; pwd > cwd; ls {sibling} && exit 1; [ -w "$TMPDIR" ] && [ -w "$XDG_CACHE_HOME" ]\n',
        "own",
    )
    host = {"HOME": "/home/of/somebody", "LC_ALL": "C", "ANTHROPIC_API_KEY": SECRET, "PATH": "/nowhere"}
    found = check(ProviderSpec(name="own", auth_command=("own",)), boundary, workspace, environment=host)
    assert found.classification is Classification.AVAILABLE
    environment = (workspace / "environment").read_text()
    assert SECRET not in environment and "HOME=/home/of/somebody\n" in environment and "LC_ALL=C\n" in environment
    assert f"PATH={':'.join(map(str, boundary.child_path))}\n" in environment
    assert (workspace / "cwd").read_text() == f"{workspace}\n"


def of_parsers(status: int, output: bytes) -> Finding:
    raise ValueError(output.decode())


@linux
def test_a_parser_that_fails_says_nothing_of_what_it_was_given(boundary: HostBoundary) -> None:
    tool(boundary, f"#!/bin/sh\necho {SECRET}\n", "own")
    spec = ProviderSpec(name="own", auth_command=("own",), auth_parser=of_parsers)
    assert check(spec, boundary).classification is Classification.AUTH_INVALID
    odd = attrs.evolve(spec, auth_parser=lambda status, output: output)  # type: ignore[arg-type, return-value]  # a parser that errs
    found = check(odd, boundary)
    assert found.classification is Classification.AUTH_INVALID and SECRET not in repr(found)


def test_what_is_not_available_can_be_required_and_refuses_with_what_to_do(boundary: HostBoundary) -> None:
    check("aider", None).require()
    with pytest.raises(ProviderUnavailable) as caught:
        check("aider", boundary).require()
    assert (caught.value.provider, caught.value.classification) == ("aider", "provider_auth_probe_unsupported")
    assert caught.value.action == PRESETS["aider"].action and caught.value.action in str(caught.value)


def test_the_order_before_anything_is_run(boundary: HostBoundary) -> None:
    nothing = ProviderSpec(name="x")
    assert check(nothing, None).classification is Classification.SEATBELT_NOT_ENABLED
    assert check(nothing, boundary, platform="darwin", environment={}).classification is Classification.SEATBELT_NOT_ENABLED
    assert check(nothing, boundary, requires_inference=True).classification is Classification.AUTH_UNSUPPORTED
    codex = check("codex", boundary, requires_inference=True)
    assert (codex.classification, codex.available) == (Classification.READINESS_UNSUPPORTED, False)
    assert check("codex", boundary, platform="win32").classification is Classification.CONFINEMENT_UNAVAILABLE
    assert check("aider", boundary).to_members() == {
        "provider": "aider",
        "available": False,
        "classification": "provider_auth_probe_unsupported",
        "action": PRESETS["aider"].action,
    }


@linux
def test_a_host_that_cannot_confine_is_said(boundary: HostBoundary, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(boundary, says(IN))
    monkeypatch.setattr("fable_exec.runner.zygote.LAUNCHER_PROGRAM", Path("/no/such/launcher"))
    found = check("claude", boundary)
    assert found.classification is Classification.CONFINEMENT_UNAVAILABLE and "boundary check --probe" in found.action


def test_a_workspace_outside_of_the_boundary_is_the_callers_mistake(boundary: HostBoundary, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="workspace: "):
        check("claude", boundary, tmp_path)


def test_a_name_that_nobody_has_is_refused_and_own_ones_are_found() -> None:
    with pytest.raises(InvalidRequest, match="known are aider, claude, cline, codex"):
        provider_named("gemini")
    own = ProviderSpec(name="gemini", auth_command=["gemini", "whoami"])
    assert provider_named("gemini", {"gemini": own}) is own
    assert own.auth_command == ("gemini", "whoami")


@pytest.mark.parametrize("command", ["claude auth", (), ("",), ("a", 3), ("a", "b\0"), 3])
def test_a_command_is_a_list_of_strings(command: object) -> None:
    with pytest.raises(PolicyError, match="auth_command: "):
        ProviderSpec(name="x", auth_command=command)  # type: ignore[arg-type]  # what is refused


PROMPT = (PRESETS["claude"].readiness_command or ())[2]
MAC = {"FABLE_EXEC_HOST_SEATBELT": "yes", "HOME": "/home/x"}


@pytest.mark.requires_ability("linux")
def test_on_macos_the_same_commands_run_under_sandbox_exec(boundary: HostBoundary, tmp_path: Path) -> None:
    tool(boundary, says(IN))
    program = fake(tmp_path / "fake", OBEDIENT)
    found = check("claude", boundary, environment=MAC, platform="darwin", sandbox_exec=program)
    assert (found.classification, found.live_inference_passed) == (Classification.AVAILABLE, True)
    told = given(program)
    assert told["arguments"][2:6] == [
        "--",
        str(boundary.child_path[0] / "claude"),
        "--print",
        PROMPT,
    ]
    assert (told["mode"], told["session"]) == (0o600, True)
    assert "HOME" in told["environment"] and "FABLE_EXEC_HOST_SEATBELT" not in told["environment"]
    assert f'(allow file-read* file-write* file-map-executable (subpath "{told["cwd"]}"))' in told["profile"]
    assert not Path(told["arguments"][1]).exists()
    tool(boundary, "#!/bin/sh\nexit 1\n", "codex")
    assert (
        check("codex", boundary, environment=MAC, platform="darwin", sandbox_exec=program).classification
        is Classification.AUTH_UNAVAILABLE
    )
    for missing in ("cline", "codex"):
        where = Path("/no/such") if missing == "codex" else program
        refused = check(missing, boundary, environment=MAC, platform="darwin", sandbox_exec=where)
        wanted = Classification.CONFINEMENT_UNAVAILABLE if missing == "codex" else Classification.CLI_UNAVAILABLE
        assert refused.classification is wanted


def test_armed_without_a_boundary_nothing_is_available() -> None:
    assert check("claude", None, environment=MAC, platform="darwin").classification is Classification.CONFINEMENT_UNAVAILABLE


@pytest.mark.parametrize(
    ("parse", "status", "output", "finding"),
    [
        (exit_status, 0, b"anything", "READY"),
        (exit_status, 1, b"", "NOT_READY"),
        (exit_status, -9, b"", "NOT_READY"),
        (claude_auth, 0, b'{"loggedIn": true}', "READY"),
        (claude_auth, 1, b'{"loggedIn": true}', "NOT_READY"),
        (claude_auth, 0, b'{"loggedIn": false}', "NOT_READY"),
        *[
            (claude_auth, status, output, "INVALID")
            for status in (0, 1)
            for output in (b"", b"{}", b"[]", b"true", b'{"loggedIn": 1}', b'{"loggedIn": "true"}', b"{", b"\xff", b"[" * 100000)
        ],
        (claude_readiness, 0, b'{"is_error": false, "result": "OK"}', "READY"),
        (claude_readiness, 0, b'{"is_error": false, "result": " OK.\\n"}', "READY"),
        (claude_readiness, 1, b'{"is_error": false, "result": "OK"}', "NOT_READY"),
        (claude_readiness, 0, b'{"result": "OK"}', "NOT_READY"),
        (claude_readiness, 0, b'{"is_error": 0, "result": "OK"}', "NOT_READY"),
        (claude_readiness, 0, b'{"is_error": false, "result": "OK.."}', "NOT_READY"),
        (claude_readiness, 0, b'{"is_error": false, "result": "ok"}', "NOT_READY"),
        (claude_readiness, 0, b'{"is_error": false, "result": 3}', "INVALID"),
        (claude_readiness, 0, b"OK", "INVALID"),
    ],
)
def test_what_answers_mean(parse: object, status: int, output: bytes, finding: str) -> None:
    assert parse(status, output) is Finding[finding]  # type: ignore[operator]  # a parser from the table


def test_the_reference_lists_every_classification_and_preset() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/providers.md").read_text()
    assert [each.value for each in Classification if f"| `{each.value}` |" not in page] == []
    assert [name for name in PRESETS if f"| `{name}` |" not in page] == []
    exec(page.partition("```python\n")[2].partition("```")[0], {})
