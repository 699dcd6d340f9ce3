"""Properties of the lexical layer for any text."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fable_exec.errors import PathDenied
from fable_exec.pathguard import LEXICAL_REASONS, PathProfile, WorkspacePath
from fable_exec.pathguard.protection import folded, protected_forms
from fable_exec.testing.strategies import any_paths

pytestmark = pytest.mark.fuzz

PROFILES = st.sampled_from(PathProfile)


@given(any_paths(), PROFILES, st.sampled_from([(), (".git",), (".env", "Straße")]))
@example("a" * 100_000, PathProfile.PORTABLE, ())
@example("a/" * 100_000, PathProfile.POSIX, ())
@example("\udcc3\udca9", PathProfile.POSIX, ())
def test_any_text_is_accepted_or_refused_with_a_known_reason(text: str, profile: PathProfile, protected: tuple[str, ...]) -> None:
    try:
        path = WorkspacePath.parse(text, profile, protected)
    except PathDenied as refusal:
        assert refusal.reason in LEXICAL_REASONS
        assert refusal.path == text
        assert f"({refusal.reason})" in str(refusal)
        assert len(str(refusal)) < 2000
        str(refusal).encode("utf-8")  # never a lone surrogate: it goes on the wire and into logs
        assert pickle.loads(pickle.dumps(refusal)).reason == refusal.reason
    else:
        assert all(name not in ("", ".", "..") and not {"/", "\0"} & set(name) for name in path.components)
        assert not any(folded(name) in protected_forms(protected) for name in path.components)


@given(any_paths(), PROFILES)
def test_accepted_components_round_trip(text: str, profile: PathProfile) -> None:
    try:
        path = WorkspacePath.parse(text, profile)
    except PathDenied:
        return
    again = WorkspacePath.parse(str(path), profile)
    assert again.components == path.components
    assert str(again) == str(path)
    if profile is PathProfile.POSIX:
        assert os.fsdecode(os.fsencode(str(path))) == str(path)


@given(any_paths())
def test_what_is_portable_is_acceptable_everywhere_and_unchanged(text: str) -> None:
    try:
        path = WorkspacePath.parse(text)
    except PathDenied:
        return
    for profile in (PathProfile.POSIX, PathProfile.WINDOWS):
        assert WorkspacePath.parse(text, profile) == path
    assert path.creation_fault() is None
    assert path.components == tuple(piece for piece in text.split("/") if piece not in ("", "."))


@given(st.text(st.sampled_from("gGiItT.\u200c\u00ad :~1$DATA\ufeff"), max_size=12))
def test_every_spelling_that_a_folding_volume_takes_for_git_is_refused(name: str) -> None:
    bare = "".join(character for character in name if character not in "\u200c\u00ad\ufeff").split(":")[0].rstrip(" .").lower()
    try:
        WorkspacePath.parse(name or "x", PathProfile.POSIX, (".git",))
    except PathDenied as refusal:
        assert bare in (".git", "git~1") or refusal.reason == "dotdot"
    else:
        assert bare not in (".git", "git~1")


@pytest.mark.parametrize(
    ("protected", "spelling"),
    [
        (".env", "ENV~1"), (".github", "GITHUB~1"), (".gitmodules", "gitmod~1"), ("secrets.yaml", "SECRET~1.YAM"),
        ("secrets.yaml", "Secrets.YAML. "),
        ("straße", "STRASSE"), ("caf\u00e9", "cafe\u0301"), (".ssh", ".\u017fsh"), (".git", ".GIT::$INDEX_ALLOCATION"),
    ],
)  # fmt: skip
def test_other_protected_names_have_their_spellings_too(protected: str, spelling: str) -> None:
    with pytest.raises(PathDenied) as refusal:
        WorkspacePath.parse(f"a/{spelling}/b", PathProfile.POSIX, [protected])
    assert refusal.value.reason == "protected-name"


@pytest.mark.parametrize("entry", ["", ".git/hooks", "a\0b", "...", "\u200c"])
def test_a_protected_entry_that_could_never_match_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="single name"):
        WorkspacePath.parse("a", protected=(entry,))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a/../b", "use 'b'"), ("a/b/../../c/./d", "use 'c/d'"), ("a/..", "use '.'"), ("../x", "leads out of the workspace"),
        ("a/../../b", "leads out of the workspace"), ("src\\main.py", "src/main.py"),
        ("/etc/passwd", "relative to the workspace"),
        ("a/con.txt", "'con.txt'"), ("", "'.' names the workspace"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(text: str, advice: str) -> None:
    with pytest.raises(PathDenied) as refusal:
        WorkspacePath.parse(text)
    assert advice in str(refusal.value)
    assert isinstance(refusal.value, PermissionError) and isinstance(refusal.value, ValueError)


@pytest.mark.parametrize("text", [b"a", None, 3, ["a"]])
def test_only_text_is_a_path(text: object) -> None:
    with pytest.raises(TypeError):
        WorkspacePath.parse(text)  # type: ignore[arg-type]  # no text: it must be refused


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\0"])
def test_a_checked_path_cannot_be_made_by_hand_from_what_is_not_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a single name"):
        WorkspacePath(components=("a", name))


def test_parent_name_and_child_fit_together() -> None:
    path = WorkspacePath.parse("a/b/")
    assert (path.name, str(path.parent), str(path.parent.parent.parent), path.parent.directory_required) == ("b", "a", ".", False)
    assert path.parent.child("b") == WorkspacePath.parse("a/b")
    assert path.directory_required and not path.is_root and WorkspacePath.parse(".").is_root
    with pytest.raises(PathDenied):
        path.child("..")


def test_the_lexical_layer_loads_nothing_that_touches_the_system() -> None:
    source = "".join(
        Path(sys.modules[f"fable_exec.pathguard.{name}"].__file__ or "").read_text(encoding="utf-8")
        for name in ("lexical", "names", "protection", "advisories", "reasons")
    )
    for module in ("os", "pathlib", "ctypes", "time", "subprocess", "socket"):
        assert f"import {module}\n" not in source and f"from {module} " not in source


def test_the_answer_does_not_depend_on_the_locale() -> None:
    program = (
        "from fable_exec.pathguard import *; print(ascii(WorkspacePath.parse('\\u00e9/\\udcff', PathProfile.POSIX).components))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0"},
            capture_output=True,
            check=True,
        ).stdout
        for locale in ("C", "C.UTF-8", "POSIX")
    }
    assert answers == {b"('\\xe9', '\\udcff')\n"}
