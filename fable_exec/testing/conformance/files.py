"""What a broker must do with requests about files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fable_exec.errors import Conflict, PathDenied, PathIsDirectory, PathNotDirectory, PathNotFound
from fable_exec.testing.conformance.setting import MAX_OUTPUT_BYTES, BrokerSetting, Desk
from fable_exec.testing.strategies import file_contents, honest_paths, hostile_paths

__all__ = ["FileChecks"]

_SECRET = b"what lies outside of the workspace"


class FileChecks(BrokerSetting):
    """Bytes come back as they went in, refusals have their type, and no path leads out."""

    def test_what_is_written_is_read_back_to_the_byte(self, desk: Desk) -> None:
        def check(path: str, content: bytes) -> None:
            spot = self.desk_at(desk.broker, desk.workspace)
            written = desk.broker.write_file(spot.path(path), content)
            found = desk.broker.inspect_files(spot.path(path))
            assert (found.data, found.total_bytes, found.truncated) == (content, len(content), False)
            assert found.content_hash == written.content_hash == hashlib.sha256(content).hexdigest()
            assert spot.on_disk(path).read_bytes() == content

        self.for_each(check, path=honest_paths(), content=file_contents())

    def test_a_file_is_replaced_whole_and_appended_to_at_its_end(self, desk: Desk) -> None:
        big = bytes(range(256)) * (MAX_OUTPUT_BYTES // 256)
        assert desk.broker.write_file(desk.path("a"), big).created
        assert not desk.broker.write_file(desk.path("a"), b"small").created
        assert desk.on_disk("a").read_bytes() == b"small"
        assert desk.broker.append(desk.path("a"), b"er").total_bytes == 7
        assert desk.broker.inspect_files(desk.path("a")).data == b"smaller"

    def test_no_hostile_path_leads_out_of_the_workspace(self, desk: Desk) -> None:
        outside = _Outside.beside(desk)
        desk.broker.write_file(desk.path("mine"), b"what stays here")

        def check(path: str) -> None:
            outside.restore()  # an example that failed is tried again
            asks = _looks(desk) | (_changes(desk) if outside.has(path) else {})
            for name, ask in asks.items():
                with pytest.raises(PathDenied):
                    found = ask(path)
                    pytest.fail(f"{name}({path!r}) was not refused: {found!r:.300}")
                outside.require_untouched(f"{name}({path!r})")

        self.for_each(check, path=hostile_paths(outside.links, outside.files, outside.siblings))

    def test_a_fact_of_the_file_system_has_its_type_and_its_builtin(self, desk: Desk) -> None:
        broker = desk.broker
        broker.make_directory(desk.path("d"))
        broker.write_file(desk.path("f"), b"x")
        facts: list[tuple[type[OSError], type[OSError], Callable[[], Any]]] = [
            (PathNotFound, FileNotFoundError, lambda: broker.inspect_files(desk.path("nothing"))),
            (PathIsDirectory, IsADirectoryError, lambda: broker.inspect_files(desk.path("d"))),
            (PathIsDirectory, IsADirectoryError, lambda: broker.write_file(desk.path("d"), b"x")),
            (PathNotDirectory, NotADirectoryError, lambda: broker.list_directory(desk.path("f"))),
            (PathNotDirectory, NotADirectoryError, lambda: broker.inspect_files(desk.path("f/x"))),
        ]
        for kind, builtin, ask in facts:
            with pytest.raises(kind) as told:
                ask()
            assert isinstance(told.value, builtin)
        assert desk.on_disk("f").read_bytes() == b"x"

    def test_a_write_that_expects_another_content_changes_nothing(self, desk: Desk) -> None:
        broker, path = desk.broker, desk.path("a")
        old = broker.write_file(path, b"one").content_hash
        broker.write_file(path, b"two", expected_hash=old)
        refusals: list[Callable[[], Any]] = [
            lambda: broker.write_file(path, b"three", expected_hash=old),
            lambda: broker.append(path, b"three", expected_hash=old),
            lambda: broker.edit_file(path, b"two", b"three", expected_hash=old),
            lambda: broker.edit_file(path, b"not there", b"three"),
        ]
        for refused in refusals:
            with pytest.raises(Conflict):
                refused()
            assert desk.on_disk("a").read_bytes() == b"two"

    def test_an_edit_changes_one_place_and_a_part_is_told_as_that(self, desk: Desk) -> None:
        broker, path = desk.broker, desk.path("a")
        broker.write_file(path, b"one two two")
        assert broker.edit_file(path, b"one", b"three").content_hash == hashlib.sha256(b"three two two").hexdigest()
        with pytest.raises(Conflict):
            broker.edit_file(path, b"two", b"four")
        assert desk.on_disk("a").read_bytes() == b"three two two"
        part = broker.inspect_files(path, 5)
        assert (part.data, part.truncated, part.total_bytes) == (b"three", True, 13)
        broker.write_file(desk.path("b"), b"nothing\nthree of it")
        listed = broker.list_directory(desk.name, max_entries=1)
        assert (len(listed.entries), listed.truncated) == (1, True)
        found = broker.search_files("three", desk.name)
        places = {(each.path, each.line, each.column) for each in found.matches}
        assert (places, found.truncated) == ({(path, 1, 1), (desk.path("b"), 2, 1)}, False)
        assert [(each.kind, each.size_bytes) for each in (broker.stat_path(path), broker.stat_path(desk.path("b")))] == [
            ("file", 13),
            ("file", 19),
        ]

    def test_a_directory_is_listed_moved_and_removed_as_it_is(self, desk: Desk) -> None:
        broker = desk.broker
        broker.write_file(desk.path("d/f"), b"12345")
        broker.make_directory(desk.path("d/e"))
        found = broker.list_directory(desk.path("d")).entries
        assert [(each.name, each.kind, each.size_bytes) for each in found] == [("e", "directory", None), ("f", "file", 5)]
        broker.move_path(desk.path("d/f"), desk.path("g"))
        assert desk.on_disk("g").read_bytes() == b"12345"
        broker.remove_path(desk.path("d"), recursive=True)
        assert not desk.on_disk("d").exists()


def _looks(desk: Desk) -> dict[str, Callable[[str], Any]]:
    return {
        "inspect_files": desk.broker.inspect_files,
        "list_directory": desk.broker.list_directory,
        "stat_path below": lambda path: desk.broker.stat_path(f"{path}/x"),  # a link itself may be described
    }


def _changes(desk: Desk) -> dict[str, Callable[[str], Any]]:
    """And what a broken broker would walk the whole host for. A link itself may be moved and removed: what lies below it, not."""
    broker = desk.broker
    return {
        "write_file": lambda path: broker.write_file(path, b"written by the check"),
        "append": lambda path: broker.append(path, b"appended by the check"),
        "edit_file": lambda path: broker.edit_file(path, b"outside", b"edited by the check"),
        "make_directory": lambda path: broker.make_directory(f"{path}/x"),
        "remove_path": lambda path: broker.remove_path(f"{path}/x"),
        "move_path from": lambda path: broker.move_path(f"{path}/x", desk.path("taken")),
        "move_path to": lambda path: broker.move_path(desk.path("mine"), f"{path}/x"),
        "search_files": lambda path: broker.search_files("outside", path),
    }


@attrs.frozen
class _Outside:
    """What lies beside a workspace, and links in the workspace that lead there."""

    directory: Path
    links: tuple[str, ...]
    siblings: tuple[str, ...]

    @classmethod
    def beside(cls, desk: Desk) -> _Outside:
        home = desk.workspace.parent
        siblings = ("secret", "outside/secret", f"{desk.workspace.name}-secret")
        (home / "outside").mkdir()
        for sibling in siblings:
            (home / sibling).write_bytes(_SECRET)
            (home / sibling).chmod(0o600)
        links = {"to-directory": home / "outside", "to-file": home / "secret", "to-itself": desk.workspace / desk.name}
        names = {f"{desk.name}-{name}": target for name, target in links.items()}
        for name, target in names.items():
            (desk.workspace / name).symlink_to(target)
        return cls(home, tuple(names), siblings)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(str(self.directory / sibling) for sibling in self.siblings)

    def has(self, path: str) -> bool:
        """Whether whoever takes it at its word ends among the files of this check, and not among those of the host."""
        return not path.startswith("/") or path in self.files

    def restore(self) -> None:
        for file in self.files:
            Path(file).write_bytes(_SECRET)

    def require_untouched(self, what: str) -> None:
        assert [Path(file).read_bytes() for file in self.files] == [_SECRET] * len(self.files), f"{what} changed a file outside"
        assert [each.name for each in (self.directory / "outside").iterdir()] == ["secret"], f"{what} made a file outside"
