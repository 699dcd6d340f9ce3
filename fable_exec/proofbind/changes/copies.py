"""A git repository of ours with copies of what is to be compared, and git, which sees nothing else.

Its configuration is written here, its working tree holds copies, and git is started with an environment that names both and
nothing of the caller's. So whatever a workspace says about programs to be run (filters, hooks, monitors, external diffs, text
conversion) is never read by a git.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence

from fable_exec.errors import InternalError
from fable_exec.proofbind.changes.bases import Blob, is_below
from fable_exec.proofbind.changes.contents import LINK_MODE
from fable_exec.proofbind.changes.forms import object_head, object_id
from fable_exec.proofbind.changes.values import CannotTell, Deadline
from fable_exec.proofbind.programs import SYSTEM_PATH

__all__ = ["Copies", "git_copies"]

_MAX_BYTES = 512 << 20
_FILE_BYTES = 4096
"""What a file takes at least."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CONFIGURATION = """[core]
	repositoryformatversion = {version}
	bare = false
	fileMode = true
	symlinks = true
	autocrlf = false
	safecrlf = false
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	fsmonitor = false
	untrackedCache = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	excludesFile = /dev/null
	pager = cat
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol]
	allow = never
"""
_SHA256_CONFIGURATION = "[extensions]\n\tobjectFormat = sha256\n"
_DIFF = ("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color")
_LAST = "\U0010ffff" * 60
"""A name that sorts behind all others."""
_IGNORES = ("check-ignore", "--stdin", "-z", "--verbose", "--non-matching", "--no-index")
_ATTRIBUTES = ("check-attr", "--stdin", "-z")


class Copies:
    """The repository. Made by `git_copies`, which removes it again."""

    def __init__(self, directory: str, hash_kind: str, deadline: Deadline, git: str | None) -> None:
        self._git_directory = os.path.join(directory, "git")
        self._tree = os.path.join(directory, "tree")
        self._home = os.path.join(directory, "home")
        self._hash_kind = hash_kind
        self._deadline = deadline
        self._git = git
        self._index: dict[str, Blob] = {}
        self._links: dict[str, bytes] = {}
        self._room = _MAX_BYTES

    def put(self, path: str, mode: int, data: bytes) -> None:
        """Put a file, or a link with the text `data`, into the working tree.

        Links come last of all, so that nothing is ever put through one.
        """
        if mode == LINK_MODE:
            self._links[path] = data
            return
        target = self._place(path)
        with _fitting(path):
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            self._write(target, data, 0o700 if mode & 0o100 else 0o600)

    def put_directory(self, path: str) -> None:
        """Put an empty directory into the working tree, so that rules for directories fit its path."""
        with _fitting(path):
            os.makedirs(self._place(path), mode=0o700, exist_ok=True)

    def _write(self, path: str, data: bytes, mode: int) -> None:
        """What a workspace holds, however little room it takes there, may not fill the place of temporary files."""
        self._room -= len(data) + _FILE_BYTES
        if self._room < 0:
            raise CannotTell("too-large", f"more would have to be copied for git than {_MAX_BYTES} bytes")
        _write(path, data, mode)

    def _place(self, path: str) -> str:
        if not is_below(path):
            raise InternalError(f"{path!a:.400} would lie beside the copies")
        return os.path.join(self._tree, path)

    def put_base(self, path: str, blob: Blob, data: bytes) -> None:
        """Let the index hold `path` with the content `data`, which is what git compares the working tree with."""
        self._index[path] = blob
        stored = os.path.join(self._git_directory, "objects", blob.oid[:2], blob.oid[2:])
        if not os.path.exists(stored):
            os.makedirs(os.path.dirname(stored), mode=0o700, exist_ok=True)
            self._write(stored, zlib.compress(object_head("blob", len(data)) + data, 1), 0o600)

    def put_rules(self, name: str, data: bytes) -> None:
        """Put a file into the directory `info`: `exclude` or `attributes`."""
        self._write(os.path.join(self._git_directory, "info", name), data, 0o600)

    def differences(self) -> Iterator[tuple[str, int | None, int | None]]:
        """For each path that differs from the index its lines added and deleted, None for both where git calls it binary.

        Raises:
            CannotTell: `no-git`, `git-failed`, `deadline`.
        """
        self._complete()
        lines = self._ask(_DIFF, b"").split(b"\0")[:-1]
        # The exit status may be nobody's: a host that ignores SIGCHLD never learns it.
        if not lines or not lines[-1].endswith(_raw(_LAST)):
            raise CannotTell("git-failed", "git diff did not tell of everything")
        for line in lines[:-1]:
            added, deleted, path = line.split(b"\t", 2)
            yield _text(path), _number(added), _number(deleted)

    def _complete(self) -> None:
        """Put what was left for the end: the links, a file that is sure to be told of last, and the index."""
        for path, text in self._links.items():
            place = self._place(path)
            with _fitting(path):
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                os.symlink(text, place)
        self.put_base(_LAST, Blob(0o100644, object_id("blob", b"", self._hash_kind)), b"")
        self.put(_LAST, 0o100644, b"told\n")
        _write(os.path.join(self._git_directory, "index"), _index_bytes(self._index, self._hash_kind), 0o600)

    def ignored(self, paths: Sequence[str]) -> set[str]:
        """Those of `paths` that the rules that were put here ignore.

        Raises:
            CannotTell: as `differences`.
        """
        # A colon at the beginning of a path would mean something.
        asked = [b"./" + _raw(path) for path in paths]
        answer = self._answers(_IGNORES, asked, 4)
        quadruples = zip(answer[0::4], answer[2::4], answer[3::4], strict=True)
        return {_text(path[2:]) for source, rule, path in quadruples if source and not rule.startswith(b"!")}

    def attributes(self, names: tuple[str, ...], paths: Sequence[str]) -> dict[str, dict[str, str]]:
        """For each path what the rules say of the attributes `names`: `set`, `unset`, `unspecified` or a value.

        Raises:
            CannotTell: as `differences`.
        """
        answer = self._answers((*_ATTRIBUTES, *names), list(map(_raw, paths)), 3 * len(names))
        found: dict[str, dict[str, str]] = {}
        for path, name, value in zip(answer[0::3], answer[1::3], answer[2::3], strict=True):
            found.setdefault(_text(path), {})[_text(name)] = _text(value)
        return found

    def _answers(self, arguments: tuple[str, ...], asked: Sequence[bytes], each: int) -> list[bytes]:
        """The words that git answers with, `each` for every one of `asked`."""
        words = self._ask(arguments, b"".join(path + b"\0" for path in asked)).split(b"\0")[:-1]
        if len(words) != each * len(asked):
            raise CannotTell("git-failed", f"git {arguments[0]} did not answer everything")
        return words

    def _ask(self, arguments: tuple[str, ...], given: bytes) -> bytes:
        git = self._git or shutil.which("git", path=SYSTEM_PATH)
        if git is None:
            raise CannotTell("no-git", f"changed files can be counted by git alone, and there is none in {SYSTEM_PATH}")
        try:
            answer = subprocess.run(
                [git, "--no-pager", *arguments], input=given, capture_output=True, env=self._environment(), cwd=self._tree,
                timeout=self._deadline.left(),
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CannotTell("deadline", f"git {arguments[0]} did not end in time") from error
        except OSError as error:
            raise CannotTell("no-git", f"{git} cannot be started: {error}") from error
        if answer.returncode not in (0, 1):
            told = answer.stderr.decode("utf-8", "replace").strip()
            raise CannotTell("git-failed", f"git {arguments[0]} ended with {answer.returncode}: {told}")
        return answer.stdout

    def _environment(self) -> Mapping[str, str]:
        return {
            "GIT_DIR": self._git_directory, "GIT_WORK_TREE": self._tree, "HOME": self._home, "XDG_CONFIG_HOME": self._home,
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "PATH": SYSTEM_PATH,
        }  # fmt: skip


@contextlib.contextmanager
def git_copies(hash_kind: str, deadline: Deadline, scratch: str | None = None, git: str | None = None) -> Iterator[Copies]:
    """An empty repository in a new directory that only this user may enter; at the end it is removed.

    Args:
        hash_kind: `sha1` or `sha256`.
        scratch: where the directory is made; None: where temporary files of this user go.
        git: the program; None: the one of the system.

    Raises:
        CannotTell: `no-room`: it could not be made.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="fable-exec-diff-", dir=scratch, ignore_cleanup_errors=True) as directory:
            for name in ("git/objects", "git/refs", "git/info", "tree", "home"):
                os.makedirs(os.path.join(directory, name), mode=0o700)
            _write(os.path.join(directory, "git/HEAD"), b"ref: refs/heads/none\n", 0o600)
            sha256 = hash_kind == "sha256"
            configuration = _CONFIGURATION.format(version=int(sha256)) + (_SHA256_CONFIGURATION if sha256 else "")
            _write(os.path.join(directory, "git/config"), configuration.encode(), 0o600)
            yield Copies(directory, hash_kind, deadline, git)
    except OSError as error:
        raise CannotTell("no-room", f"no copies could be made for git: {error}") from error


def _write(path: str, data: bytes, mode: int) -> None:
    with open(os.open(path, _NEW, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask
        file.write(data)


@contextlib.contextmanager
def _fitting(path: str) -> Iterator[None]:
    """Copies lie where their originals were listed; if two cannot, the tree was changed in between."""
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise CannotTell("unstable", f"{path!r} was changed while it was read") from error


def _number(told: bytes) -> int | None:
    return None if told == b"-" else int(told)


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _index_bytes(blobs: Mapping[str, Blob], hash_kind: str) -> bytes:
    """An index of version 2 without time stamps, so that git looks at the content of every file. Source: gitformat-index(5)."""
    by_name = sorted((_raw(path), blob) for path, blob in blobs.items())
    parts = [b"DIRC", struct.pack(">II", 2, len(by_name))]
    for name, blob in by_name:
        entry = struct.pack(">24xI12x", blob.mode) + bytes.fromhex(blob.oid) + struct.pack(">H", min(len(name), 0xFFF)) + name
        parts += [entry, b"\0" * (8 - len(entry) % 8)]
    data = b"".join(parts)
    return data + hashlib.new(hash_kind, data, usedforsecurity=False).digest()
