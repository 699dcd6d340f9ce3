"""The one form of each kind of text in a policy.

A function takes a string and returns that form, or raises ValueError with the rule. It knows no field and no path in a document.
"""

from __future__ import annotations

from pathlib import Path, PurePath, PureWindowsPath

from fable_exec.policy.names import is_environment_name, prefix_names_injection
from fable_exec.sha256text import sha256_given

__all__ = [
    "encodable",
    "environment_entry",
    "executable_entry",
    "expanded",
    "formula",
    "path_directory",
    "protected_name",
    "readable_path",
    "rules_document",
    "token_digest",
]

_ON_WINDOWS = isinstance(PurePath(), PureWindowsPath)
_SEPARATORS = "/\\" if _ON_WINDOWS else "/"
_PATH_LIST_SEPARATOR = ";" if _ON_WINDOWS else ":"


def encodable(text: str) -> str:
    """Text that the kernel and JSON can both take."""
    if "\0" in text:
        raise ValueError("must not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must be valid Unicode, without lone surrogates") from error
    return text


def executable_entry(text: str) -> str:
    """An entry of the allow-list: a bare name, or an absolute path after `~` is expanded."""
    text = expanded(text)
    if any(separator in text for separator in _SEPARATORS):
        if not PurePath(text).is_absolute():
            raise ValueError("must be a bare name or an absolute path")
        if text[-1] in _SEPARATORS:
            raise ValueError("must name a file, not a directory")
    if text in (".", "..") or PurePath(text).name in ("", ".."):
        raise ValueError("must name a file")
    return text


def expanded(text: str) -> str:
    """`text` with the home directory that a `~` at its beginning stands for."""
    try:
        return str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError as error:
        raise ValueError("has no home directory to expand ~ to") from error


def environment_entry(text: str) -> str:
    """A variable's full name, or `PREFIX*`; a pattern may not be made for injection names, those are named one by one."""
    prefix = text.removesuffix("*")
    if not is_environment_name(prefix):
        raise ValueError("must be the name of an environment variable, or a prefix followed by *")
    if prefix != text and prefix_names_injection(prefix):
        raise ValueError("names variables that can run code; name them one by one")
    return text


def path_directory(text: str) -> str:
    """One directory of a command's PATH, after `~` is expanded."""
    text = expanded(text)
    if not PurePath(text).is_absolute():
        raise ValueError("must be an absolute directory")  # an empty or relative one means the current directory, see execvp(3)
    if _PATH_LIST_SEPARATOR in text:
        raise ValueError(f"must be one directory, without {_PATH_LIST_SEPARATOR}")
    return text


def readable_path(text: str) -> str:
    """An absolute path that commands may read, without `.` and `..`, after `~` is expanded; the root itself would be no
    confinement at all."""
    path = PurePath(expanded(text))
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError("must be an absolute path without ..")
    if path == PurePath(path.anchor):
        raise ValueError("must not be the root: that is everything")
    return str(path)


def rules_document(text: str) -> str:
    """TOML text as it stands, or the absolute path of a file of it, after `~` is expanded."""
    text = expanded(text)
    if not text.strip() or not (PurePath(text).is_absolute() or _can_be_toml(text)):
        raise ValueError("must be TOML text or the absolute path of a TOML file")
    if PurePath(text).is_absolute() and "\n" in text:
        raise ValueError("must be a path without line breaks")
    return text


def _can_be_toml(text: str) -> bool:
    """Whether `text` is more than one line, a comment, a table's head or has a value: a relative path is none of these."""
    return any(mark in text for mark in "\n=") or text.lstrip().startswith(("#", "["))


def formula(text: str) -> str:
    """A CTL formula in its one form, whatever blanks and brackets it was written with."""
    from fable_exec.assurance.kripke import parse_formula  # a policy without formulas does not pay for it

    return str(parse_formula(text))


def protected_name(text: str) -> str:
    """A single name that no path may contain."""
    if "/" in text or "\\" in text or text in ("", ".", ".."):
        raise ValueError("must be one name, not a path")
    return text


def token_digest(text: str) -> str | None:
    """A SHA-256 digest in its one form; blank is None."""
    digest = sha256_given(text)
    if digest is None and text.strip():
        raise ValueError("must be the SHA-256 of the token as 64 hexadecimal digits")
    return digest
