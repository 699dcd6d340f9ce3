"""A rule-based state machine over a broker: files, commands, the lock and the end, in any order, against a dictionary."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fable_exec.errors import BrokerGone, Denied, PathExists, PathNotFound, WritesLocked
from fable_exec.testing.conformance.setting import TOKEN, BrokerSetting, Desk
from fable_exec.testing.faces import Face

__all__ = ["BrokerMachine", "machine_for"]

_EVERY_NAME = ("a", "b", "d/c")
_NAMES = st.sampled_from(_EVERY_NAME)
_CONTENTS = st.binary(max_size=4)
_MOST_WRONG_TOKENS = 4
"""One more, and the broker pauses before it looks at another."""
_READ = "sys.stdout.buffer.write(open(ARGUMENTS[0], 'rb').read())"
_WRITE = (
    "os.makedirs(os.path.dirname(ARGUMENTS[0]), mode=0o700, exist_ok=True)\n"
    "with open(os.open(ARGUMENTS[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'wb') as file:\n"
    "    file.write(bytes.fromhex(ARGUMENTS[1]))"
)


class BrokerMachine(RuleBasedStateMachine):
    """Subclass it, give `open_desk`, and run its `TestCase`; BrokerConformance runs one of its own.

    After every step the directory has on disk exactly what the model says. Rules of your own may be added in the subclass:
    `self.desk` is the broker at work, `self.files` the model, `self.locked` and `self.closed` the state.
    """

    def open_desk(self) -> Desk:
        """A broker with an empty directory, in any state of its lock, that the machine may close. To be given by the subclass."""
        raise NotImplementedError("a subclass of BrokerMachine says in open_desk() what is to be tested")

    def __init__(self) -> None:
        super().__init__()
        self.desk = self.open_desk()
        self.broker: Any = self.desk.broker
        self.broker.unlock_writes(TOKEN)  # and so no wrong token of an earlier run counts any more
        self.broker.lock_writes()
        self.files: dict[str, bytes] = {}
        self.locked = True
        self.closed = False
        self._is_closed_at_the_end = False
        self._wrong_tokens = 0
        self._has_directory = False

    @initialize(lock=st.booleans(), is_closed_at_the_end=st.sampled_from([False, False, True]))
    def begin(self, lock: bool, is_closed_at_the_end: bool) -> None:
        self._is_closed_at_the_end = is_closed_at_the_end
        self.turn_the_lock(False)
        self.write("a", b"first")
        self.write("b", b"second")
        self.turn_the_lock(lock)

    # What changes files.

    @rule(name=_NAMES, content=_CONTENTS)
    def write(self, name: str, content: bytes) -> None:
        created = self._writing(lambda path: self.broker.write_file(path, content), name)
        if created is not None:
            assert created.created is (name not in self.files)
            self._put(name, content)

    @rule(name=_NAMES, content=_CONTENTS)
    def append(self, name: str, content: bytes) -> None:
        if "/" in name and not self._has_directory and not self.locked:  # unlike `write_file` it makes no directories
            with pytest.raises(PathNotFound):
                self.broker.append(self.desk.path(name), content)
            return
        appended = self._writing(lambda path: self.broker.append(path, content), name)
        if appended is not None:
            self.files[name] = self.files.get(name, b"") + content
            assert appended.total_bytes == len(self.files[name])

    @rule(name=_NAMES)
    def remove(self, name: str) -> None:
        if name in self.files or self.locked:
            if self._writing(self.broker.remove_path, name) is not None:
                del self.files[name]
        else:
            with pytest.raises(PathNotFound):
                self.broker.remove_path(self.desk.path(name))

    @precondition(lambda self: self.files)
    @rule(which=st.integers(0, 2), destination=st.sampled_from(["a", "b"]))
    def move(self, which: int, destination: str) -> None:
        source = sorted(self.files)[which % len(self.files)]
        if source != destination and self._writing(lambda path: self._move(path, destination, replace=True), source) is not None:
            self.files[destination] = self.files.pop(source)

    @rule(name=_NAMES, content=_CONTENTS)
    def write_by_a_command(self, name: str, content: bytes) -> None:
        with contextlib.suppress(WritesLocked) if self.locked else contextlib.nullcontext():
            result = self.desk.run(_WRITE, str(self.desk.on_disk(name)), content.hex())
            assert result.success is not self.locked, result.stderr
        if not self.locked:
            self._put(name, content)

    # What looks at them.

    @rule(name=_NAMES)
    def read_by_a_command(self, name: str) -> None:
        with contextlib.suppress(WritesLocked) if self.locked else contextlib.nullcontext():
            result = self.desk.run(_READ, str(self.desk.on_disk(name)))
            assert result.success is (name in self.files), result.stderr
            assert result.stdout_raw == self.files.get(name, b"")

    # The lock.

    @rule(lock=st.sampled_from([False, False, True]))
    def turn_the_lock(self, lock: bool) -> None:
        if lock:
            self.broker.lock_writes()
        else:
            self.broker.unlock_writes(TOKEN)
            self._wrong_tokens = 0
        self.locked = lock

    @precondition(lambda self: self._wrong_tokens < _MOST_WRONG_TOKENS)
    @rule(token=st.sampled_from(["wrong", TOKEN[1:], TOKEN.title()]))
    def unlock_with_a_wrong_token(self, token: str) -> None:
        with pytest.raises(Denied):
            self.broker.unlock_writes(token)
        self._wrong_tokens += 1

    # What holds always.

    @invariant()
    def the_disk_has_what_the_model_says(self) -> None:
        found = {}
        for directory, _, names in os.walk(self.desk.workspace / self.desk.name):
            for name in names:
                path = Path(directory, name)
                found[str(path.relative_to(self.desk.workspace / self.desk.name))] = path.read_bytes()
        assert found == self.files

    @invariant()
    def the_broker_says_what_the_model_says(self) -> None:
        assert self.broker.probe().writes_enabled is not self.locked
        for name in _EVERY_NAME:
            if name in self.files:
                assert self.broker.inspect_files(self.desk.path(name)).data == self.files[name]
            else:
                with pytest.raises(PathNotFound):
                    self.broker.inspect_files(self.desk.path(name))
        listed = {each.name: each.size_bytes for each in self.broker.list_directory(self.desk.name).entries if each.name != "d"}
        assert listed == {name: len(content) for name, content in self.files.items() if "/" not in name}

    @invariant()
    def what_must_be_refused_is_refused(self) -> None:
        if self.locked:
            self._try_every_write()
        elif len(self.files) > 1:
            source, destination, *_ = sorted(self.files)
            with pytest.raises(PathExists):
                self._move(self.desk.path(source), destination, replace=False)

    def teardown(self) -> None:
        """Close the broker where that was drawn, see that it does nothing any more, and that nothing runs."""
        try:
            if self._is_closed_at_the_end:
                self._close()
        finally:
            left = self.desk.left()
        assert left == [], "processes of commands were alive at the end"

    def _close(self) -> None:
        self.broker.close()
        self.closed = True
        asks: list[Callable[[], Any]] = [
            lambda: self.broker.inspect_files(self.desk.path("a")),
            lambda: self.broker.write_file(self.desk.path("a"), b"after the end"),
            lambda: self.desk.run(_READ, str(self.desk.on_disk("a"))),
        ]
        for ask in asks:
            with pytest.raises(BrokerGone):
                ask()
        self.the_disk_has_what_the_model_says()
        self.broker.close()

    def _try_every_write(self) -> None:
        """Locked is every request that writes, whatever stands there."""
        path = self.desk.path("a")
        writes: list[Callable[[], Any]] = [
            lambda: self.broker.write_file(path, b"x"),
            lambda: self.broker.append(path, b"x"),
            lambda: self.broker.edit_file(path, b"x", b"y"),
            lambda: self.broker.move_path(path, self.desk.path("c"), replace=True),
            lambda: self.broker.remove_path(path),
            lambda: self.broker.make_directory(self.desk.path("e")),
        ]
        for write in writes:
            with pytest.raises(WritesLocked):
                write()
        assert not self.desk.on_disk("e").exists()

    def _move(self, source: str, destination: str, *, replace: bool) -> Any:
        return self.broker.move_path(source, self.desk.path(destination), replace=replace)

    def _put(self, name: str, content: bytes) -> None:
        self.files[name] = content
        self._has_directory = self._has_directory or "/" in name

    def _writing(self, write: Callable[[str], Any], name: str) -> Any:
        """Its answer; None where it is refused, as it must be while writes are locked and only then."""
        if not self.locked:
            return write(self.desk.path(name))
        with pytest.raises(WritesLocked):
            write(self.desk.path(name))
        return None


@contextmanager
def machine_for(setting: BrokerSetting, workspace: Path) -> Iterator[type[BrokerMachine]]:
    """The machine over brokers of a conformance suite. One broker serves until a run has closed it; the last is closed here."""
    current: list[Face] = []
    with ExitStack() as opened:

        class Machine(BrokerMachine):
            def open_desk(self) -> Desk:
                if not current:
                    current.append(opened.enter_context(setting.opened(workspace)))
                return setting.desk_at(current[0], workspace)

            def _close(self) -> None:
                current.clear()
                super()._close()

        yield Machine
