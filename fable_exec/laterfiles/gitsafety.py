"""Which git settings can run nothing, name no program and lead nowhere else: the only ones that stay in a planted configuration.

Pure. A list of what is allowed, since git has hundreds of settings that run something and gets new ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fable_exec.laterfiles.gitconfig import Config, Setting, is_plain, parse, written

__all__ = ["Verdict", "judge_config"]

Worktree = Callable[[str], bool]
"""Whether a value of core.worktree is the working tree that belongs to this very repository."""

_SWITCH = re.compile(r"true|false|yes|no|on|off|[01]|", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]*")
_OFF = re.compile(r"false|no|off|0", re.IGNORECASE)
_ANYTHING = re.compile(r"[^\x00-\x1f\x7f]*")
_REMOTE_NAME = re.compile(r"\.|[A-Za-z0-9_][A-Za-z0-9_./-]*")
_FETCH = re.compile(r"[+^]?[A-Za-z0-9_][A-Za-z0-9_./*@+-]*(?::[A-Za-z0-9_][A-Za-z0-9_./*@+-]*)?")
_URL = re.compile(
    r"(?:https?|git|ssh|file)://(?!-)[^\s'\"`$;&|<>\x00-\x1f\x7f]+"
    r"|(?:\.{0,2}/)[^\x00-\x1f\x7f]*"
    # host:path; never "helper::address", gitremote-helpers(7), and no leading dash (CVE-2017-1000117)
    r"|[A-Za-z0-9_][A-Za-z0-9_.@-]*:(?![:-]|//)[^\s\x00-\x1f\x7f]+"
)

_PLAIN_SETTINGS: dict[tuple[str, str], re.Pattern[str]] = {
    **{("core", key): _SWITCH for key in "filemode bare ignorecase precomposeunicode symlinks".split()},
    ("core", "logallrefupdates"): _WORD,
    ("core", "repositoryformatversion"): _WORD,
    ("core", "sparsecheckout"): _SWITCH,
    ("core", "sparsecheckoutcone"): _SWITCH,
    ("core", "autocrlf"): _WORD,
    ("core", "eol"): _WORD,
    ("extensions", "objectformat"): _WORD,
    ("extensions", "compatobjectformat"): _WORD,
    # Only the two words: newer versions take a place after the name, "format://path".
    ("extensions", "refstorage"): re.compile(r"files|reftable"),
    ("extensions", "worktreeconfig"): _SWITCH,
    ("extensions", "relativeworktrees"): _SWITCH,
    ("user", "name"): _ANYTHING,
    ("user", "email"): _ANYTHING,
    ("init", "defaultbranch"): _REMOTE_NAME,
    ("commit", "gpgsign"): _OFF,
    ("tag", "gpgsign"): _OFF,
    ("pull", "rebase"): _WORD,
    ("pull", "ff"): _WORD,
    ("push", "default"): _WORD,
    ("gc", "auto"): _WORD,
    ("index", "sparse"): _SWITCH,
    ("submodule", "active"): re.compile(r"[A-Za-z0-9_.*/-]*"),
}
_NAMED_SETTINGS: dict[tuple[str, str], re.Pattern[str]] = {
    ("remote", "url"): _URL,
    ("remote", "fetch"): _FETCH,
    ("remote", "tagopt"): re.compile(r"--tags|--no-tags"),
    ("remote", "mirror"): _SWITCH,
    ("branch", "remote"): re.compile(f"{_REMOTE_NAME.pattern}|{_URL.pattern}"),
    ("branch", "merge"): _REMOTE_NAME,
    ("branch", "rebase"): _WORD,
    ("branch", "description"): re.compile(r"(?:[^\x00-\x1f\x7f]|[\n\t])*"),
    ("submodule", "url"): _URL,
    ("submodule", "active"): _SWITCH,
}


class Verdict:
    """What is wrong with a configuration, and what of it may stay."""

    def __init__(self, config: Config, safe: tuple[Setting, ...], *, plain: bool) -> None:
        self._config, self._safe, self._plain = config, safe, plain

    @property
    def fault(self) -> str:
        """Empty when it may stay as it is."""
        unsafe = sorted({each.name for each in self._config.settings if each not in self._safe})
        if unsafe:
            return "settings that can run something or lead elsewhere: " + ", ".join(unsafe)
        if self._config.fault:
            return f"cannot be read from {self._config.fault} on"
        return "" if self._plain else "written in a way that readers may understand differently"

    def mended(self) -> str:
        """The safe settings alone, written plainly."""
        return written(self._safe)


def judge_config(text: str, is_own_worktree: Worktree) -> Verdict:
    """Judge a whole configuration file."""
    config = parse(text)
    safe = tuple(setting for setting in config.settings if _is_safe(setting, is_own_worktree))
    return Verdict(config, safe, plain="\0" not in text and is_plain(text))


def _is_safe(setting: Setting, is_own_worktree: Worktree) -> bool:
    value = "true" if setting.value is None else setting.value
    if (setting.section, setting.subsection, setting.key) == ("core", None, "worktree"):
        return is_own_worktree(value)
    table = _PLAIN_SETTINGS if setting.subsection is None else _NAMED_SETTINGS
    allowed = table.get((setting.section, setting.key))
    name = setting.subsection or ""
    # Git keeps names as C strings: what follows a NUL would not be what git sees.
    return allowed is not None and allowed.fullmatch(value) is not None and "\0" not in name and "\n" not in name
