"""The evaluator against the documented rules of Seatbelt, and against what two public profiles are known to allow."""

from __future__ import annotations

import pytest

from fable_exec.errors import InvalidRequest, PolicyError
from fable_exec.seatbelt import SeatbeltProfile


def profile(*lines: str) -> SeatbeltProfile:
    return SeatbeltProfile.parse("\n".join(("(version 1)", *lines)).encode())


RULES: list[tuple[str, list[str], str, str, str]] = [
    ("nothing said is denied", [], "file-read-data", "/a", "deny"),
    ("the default decides where no rule matches", ["(allow default)"], "file-read-data", "/a", "allow"),
    ("of two defaults the last", ["(allow default)", "(deny default)"], "mach-lookup", "", "deny"),
    ("a default after a rule does not take it back", ["(deny file-read*)", "(allow default)"], "file-read-data", "/a", "deny"),
    (
        "the last rule wins, a denial",
        ["(allow file-read*)", '(deny file-read* (subpath "/a"))'],
        "file-read-data",
        "/a/b",
        "deny",
    ),
    (
        "the last rule wins, a grant",
        ['(deny file-read* (subpath "/a"))', "(allow file-read*)"],
        "file-read-data",
        "/a/b",
        "allow",
    ),
    (
        "a more exact rule before a wider one loses",
        ['(deny file-read-data (literal "/a"))', "(allow file*)"],
        "file-read-data",
        "/a",
        "allow",
    ),
    ("a rule for another operation says nothing", ["(allow file-read*)"], "file-write-data", "/a", "deny"),
    ("a star covers what begins so", ["(allow file*)"], "file-write-create", "/a", "allow"),
    ("without a star an operation is itself", ["(allow process-exec)"], "process-exec-interpreter", "/a", "deny"),
    ("one rule names several operations", ["(allow file-read-data file-read-metadata)"], "file-read-metadata", "/a", "allow"),
    ("a literal is that path", ['(allow file-read* (literal "/a"))'], "file-read-data", "/a", "allow"),
    ("a literal is nothing below it", ['(allow file-read* (literal "/a"))'], "file-read-data", "/a/b", "deny"),
    ("a subpath is the directory itself", ['(allow file-read* (subpath "/a"))'], "file-read-data", "/a", "allow"),
    ("a subpath is all below", ['(allow file-read* (subpath "/a"))'], "file-read-data", "/a/b/c", "allow"),
    ("a subpath is no prefix of names", ['(allow file-read* (subpath "/a"))'], "file-read-data", "/ab", "deny"),
    ("a subpath may end with a slash", ['(allow file-read* (subpath "/a/"))'], "file-read-data", "/a/b", "allow"),
    ("the subpath of the root is everything", ['(allow file-read* (subpath "/"))'], "file-read-data", "/x", "allow"),
    ("filters are alternatives", ['(allow file-read* (literal "/a") (literal "/b"))'], "file-read-data", "/b", "allow"),
    ("require-any", ['(allow file* (require-any (literal "/a") (literal "/b")))'], "file-read-data", "/b", "allow"),
    ("require-all needs each", ['(allow file* (require-all (subpath "/a") (literal "/b")))'], "file-read-data", "/a", "deny"),
    (
        "require-not",
        ['(allow file* (require-all (subpath "/a") (require-not (subpath "/a/b"))))'],
        "file-read-data",
        "/a/b/c",
        "deny",
    ),
    ("names are told by case", ['(allow file* (subpath "/a"))'], "file-read-data", "/A", "deny"),
    ("dots are folded", ['(allow file* (subpath "/a"))'], "file-read-data", "/a/./b//../c", "allow"),
    ("dots lead out", ['(allow file* (subpath "/a"))'], "file-read-data", "/a/../b", "deny"),
    ("no way leads above the root", ['(allow file* (subpath "/a"))'], "file-read-data", "/../../a", "allow"),
    ("a path of a file is no address", ["(allow network-outbound (remote ip))"], "network-outbound", "/a", "deny"),
    ("remote ip is every address", ["(allow network-outbound (remote ip))"], "network-outbound", "udp:10.0.0.1:53", "allow"),
    ("remote ip is no socket with a path", ["(allow network-outbound (remote ip))"], "network-outbound", "unix:/a", "deny"),
    ("a port", ['(deny network* (remote ip "*:80"))', "(allow default)"], "network-outbound", "tcp:h:80", "deny"),
    ("another port", ['(deny network* (remote ip "*:80"))', "(allow default)"], "network-outbound", "tcp:h:8080", "allow"),
    (
        "remote is not where one binds",
        ['(deny network* (remote ip "*:80"))', "(allow default)"],
        "network-bind",
        "tcp:h:80",
        "allow",
    ),
    (
        "local is not where one goes",
        ['(deny network* (local ip "*:80"))', "(allow default)"],
        "network-outbound",
        "tcp:h:80",
        "allow",
    ),
    ("localhost", ['(allow network* (remote ip "localhost:*"))'], "network-outbound", "tcp:127.0.0.1:9", "allow"),
    ("localhost is nobody else", ['(allow network* (remote ip "localhost:*"))'], "network-outbound", "tcp:10.0.0.1:9", "deny"),
    ("tcp is not udp", ["(allow network-outbound (remote tcp))"], "network-outbound", "udp:h:53", "deny"),
    (
        "unix sockets",
        ["(allow network-outbound)", "(deny network-outbound (remote unix-socket))"],
        "network-outbound",
        "unix:/a",
        "deny",
    ),
    (
        "one unix socket",
        ['(allow network-outbound (remote unix-socket (path-literal "/a")))'],
        "network-outbound",
        "unix:/b",
        "deny",
    ),
    ("a socket by its path alone", ['(allow network-outbound (literal "/a"))'], "network-outbound", "unix:/a", "allow"),
    ("signals to oneself", ["(allow signal (target self))"], "signal", "same-sandbox", "deny"),
    ("signals within the sandbox are to oneself too", ["(allow signal (target same-sandbox))"], "signal", "self", "allow"),
    ("signals to others", ["(allow signal (target same-sandbox))"], "signal", "others", "deny"),
    ("a comment says nothing", ["; (allow default)", "(deny default) ; (allow default)"], "signal", "self", "deny"),
    ("a quote in a string ends nothing", [r'(allow file* (literal "/\") (allow default) (\""))'], "file-read-data", "/x", "deny"),
    ("a semicolon in a string begins nothing", ['(allow file* (literal "/;a"))'], "file-read-data", "/;a", "allow"),
    ("an escape", [r'(allow file* (literal "/\u00e9"))'], "file-read-data", "/é", "allow"),
]


@pytest.mark.parametrize(("lines", "operation", "target", "decision"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_the_rules_of_seatbelt(lines: list[str], operation: str, target: str, decision: str) -> None:
    assert profile(*lines).decide(operation, target) == decision


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"(deny default)",
        b"(version 2)",
        b"(version 1",
        b"(version 1))",
        b"(version 1) allow",
        b"(version 1) (allow)",
        b'(version 1) (allow "file-read*")',
        b"(version 1) (allow file-read* /a)",
        b"(version 1) (permit file-read*)",
        b"(version 1) ()",
        b"(version 1) (allow default file-read*)",
        b'(version 1) (allow default (literal "/a"))',
        b'(version 1) (allow file* (literal "/a") file-read*)',
        b"(version 1) (allow file* (literal))",
        b'(version 1) (allow file* (literal "a"))',
        b'(version 1) (allow file* (literal "/a" "/b"))',
        b'(version 1) (allow file* (regex #"^/a"))',
        b'(version 1) (allow file* (regex "^/a"))',
        b'(version 1) (allow file* (subpath (param "HOME")))',
        b"(version 1) (allow file* (require-any))",
        b'(version 1) (allow file* (require-not (literal "/a") (literal "/b")))',
        b"(version 1) (allow signal (target everybody))",
        b'(version 1) (allow network* (remote ip "10.0.0.1:80"))',
        b'(version 1) (allow network* (remote ip "*:70000"))',
        b'(version 1) (allow network* (remote ip "*:' + b"9" * 5000 + b'"))',
        b"(version 1) (allow network* (remote))",
        b'(version 1) (allow file* (literal "/a))',
        b'(version 1) (allow file* (literal "/a\nb"))',
        b'(version 1) (allow file* (literal "/\\x41"))',
        b'(version 1) (import "system.sb")',
        b"(version 1) (define x 1)",
        "(version 1) ; é".encode(),
        b"(version 1) " + b"(" * 40 + b")" * 40,
        b"(version 1) ;" + b"x" * (4 * 1024 * 1024),
    ],
)
def test_what_is_not_understood_is_refused(text: bytes) -> None:
    with pytest.raises(PolicyError, match=r"^invalid Seatbelt profile: line \d+: "):
        SeatbeltProfile.parse(text)


def test_a_profile_that_is_cut_anywhere_is_refused_or_says_less() -> None:
    whole = b'(version 1)\n(deny default)\n(allow file-read* (subpath "/a"))\n(allow network-outbound (remote ip "*:80"))\n'
    for end in range(len(whole)):
        try:
            assert len(SeatbeltProfile.parse(whole[:end]).rules) <= 2
        except PolicyError:
            continue


@pytest.mark.parametrize(
    "target",
    ["a", "tcp:", "tcp:h", "tcp:80", "udp::80", "tcp:h:", "tcp:h:x", "tcp:h:65536", "tcp:h:-1", "unix:a", "unix:", "pid:1", "~"],
)
def test_a_target_that_is_none_is_refused(target: str) -> None:
    with pytest.raises(InvalidRequest):
        profile("(allow default)").decide("file-read-data", target)


def test_the_rule_that_decides_is_named() -> None:
    read = profile("(deny default)", "(allow file-read*)", '(deny file-read* (literal "/a"))')
    assert [
        getattr(read.deciding(*each), "line", None)
        for each in (("file-read-data", "/a"), ("file-read-data", "/b"), ("signal", ""))
    ] == [
        4,
        3,
        None,
    ]


# Two public profiles, as what they are known to allow: written anew from that, not their text.


def codex(workspace: str, temporary: str) -> SeatbeltProfile:
    """openai/codex, workspace-write: reads everything, writes its roots but for `.git` there, no network, signals its own."""
    roots = (
        f'(require-all (subpath "{root}") (require-not (literal "{root}/.git")) (require-not (subpath "{root}/.git")))'
        for root in (workspace, temporary)
    )
    return profile(
        "(deny default)",
        "(allow process-fork process-exec)",
        "(allow signal process-info* (target same-sandbox))",
        "(allow ipc-posix-sem)",
        "(allow file-read*)",
        '(allow file-write-data (path "/dev/null"))',
        f"(allow file-write* {' '.join(roots)})",
    )


def gemini(workspace: str, home: str) -> SeatbeltProfile:
    """google-gemini/gemini-cli, permissive-open: reads everything, writes the project and some of HOME, the whole network, but no
    container daemon, neither its socket nor its programs."""
    return profile(
        "(deny default)",
        "(allow process-fork process-exec)",
        "(allow signal (target self))",
        "(allow file-read*)",
        f'(allow file-write* (subpath "{workspace}") (subpath "{home}/.gemini") (subpath "{home}/.npm") (literal "/dev/null"))',
        '(allow network-inbound network-bind (local ip "*:*"))',
        "(allow network-outbound)",
        '(deny file-read* file-write* (literal "/var/run/docker.sock") (subpath "/private/var/run/docker"))',
        '(deny process-exec (literal "/usr/local/bin/docker") (subpath "/Applications/Docker.app/Contents/MacOS/"))',
    )


@pytest.mark.parametrize(
    ("operation", "target", "decision"),
    [
        ("file-read-data", "/Users/a/.ssh/id_rsa", "allow"),
        ("file-write-data", "/Users/a/w/src/x", "allow"),
        ("file-write-create", "/private/tmp/x", "allow"),
        ("file-write-data", "/Users/a/w/.git/hooks/pre-commit", "deny"),
        ("file-write-unlink", "/Users/a/w/.git", "deny"),
        ("file-write-data", "/Users/a/w/.github/x", "allow"),
        ("file-write-data", "/Users/a/w/sub/.git/config", "allow"),
        ("file-write-data", "/Users/a/other", "deny"),
        ("file-write-data", "/dev/null", "allow"),
        ("file-write-create", "/dev/null", "deny"),
        ("network-outbound", "tcp:1.1.1.1:443", "deny"),
        ("network-bind", "tcp:127.0.0.1:3000", "deny"),
        ("network-outbound", "unix:/var/run/docker.sock", "deny"),
        ("signal", "same-sandbox", "allow"),
        ("signal", "others", "deny"),
        ("process-info-pidinfo", "others", "deny"),
        ("process-exec", "/usr/bin/git", "allow"),
        ("ipc-posix-sem", "", "allow"),
        ("ipc-posix-shm", "", "deny"),
    ],
)
def test_what_the_profile_of_codex_allows(operation: str, target: str, decision: str) -> None:
    assert codex("/Users/a/w", "/private/tmp").decide(operation, target) == decision


@pytest.mark.parametrize(
    ("operation", "target", "decision"),
    [
        ("file-read-data", "/Users/a/.ssh/id_rsa", "allow"),
        ("file-write-data", "/Users/a/w/.git/hooks/x", "allow"),
        ("file-write-data", "/Users/a/.gemini/settings.json", "allow"),
        ("file-write-data", "/Users/a/.geminix", "deny"),
        ("file-write-data", "/Users/a/.zshrc", "deny"),
        ("network-outbound", "tcp:1.1.1.1:443", "allow"),
        ("network-outbound", "unix:/private/var/run/x", "allow"),
        ("network-bind", "tcp:127.0.0.1:9229", "allow"),
        ("network-inbound", "tcp:0.0.0.0:80", "allow"),
        ("file-read-data", "/var/run/docker.sock", "deny"),
        ("file-write-data", "/private/var/run/docker/x", "deny"),
        ("process-exec", "/usr/local/bin/docker", "deny"),
        ("process-exec", "/Applications/Docker.app/Contents/MacOS/com.docker.cli", "deny"),
        ("process-exec", "/usr/local/bin/docker-compose2", "allow"),
        ("signal", "self", "allow"),
        ("signal", "same-sandbox", "deny"),
        ("mach-lookup", "", "deny"),
    ],
)
def test_what_the_profile_of_gemini_allows(operation: str, target: str, decision: str) -> None:
    assert gemini("/Users/a/w", "/Users/a").decide(operation, target) == decision
