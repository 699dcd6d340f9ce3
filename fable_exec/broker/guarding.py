"""What looks after files that run later while commands may write: the sentry, between the runner and what a broker reports."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import attrs

from fable_exec._sys.forks import ProcessLock
from fable_exec.outcome import Applied, Denial, display_line
from fable_exec.pathguard import Workspace
from fable_exec.policy import Confinement
from fable_exec.runner import Pins

if TYPE_CHECKING:
    from fable_exec.laterfiles import Finding, Sentry

__all__ = ["LaterFilesGuard"]

_MAX_PATH_CHARACTERS = 500
_MAX_WARNINGS = 3


class LaterFilesGuard:
    """The sentry as a runner's guard; it is posted with the first command that may write, or when it is asked for.

    Args:
        pins_hold: whether what is pinned stays as it is, for the commands that come.
        changed: called before a command when what is weak is no longer what `judged` told; and while it is, if pins are required.
    """

    def __init__(
        self,
        workspace: Workspace,
        confinement: Confinement,
        pins_hold: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._action: Literal["neutralise", "report"] = "report" if confinement.planted_files == "report" else "neutralise"
        self._fails = confinement.planted_files == "fail"
        self._pins_required = confinement.mode("later_files") == "strict"
        self._pins_refused = False
        self._changed = changed
        self._weakness = ""
        self._pins_hold = pins_hold
        self._sentry: Sentry | None = None
        self._posting = ProcessLock()
        self._lock = ProcessLock()
        self._underway: dict[int, int] = {}
        self._closed = False
        self._last: tuple[Denial, ...] = ()

    def judged(self, applied: tuple[Applied, ...]) -> tuple[Applied, ...]:
        """`applied`, and what the sentry finds weak here."""
        reason = self._weakness = _weakness_of(self._ready())
        return tuple(
            attrs.evolve(each, reason=f"{each.reason}; {reason}" if each.reason else reason, state="degraded")
            if reason and each.protection == "later_files"
            else each
            for each in applied
        )

    def before(self) -> Pins:
        """Ready for a command: what to pin for it. Raises what `changed` raises."""
        sentry = self._ready()
        pins = Pins(sentry.before_command(), self._pins_required)
        try:
            weakness = _weakness_of(sentry)
            if weakness != self._weakness or (weakness and self._pins_required):
                self._changed()
        except BaseException:
            sentry.after_command()
            raise
        with self._lock:
            self._underway[os.getpid()] = self._underway.get(os.getpid(), 0) + 1
        return pins

    def after(self, pinned: bool) -> tuple[Denial, ...]:
        """What was planted meanwhile, and what became of it."""
        with self._lock:
            self._pins_refused = not pinned
            if self._closed:
                found, self._last = self._last, ()
                return found
            self._underway[os.getpid()] -= 1
            return self._look()

    def close(self) -> None:
        """Stop watching; what was underway until now, and has been ended, is looked after first."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._sentry is None:
                return
            if self._underway.get(os.getpid()):
                self._last = self._look()
            self._sentry.close()

    def _look(self) -> tuple[Denial, ...]:
        if self._pins_refused:
            self.posted().rely_on_pins(False)
        return tuple(_denial(finding, self._fails) for finding in self.posted().after_command())

    def _ready(self) -> Sentry:
        """The sentry, told whether pins hold for the commands that come."""
        sentry = self.posted()
        sentry.rely_on_pins(self._pins_hold() and not self._pins_refused)
        return sentry

    def posted(self) -> Sentry:
        """The sentry, posted when it is first asked for: what is there then is the host's."""
        if self._sentry is None:
            with self._posting:
                if self._sentry is None:
                    from fable_exec.laterfiles import Sentry, standard_place  # for confined policies only

                    quarantine = standard_place(self._workspace.path)
                    self._sentry = Sentry(self._workspace, quarantine, self._action, pinned=False)
        return self._sentry


def _denial(finding: Finding, fails: bool) -> Denial:
    kept = f"; kept as {display_line(finding.kept)}"[:_MAX_PATH_CHARACTERS] if finding.kept else ""
    return Denial(
        operation=f"plant {finding.kind.value}",
        path=display_line(finding.path)[:_MAX_PATH_CHARACTERS],
        protection="later_files",
        suggestion=f"{finding.done}: {display_line(finding.detail)}"[:_MAX_PATH_CHARACTERS] + kept,
        fails=fails,
    )


def _weakness_of(sentry: Sentry) -> str:
    """Why the sentry's protection is less than it could be; empty when it is not."""
    warnings = sentry.warnings
    shown = [f"{display_line(each.path)[:_MAX_PATH_CHARACTERS]} {each.detail}" for each in warnings[:_MAX_WARNINGS]]
    more = [f"and {len(warnings) - len(shown)} more"] if len(warnings) > len(shown) else []
    return "; ".join([*([sentry.watching] if sentry.watching else []), *shown, *more])
