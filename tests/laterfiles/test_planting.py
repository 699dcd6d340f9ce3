# ruff: noqa: E501 - tables of scripts, one a line
"""What a command plants is found, wherever and however, and made harmless; with pins and without."""

from __future__ import annotations

import pytest

from fable_exec.laterfiles import Kind
from tests.laterfiles.conftest import Guarded

EVIL_CONFIG = "printf '[core]\\n\\tfsmonitor = evil\\n'"
BARE = "mkdir -p {0}/objects {0}/refs {0}/hooks; echo 'ref: refs/heads/m' > {0}/HEAD"

PLANTS = {
    # the rows of field reports: what peers let pass
    "a hook in a repository made by the command": ("git init -q sub; echo x > sub/.git/hooks/pre-commit", ["sub/.git/hooks/pre-commit"]),
    "a hook without a repository": ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", [".git/hooks/pre-commit"]),
    "config.worktree": (f"git init -q r; {EVIL_CONFIG} > r/.git/config.worktree", ["r/.git/config.worktree"]),
    "a hook of a module": ("mkdir -p .git/modules/m; git init -q --bare .git/modules/m; echo x > .git/modules/m/hooks/update", [".git/modules/m/hooks/update"]),
    "settings in a new repository": ("git init -q r; git -C r config core.fsmonitor evil; git -C r config diff.external evil", ["r/.git/config"]),
    "a filter": ("git init -q r; git -C r config filter.x.clean evil", ["r/.git/config"]),
    "a redirected hooks path": ("git init -q r; git -C r config core.hooksPath ../h; mkdir h; echo x > h/pre-commit", ["r/.git/config"]),
    "an include": ("git init -q r; git -C r config include.path ../x", ["r/.git/config"]),
    "six levels down": ("mkdir -p 1/2/3/4/5/6; git init -q 1/2/3/4/5/6; echo x > 1/2/3/4/5/6/.git/hooks/pre-push", ["1/2/3/4/5/6/.git/hooks/pre-push"]),
    "start-up files": ("echo x > .envrc; echo x > .zshenv; echo x > .bash_login", [".bash_login", ".envrc", ".zshenv"]),
    "editor tasks": ("mkdir .vscode; echo x > .vscode/tasks.json", [".vscode"]),
    "agent configuration": ("mkdir -p a/.claude; echo x > a/.claude/settings.json; echo x > a/.mcp.json", ["a/.claude", "a/.mcp.json"]),
    "other version control": ("mkdir .hg; echo x > .hg/hgrc; mkdir -p .jj/repo; echo x > .jj/repo/config.toml", [".hg/hgrc", ".jj/repo/config.toml"]),
    # how
    "by rename": ("echo x > y; mv y .envrc", [".envrc"]),
    "by hard link": ("echo x > y; ln y .envrc", [".envrc"]),
    "by a symbolic link": ("echo x > y; ln -s y .envrc", [".envrc"]),
    "a link to nowhere": ("ln -s /nowhere .vscode", [".vscode"]),
    "by the rename of a directory": ("mkdir -p x/hooks; echo x > x/hooks/pre-commit; mv x .git", [".git/hooks/pre-commit"]),
    "by the rename of an ancestor": ("mkdir -p x/y; echo x > x/y/.envrc; mv x z", ["z/y/.envrc"]),
    "by an exchange": ("mkdir x; echo x > x/.envrc; mkdir z; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"x\", -100, b\"z\", 2)'", ["z/.envrc"]),
    "made, removed and made again": ("echo x > .envrc; rm .envrc; echo y > .envrc", [".envrc"]),
    "with times set back": ("echo x > .envrc; touch -d 1999-01-01 .envrc; mkdir d; echo x > d/.envrc; touch -d 1999-01-01 d/.envrc d .", [".envrc", "d/.envrc"]),
    "by a background child at the last moment": ("(trap '' HUP TERM; sleep 0.05; echo x > .envrc) & until [ -e .envrc ]; do sleep 0.01; done", [".envrc"]),
    "from an unnamed file": ("python3 -c 'import os; f=os.open(\".\", os.O_TMPFILE|os.O_RDWR); os.link(f\"/proc/self/fd/{f}\", \".envrc\", src_dir_fd=0, follow_symlinks=True)'", [".envrc"]),
    # names
    "another case": ("echo x > .ENVRC; mkdir .GIT; mkdir .Git .Git/Hooks; echo x > .Git/Hooks/pre-commit", [".ENVRC", ".Git/Hooks/pre-commit"]),
    "trailing space and dot": ("echo x > '.envrc '; echo x > .envrc.", [".envrc ", ".envrc."]),
    "a stream": ("echo x > '.envrc::$DATA'; mkdir '.git::$INDEX_ALLOCATION'; mkdir '.git::$INDEX_ALLOCATION/hooks'; echo x > '.git::$INDEX_ALLOCATION/hooks/pre-commit'", [".envrc::$DATA", ".git::$INDEX_ALLOCATION/hooks/pre-commit"]),
    "an ignorable character": ("echo x > $'.env\\u200crc'", [".env\u200crc"]),
    "a folding character": ("mkdir $'.\\u212airo'", [".\u212airo"]),
    # kinds of files
    "FIFO": ("mkfifo .envrc; git init -q r; rm r/.git/config; mkfifo r/.git/config; mkdir w; mkfifo w/.git", [".envrc", "r/.git/config", "w/.git"]),
    "a socket": ("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".profile\")'", [".profile"]),
    "a directory instead of a file": ("mkdir -p .envrc/x; git init -q r; rm r/.git/config; mkdir r/.git/config", [".envrc", "r/.git/config"]),
    "a link instead of the hooks": ("git init -q r; rm -r r/.git/hooks; mkdir h; echo x > h/pre-commit; ln -s ../../h r/.git/hooks", ["r/.git/hooks"]),
    "a link instead of the repository": ("git init -q r; mkdir w; ln -s ../r/.git w/.git", ["w/.git"]),
    "a link instead of the configuration": (f"git init -q r; {EVIL_CONFIG} > c; ln -sf ../../c r/.git/config", ["r/.git/config"]),
    # what a directory turns into
    "a bare repository": (f"{BARE.format('b')}; {EVIL_CONFIG} > b/config; echo x > b/hooks/post-update", ["b/config", "b/hooks/post-update"]),
    "start-up files in a bare repository": (f"{BARE.format('b')}; echo x > b/.envrc; mkdir -p b/objects/p b/x; echo x > b/objects/p/.envrc; echo x > b/x/.mcp.json", ["b/.envrc", "b/objects/p/.envrc", "b/x/.mcp.json"]),
    "a repository in a git directory": ("git init -q r; git init -q r/.git/x; echo x > r/.git/x/.git/hooks/update", ["r/.git/x/.git/hooks/update"]),
    "commondir": ("git init -q r; mkdir -p e/objects e/refs e/hooks; echo x > e/hooks/pre-commit; echo ../../e > r/.git/commondir", ["r/.git/commondir"]),
    "commondir of a work tree": ("mkdir -p e/worktrees/w e/objects e/refs e/hooks; echo x > e/hooks/pre-commit; echo ../.. > e/worktrees/w/commondir; echo ref: refs/heads/m > e/worktrees/w/HEAD; mkdir w; echo 'gitdir: ../e/worktrees/w' > w/.git", ["e/hooks/pre-commit"]),
    # pointers
    "outside": ("mkdir w; echo 'gitdir: /etc' > w/.git", ["w/.git"]),
    "up and out": ("mkdir w; echo 'gitdir: ../../../x' > w/.git", ["w/.git"]),
    "through a link": ("git init -q r; ln -s / l; mkdir w; echo 'gitdir: ../l/../r/.git' > w/.git; mkdir v; echo 'gitdir: ../l/etc' > v/.git", ["v/.git", "w/.git"]),
    "at nothing yet": ("mkdir w; echo 'gitdir: ../later' > w/.git", ["w/.git"]),
    "into the object store": ("git init -q r; git init -q --bare r/.git/objects/ab/e; mkdir w; echo 'gitdir: ../r/.git/objects/ab/e' > w/.git", ["w/.git"]),
    "without its word": ("git init -q r; mkdir w; echo '../r/.git' > w/.git", ["w/.git"]),
    "with a NUL": ("git init -q r; mkdir w; printf 'gitdir: ../r/.git\\0/x' > w/.git", ["w/.git"]),
    "huge": ("mkdir w; (echo 'gitdir: x'; head -c 3000000 /dev/zero) > w/.git", ["w/.git"]),
    "core.worktree": ("git init -q r; git -C r config core.worktree /etc; git init -q s; git -C s config core.worktree ../../x", ["r/.git/config", "s/.git/config"]),
    # configurations
    "a huge configuration": ("git init -q r; (head -c 2000000 /dev/zero | tr '\\0' '\\n'; echo '[core] fsmonitor = evil') >> r/.git/config", ["r/.git/config"]),
    "behind a comment that seems to continue": ("git init -q r; printf '# \\\\\\n[core] pager = evil\\n' >> r/.git/config", ["r/.git/config"]),
    "UTF-16": ("git init -q r; printf '\\xff\\xfe[\\0c\\0' > r/.git/config", ["r/.git/config"]),
    # rights
    "below a closed directory": ("mkdir -p d/e/.git/hooks; echo x > d/e/.git/hooks/update; echo x > d/.envrc; chmod 000 d/e/.git/hooks d/e/.git d/e d", ["d/.envrc", "d/e/.git/hooks/update"]),
    "behind hundreds of closed directories": ("mkdir d{1..200}; echo x > d200/.envrc; chmod 111 d*", ["d200/.envrc"]),
    "in an unchangeable directory": ("git init -q r; echo x > r/.git/hooks/update; chmod 555 r/.git/hooks r/.git r; mkdir d; echo x > d/.envrc; chmod 111 d", ["d/.envrc", "r/.git/hooks/update"]),
    "a directory that cannot be moved": ("mkdir .vscode; echo x > .vscode/tasks.json; chmod 000 .vscode", [".vscode"]),
}  # fmt: skip


@pytest.mark.parametrize(("script", "paths"), PLANTS.values(), ids=PLANTS.keys())
def test_a_plant_is_found_and_made_harmless(guarded: Guarded, script: str, paths: list[str]) -> None:
    found = guarded.planted(script)
    assert [path for path in sorted(found) if path in paths] == sorted(paths), found
    assert "left" not in found.values()
    for path, done in found.items():
        assert guarded.exists(path) is (done == "rewritten")
        if done == "rewritten":
            assert "evil" not in (guarded.path / path).read_text()
    assert guarded.planted("true") == {}, "judged once"


@pytest.mark.parametrize(("script", "paths"), PLANTS.values(), ids=PLANTS.keys())
def test_without_watching_a_plant_is_found_all_the_same(swept: Guarded, script: str, paths: list[str]) -> None:
    swept.sentry._watch.close()
    found = swept.planted(script)
    assert [path for path in sorted(found) if path in paths] == sorted(paths), found


def test_a_plant_below_a_very_deep_directory_is_found(guarded: Guarded) -> None:
    script = 'python3 -c \'import os\nfor _ in range(300): os.mkdir("q"); os.chdir("q")\nopen(".envrc", "w").close()\''
    assert list(guarded.planted(script)) == ["q/" * 300 + ".envrc"]


DEEPEN = """python3 -c '
import os
left = {bytes}
while left > 0:
    name = "r" * min({name}, left - 1)
    os.mkdir(name)
    os.chdir(name)
    left -= len(name) + 1
{plant}
'"""
PLANT_DEEP = {
    "a start-up file": ('open(".envrc", "w").close()', ".envrc"),
    "a hook": ('os.makedirs(".git/hooks"); open(".git/hooks/update", "w").close()', ".git/hooks/update"),
    "settings": ('os.makedirs(".git"); open(".git/config", "w").write("[core]\\n\\tfsmonitor = evil\\n")', ".git/config"),
    "a pointer": ('open(".git", "w").write("gitdir: /etc")', ".git"),
    "a closed directory": ('os.mkdir("d"); open("d/.envrc", "w").close(); os.chmod("d", 0)', "d/.envrc"),
}


@pytest.mark.parametrize(
    "length", [pytest.param(3890, marks=pytest.mark.deep), 3950, pytest.param(4000, marks=pytest.mark.deep), 4084]
)
@pytest.mark.parametrize(("plant", "path"), PLANT_DEEP.values(), ids=PLANT_DEEP.keys())
def test_a_plant_that_is_hardly_to_be_named_is_made_harmless(guarded: Guarded, plant: str, path: str, length: int) -> None:
    _, found = guarded.command(DEEPEN.format(bytes=length, name=200, plant=plant))
    assert [each.done for each in found] == ["rewritten" if path.endswith("config") else "quarantined"], found
    assert "evil" not in guarded.host("find . -type f -name config -execdir cat {} +")
    leaf = path.rpartition("/")[2]
    assert leaf == "config" or not guarded.host(f"find . -name {leaf} ! -type d")
    guarded.host("chmod -R u+rwx .; rm -rf r*")


@pytest.mark.parametrize("name", [200, 2])
def test_what_is_too_deep_to_be_named_is_taken_away_as_a_whole(guarded: Guarded, name: int) -> None:
    _, found = guarded.command(DEEPEN.format(bytes=9_000, name=name, plant='open(".envrc", "w").close()'))
    assert [(each.kind, each.done) for each in found] == [(Kind.NOT_JUDGED, "quarantined")]
    assert not guarded.host("find . -name .envrc")
    assert guarded.planted("true") == {}
    guarded.host("rm -rf r* ../quarantine")


def test_what_the_host_has_too_deep_stays_where_it_is(guarded: Guarded) -> None:
    guarded.host(DEEPEN.format(bytes=9_000, name=200, plant='open(".envrc", "w").close()'))
    assert [each.kind for each in guarded.sentry.warnings] == [Kind.NOT_JUDGED]
    guarded.planted("true")
    guarded.host(DEEPEN.format(bytes=9_000, name=150, plant=""))
    guarded.sentry._watch.close()
    assert set(guarded.planted("true").values()) == {"left"}
    assert guarded.host("find . -name .envrc")
    guarded.host("rm -rf r*")


def test_a_directory_of_many_entries_is_no_hiding_place(swept: Guarded) -> None:
    assert swept.planted('python3 -c \'for i in range(20000): open(f"f{i}", "w").close()\'; echo x > .envrc') == {
        ".envrc": "quarantined"
    }


@pytest.mark.deep
def test_an_overflow_of_events_loses_nothing(guarded: Guarded) -> None:
    script = 'mkdir d; echo x > d/.envrc; python3 -c \'for i in range(60000): open(f"f{i % 100}", "w").close()\'; echo x > .zshrc'
    assert set(guarded.planted(script)) == {".zshrc", "d/.envrc"}


# Over several commands

STEPS = {
    "a repository completed piece by piece": (
        ["mkdir -p b/hooks b/objects; echo x > b/hooks/update", f"{EVIL_CONFIG} > b/config; echo ref: refs/heads/m > b/HEAD", "mkdir b/refs"],
        {"b/hooks/update", "b/config"},
    ),
    "a directory that becomes the hooks": (
        ["git init -q r; rm -r r/.git/hooks", "mkdir h; echo x > h/update", "mv h r/.git/hooks"],
        {"r/.git/hooks/update"},
    ),
    "hooks of a bare repository made later": (
        ["git init -q --bare b; rm -r b/hooks", "mkdir b/hooks; echo x > b/hooks/update"],
        {"b/hooks/update"},
    ),
    "a closed directory that is opened later": (["mkdir d; echo x > d/y; chmod 000 d", "chmod 755 d; mv d/y d/.envrc"], {"d/.envrc"}),
    "a sample that becomes a hook": (["git init -q --bare b", "mv b/hooks/update.sample b/hooks/update || mv b/hooks x; mv x/update.sample x/update; mv x b/hooks"], {"b/hooks/update"}),
    "a link that is moved into place": (["ln -s y z", "mv z .envrc"], {".envrc"}),
}  # fmt: skip


@pytest.mark.parametrize(("scripts", "paths"), STEPS.values(), ids=STEPS.keys())
def test_what_is_planted_in_several_commands_is_found(swept: Guarded, scripts: list[str], paths: set[str]) -> None:
    found = [path for script in scripts for path in swept.planted(script)]
    assert paths <= set(found)


def test_another_name_of_a_harmless_configuration_is_cut_off(guarded: Guarded) -> None:
    assert guarded.planted("git init -q r; ln r/.git/config alias") == {}
    assert guarded.planted(f"{EVIL_CONFIG} >> alias") == {}
    assert "evil" not in (guarded.path / "r/.git/config").read_text()
