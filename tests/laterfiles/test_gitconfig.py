"""The reader of git configurations, beside git itself: whatever git sees as a setting, it sees too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from fable_exec.laterfiles import gitsafety
from fable_exec.laterfiles.gitconfig import Config, is_plain, last_value, parse, written
from fable_exec.laterfiles.gitsafety import judge_config
from tests.fuzzing import A_TENTH

pytestmark = pytest.mark.requires_ability("git")


def seen_by_git(directory: Path, data: bytes) -> list[tuple[str, str | None]] | None:
    """What git lists, without any configuration but this file and far from any repository; None when git refuses the file."""
    file = directory / "config-under-test"
    file.write_bytes(data)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    environment["GIT_CEILING_DIRECTORIES"] = str(directory.parent)
    answer = subprocess.run(
        ["git", "config", "--no-includes", "--file", str(file), "--list", "-z"],
        cwd=directory,
        env=environment,
        capture_output=True,
    )
    if answer.returncode != 0:
        return None
    found: list[tuple[str, str | None]] = []
    for line in answer.stdout.split(b"\0")[:-1]:
        name, newline, value = line.decode("utf-8", "surrogateescape").partition("\n")
        found.append((name, value if newline else None))
    return found


def seen_by_us(config: Config) -> list[tuple[str, str | None]]:
    return [(each.name, each.value) for each in config.settings]


def agree(directory: Path, data: bytes) -> None:
    expected = seen_by_git(directory, data)
    config = parse(data.decode("utf-8", "surrogateescape"))
    if expected is None:
        assert config.fault
    else:
        assert (seen_by_us(config), config.fault) == (expected, "")


TRICKS = {
    "a comment does not continue": b"# x \\\n[core] pager = evil\n",
    "nor does one after a value": b"[a] b = c # x \\\n[core] pager = evil\n",
    "nor after a semicolon": b"[a]\n b = c ; \\\n pager = evil\n",
    "several things on one line": b"[core][include]path=x\n",
    "a section and its key on one line": b"[core] fsmonitor = evil",
    "quotes that only look like a comment": b'[a]\n b = "#" pager = evil\n',
    "a comment in quotes that continue": b'[a]\n b = "x \\\n# y"\n [core] pager = z',
    "byte order mark": b"\xef\xbb\xbf[core]\n pager = evil\n",
    "half a byte order mark": b"\xef\xbb[core]\n pager = evil\n",
    "carriage returns": b"[core]\r\n\tpager = evil\\\r\n more\r\n",
    "a lone carriage return is a space": b"[core]\r pager = evil\rmore\r",
    "a form feed ends no line": b"[a]\n b = \x0c\n",
    "a line separator ends no line": "[a]\n b = x\u2028[core]\u2028pager=evil\n".encode(),
    "vertical tab before a key": b"[core]\n\x0bpager = evil\n",
    "upper case": b'[CORE]\n PAGER = evil\n[Remote "Origin"]\n URL = X\n',
    "the dotted form of a subsection": b"[remote.Origin]\n url = x\n",
    "dotted and quoted": b'[a.b "C"]\n d = e\n',
    "an empty subsection": b'[core ""]\n pager = evil\n[core.]\n pager = evil\n',
    "escapes in a subsection": b'[a "b\\c\\"d\\\\e]"]\n f = g\n',
    "no space before a subsection": b'[a"b"]\n c = d\n',
    "space around a section": b"[ a ]\n b = c\n",
    "space after a subsection": b'[a "b" ]\n c = d\n',
    "a key before any section": b"pager = evil\n[core]\n",
    "an empty section": b"[]\n pager = evil\n",
    "a key alone": b"[core]\n bare\n pager\n",
    "a key at the very end": b"[core]\npager",
    "an equals sign and nothing": b"[core]\npager =",
    "a key with an underscore": b"[core]\n pag_er = x\n",
    "a key that begins with a digit": b"[core]\n 1a = x\n",
    "space in the middle of a value": b"[a]\n b =  x  \t y  \n",
    "all escapes": b'[a]\n b = \\t\\n\\b\\"\\\\x\n',
    "an unknown escape": b"[a]\n b = \\x41\n",
    "an open quote": b'[a]\n b = "x\n c = y\n',
    "quotes in the middle": b'[a]\n b = x" y  "z  \n',
    "a backslash at the end": b"[a]\n b = x\\",
    "bytes that are no UTF-8": b"[a]\n b = \xff\xfe\n",
    "UTF-16": "[core]\n pager = evil\n".encode("utf-16"),
    "nothing": b"",
    "an include": b'[include]\n path = x\n[includeIf "gitdir:**"]\n path = y\n',
}


@pytest.mark.parametrize("data", TRICKS.values(), ids=TRICKS.keys())
def test_a_trick_is_read_as_git_reads_it(tmp_path: Path, data: bytes) -> None:
    agree(tmp_path, data)


_PIECES = strategies.sampled_from(
    ["[", "]", '"', "\\", "#", ";", "=", "\n", "\r\n", "\r", " ", "\t", ".", "-", "a", "B", "1", "core", "pager", "[core]",
     '[a "b"]', "x=y\n", "\\\n", "\ufeff", "\u2028", "\x0c", "\x0b", "\x85", "é", "[include]path=z\n"]
)  # fmt: skip


@pytest.mark.fuzz
@hypothesis.settings(A_TENTH, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(pieces=strategies.lists(_PIECES, max_size=24))
def test_any_text_is_read_as_git_reads_it(tmp_path: Path, pieces: list[str]) -> None:
    agree(tmp_path, "".join(pieces).encode("utf-8", "surrogateescape"))


@pytest.mark.fuzz
@hypothesis.settings(A_TENTH, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(pieces=strategies.lists(_PIECES, max_size=24))
def test_what_is_left_of_any_text_is_plain_and_safe(tmp_path: Path, pieces: list[str]) -> None:
    verdict = judge_config("".join(pieces), lambda value: False)
    mended = verdict.mended()
    assert is_plain(mended)
    assert not judge_config(mended, lambda value: False).fault
    agree(tmp_path, mended.encode())


@hypothesis.given(strategies.lists(strategies.tuples(strategies.text(max_size=8), strategies.text(max_size=12)), max_size=4))
def test_settings_that_are_written_are_read_back(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f'[a "{name}"]\nb = "{value}"\n' for name, value in pairs)
    config = parse(text)
    assert parse(written(config.settings)).settings == config.settings or "\r" in text or "\0" in text


def test_git_itself_writes_plainly(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    for name, value in (("user.name", 'a "b" \\ #;'), ("remote.x y.url", "/a b"), ("branch.m.description", "one\ntwo\t ")):
        subprocess.run(["git", "config", "--file", str(tmp_path / "c"), name, value], check=True, env=environment)
    assert is_plain((tmp_path / "c").read_text())


def test_the_last_hooks_path_counts() -> None:
    config = parse("[core]\nhookspath=a\n[x]\n[CORE] HooksPath = b")
    assert last_value(config, "core", "hookspath") == "b"
    assert last_value(config, "core", "pager") is None


SAFE = """
[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
	ignorecase = true
	precomposeunicode = true
	symlinks = false
[remote "origin"]
	url = https://example.com/a.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[remote "local"]
	url = ../other.git
[remote "ssh"]
	url = git@example.com:team/project.git
[branch "main"]
	remote = origin
	merge = refs/heads/main
	rebase = true
[user]
	name = Ünal "the" One
	email = u@example.com
[extensions]
	worktreeConfig = true
	objectFormat = sha256
[submodule]
	active = .
[submodule "sub"]
	url = /srv/sub.git
	active = true
"""


def test_what_git_init_clone_and_submodule_write_stays() -> None:
    assert judge_config(SAFE, lambda value: False).fault == ""


UNSAFE = """
core.fsmonitor=x core.pager=x core.editor=x core.sshCommand=x core.hooksPath=x core.askPass=x core.gitProxy=x core.worktree=/
core.attributesFile=x core.excludesFile=x core.alternateRefsCommand=x core.notesRef=x core.preloadIndex=x
include.path=x includeIf.gitdir:/.path=x alias.st=!x diff.external=x diff.a.command=x diff.a.textconv=x
filter.a.clean=x filter.a.smudge=x filter.a.process=x merge.a.driver=x mergetool.a.cmd=x difftool.a.cmd=x
gpg.program=x gpg.ssh.program=x gpg.ssh.defaultKeyCommand=x user.signingKey=x commit.gpgSign=true commit.template=x
credential.helper=x credential.https://a.helper=x http.proxy=x http.sslVerify=false http.cookieFile=x
url.x.insteadOf=y url.x.pushInsteadOf=y remote.a.vcs=x remote.a.uploadpack=x remote.a.receivepack=x remote.a.proxy=x
remote.a.url=ext::x remote.a.url=-x remote.a.url=ssh://-x remote.a.url=x::y remote.a.pushurl=ext::x remote.a.promisor=true
extensions.partialClone=a extensions.refStorage=reftable://x extensions.foo=x branch.a.remote=ext::x branch.a.remote=-x
branch.a.mergeOptions=x submodule.a.update=!x submodule.a.url=ext::x sequence.editor=x rebase.instructionFormat=x
uploadpack.packObjectsHook=x receive.procReceiveRefs=x sendemail.smtpServer=x pager.log=x interactive.diffFilter=x
protocol.ext.allow=always safe.directory=* trailer.a.command=x trailer.a.cmd=x web.browser=x browser.a.cmd=x man.a.cmd=x
instaweb.httpd=x svn-remote.a.url=x gui.x=y guitool.a.cmd=x lfs.url=x lfs.customtransfer.a.path=x maintenance.auto=x
init.templateDir=x notes.rewriteRef=x submodule.fetchJobs=x core.bare=maybe remote.a.fetch=--upload-pack=x
""".split()


@pytest.mark.parametrize("setting", UNSAFE)
def test_a_setting_that_can_run_something_or_lead_elsewhere_goes(setting: str) -> None:
    name, _, value = setting.partition("=")
    section, _, rest = name.partition(".")
    subsection, _, key = rest.rpartition(".")
    header = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
    verdict = judge_config(f"[core]\n\tbare = false\n{header}\n\t{key} = {value}\n", lambda value: False)
    assert verdict.fault
    assert [each.name for each in parse(verdict.mended()).settings] == ["core.bare"]


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n bare = false \\\n\n",
        "[core] bare = false\n",
        "\ufeff[core]\n bare = false\n",
        "[core]\n bare = \x0c\n",
        "[user]\n name = a\0b\n",
    ],
)
def test_a_safe_file_written_oddly_is_written_anew(text: str) -> None:
    assert judge_config(text, lambda value: False).fault


def test_the_manual_lists_every_setting_that_stays_and_no_other() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/later-files.md").read_text()
    table = page.partition("| section | settings | values |\n|---|---|---|\n")[2].partition("\n\n")[0]
    listed: set[tuple[str, str]] = set()
    for row in table.splitlines():
        sections, settings, _ = row.strip("| ").split(" | ", 2)
        groups = settings.split("; ") if "; " in settings else [settings] * len(sections.split(", "))
        for section, group in zip(sections.split(", "), groups, strict=True):
            listed |= {(section, key) for key in group.split(", ")}
    named = {(f"{section}.*", key) for section, key in gitsafety._NAMED_SETTINGS}
    assert listed == {*gitsafety._PLAIN_SETTINGS, *named, ("core", "worktree")}
