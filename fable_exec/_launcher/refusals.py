"""What the observer has seen refused, place by place, until the launcher takes it: bounded, each refusal once.

The observer's process keeps the `Ledger`, the launcher has the `Told` at the other end of a channel between them.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

from . import wire
from .typed import Any, NamedTuple

_ANSWER_SECONDS = 0.25
"""How long a launcher waits for what was noted: an observer that is stuck must hold up neither an outcome nor other commands."""
_MOST = 64
"""For one command; what is more is counted."""
_MOST_ASKERS = 256
"""Processes of one command that may do without the same thing; where more ask for it, it is told."""
_MOST_PLACES = 1024
"""More commands than can be under way: the oldest pages are those that nobody took."""
_MOST_CHARACTERS = 500


class Refusal(NamedTuple):
    """One call that was refused: what was tried, on which path or address, and the protection that stood in the way."""

    operation: str
    path: str
    address: str
    protection: str


class _Page:
    def __init__(self) -> None:
        self.refusals: dict[Refusal, None] = {}
        self.unsure: dict[Refusal, set[int]] = {}
        self.beyond = 0


class Ledger:
    """Refusals by place; a place is whatever number says which command it was."""

    def __init__(self) -> None:
        self._pages: dict[int, _Page] = {}

    def note(self, place: int, refusal: Refusal, asker: int = 0) -> bool:
        """Keep it, or count it where there is no room; returns whether it is the first of its place.

        Args:
            asker: the process that may do without: the refusal is unsure until that process says that it failed (`failed`).
        """
        page, first = self._page(place)
        refusal = _kept(refusal)
        if refusal in page.refusals:
            return first
        if refusal not in page.unsure and len(page.refusals) + len(page.unsure) >= _MOST:
            page.beyond += 1
        elif asker and len(page.unsure.get(refusal, ())) < _MOST_ASKERS:
            page.unsure.setdefault(refusal, set()).add(asker)
        else:
            page.unsure.pop(refusal, None)
            page.refusals[refusal] = None
        return first

    def count(self, place: int) -> bool:
        """Count a call of which nothing is told; returns whether it is the first of its place."""
        page, first = self._page(place)
        page.beyond += 1
        return first

    def failed(self, place: int, process: int) -> None:
        """By its own word: what it was refused, and might have done without, is sure."""
        page = self._pages.get(place)
        if page is not None:
            sure = [refusal for refusal, askers in page.unsure.items() if process in askers]
            for refusal in sure:
                del page.unsure[refusal]
                page.refusals[refusal] = None

    def _page(self, place: int) -> tuple[_Page, bool]:
        page = self._pages.get(place)
        if page is not None:
            return page, False
        if len(self._pages) >= _MOST_PLACES:
            del self._pages[next(iter(self._pages))]
        page = self._pages[place] = _Page()
        return page, True

    def withdraw(self, place: int, refusal: Refusal) -> None:
        """It turned out to be none: what was refused once has been possible since."""
        page = self._pages.get(place)
        if page is not None:
            page.refusals.pop(_kept(refusal), None)

    def take(self, place: int) -> dict[str, Any]:
        """What is kept of `place`: "refusals" in order, those still "unsure", and how many calls were only counted ("beyond").

        The page is empty afterwards.
        """
        page = self._pages.pop(place, None) or _Page()
        return {"refusals": list(page.refusals), "unsure": list(page.unsure), "beyond": page.beyond}


class Told:
    """The launcher's side: of which places the observer has told.

    Messages: {"refused": place} comes before the first refused call of a place is answered, so it waits in the channel when the
    caller ends; {"take": [place, turn]} asks for everything, {"taken": [place, turn], ...} answers with what `Ledger.take` gave.
    The turn keeps an answer that comes too late from being taken for that of the next command in the same place.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._places: set[int] = set()
        self._turn = 0
        self._awaited: list[int] | None = None
        self._taken: dict[str, Any] | None = None
        self._words = select.poll()
        self._words.register(channel.fileno(), select.POLLIN)

    def hear(self, message: dict[str, Any]) -> None:
        """Take in a message of the observer's."""
        if "refused" in message:
            self._places.add(message["refused"])
        elif message["taken"] == self._awaited:
            self._taken = message

    def take(self, place: Callable[[], int], receive: Callable[[], None]) -> dict[str, Any] | None:
        """Everything that was noted of the command in `place`, which is over; None when nothing was.

        When no answer comes in time one refusal is counted, and not told.

        Args:
            place: the place's number; asked for only when there is something to take.
            receive: takes one message out of the channel, and gives those of the observer to `hear`.
        """
        while self._words.poll(0):
            receive()
        if not self._places or place() not in self._places:
            return None
        self._turn += 1
        self._awaited = [place(), self._turn]
        self._places.discard(self._awaited[0])
        give_up_at = time.monotonic() + _ANSWER_SECONDS
        wire.send(self._channel, {"take": self._awaited})
        while self._taken is None and self._words.poll(max(0, int((give_up_at - time.monotonic()) * 1000))):
            receive()
        taken = self._taken or {"taken": self._awaited, "refusals": [], "unsure": [], "beyond": 1}
        self._awaited = self._taken = None
        return taken


def answer_to_take(ledger: Ledger, asked: list[int]) -> dict[str, Any]:
    """The message that hands over what `ledger` has of the place that was `asked` about."""
    return {"taken": asked, **ledger.take(asked[0])}


def _kept(refusal: Refusal) -> Refusal:
    return refusal._replace(path=_bounded(refusal.path), address=_bounded(refusal.address))


def _bounded(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."
