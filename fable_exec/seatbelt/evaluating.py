"""`SeatbeltProfile`: what a profile means, decided as the kernel would. Pure, so that any platform can check it.

The rules, as Apple's profiles and their public descriptions have them: of all rules that match an operation and its target the
last one wins; where none matches, `default` decides, and without one everything is denied. The filters of a rule are
alternatives. Understood is what this package writes, and `require-any`, `require-all`, `require-not`, `path`, `path-literal`,
`path-subpath`; every other filter is refused, since a guess would be a wrong decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import attrs

from fable_exec.errors import InvalidRequest
from fable_exec.policy.rules import shown
from fable_exec.seatbelt.reading import Form, Quoted, fault, forms_of

__all__ = ["Decision", "Rule", "SeatbeltProfile"]

Decision = Literal["allow", "deny"]
_LAST_PORT = 65535
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPERATION = re.compile(r"[a-z0-9-]+\*?")
_PROCESSES = ("self", "same-sandbox", "others")


@attrs.frozen(kw_only=True)
class _Target:
    """What an operation is about: a path, a socket with a path, an address, a process, or nothing."""

    path: str = ""
    unix: bool = False
    protocol: str = ""
    host: str = ""
    port: int = 0
    process: str = ""


_Filter = Callable[[str, _Target], bool]
"""Whether it holds for an operation and a target."""


@attrs.frozen
class Rule:
    """One rule: the line it stands on, its action, and what it is about."""

    line: int
    action: Decision
    operations: tuple[str, ...]
    _filters: tuple[_Filter, ...] = attrs.field(repr=False, eq=False)

    def matches(self, operation: str, target: _Target) -> bool:
        """Whether it says something about `operation` on `target`."""
        return any(map(_covering(operation), self.operations)) and (
            not self._filters or any(holds(operation, target) for holds in self._filters)
        )


@attrs.frozen
class SeatbeltProfile:
    """A profile that was read. `decide` is a function of it and its arguments alone."""

    rules: tuple[Rule, ...]
    default: Decision

    @classmethod
    def parse(cls, data: bytes) -> SeatbeltProfile:
        """The profile in `data`. Raises PolicyError where it is none, or says what is not understood here."""
        forms = forms_of(data)
        if not forms or forms[0].items != ("version", "1"):
            raise fault(forms[0].line if forms else 1, "must begin with (version 1)")
        rules = [_rule(form) for form in forms[1:]]
        defaults = [rule.action for rule in rules if "default" in rule.operations]
        return cls(tuple(rule for rule in rules if "default" not in rule.operations), defaults[-1] if defaults else "deny")

    def decide(self, operation: str, target: str = "") -> Decision:
        """What becomes of `operation` on `target`.

        Args:
            operation: as Seatbelt names it, such as file-read-data, network-outbound, process-exec.
            target: an absolute path, `tcp:HOST:PORT`, `udp:HOST:PORT`, `unix:PATH`; of a signal `self`, `same-sandbox` or
                `others`; nothing where the operation is about nothing. A path is taken as the kernel sees it, after links:
                `.`, `..` and doubled slashes are folded.

        Raises:
            InvalidRequest: `target` is none of these.
        """
        rule = self.deciding(operation, target)
        return self.default if rule is None else rule.action

    def deciding(self, operation: str, target: str = "") -> Rule | None:
        """The rule that decides; None where the default does. Raises InvalidRequest."""
        wanted = _target(target)
        return next((rule for rule in reversed(self.rules) if rule.matches(operation, wanted)), None)


def _covering(operation: str) -> Callable[[str], bool]:
    return lambda named: named == operation or (named.endswith("*") and operation.startswith(named[:-1]))


# Targets.


def _target(text: str) -> _Target:
    if text.startswith("/"):
        return _Target(path=_folded(text))
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest.startswith("/"):
        return _Target(path=_folded(rest), unix=True)
    host, _, port = rest.rpartition(":")
    if kind in ("tcp", "udp") and host:
        return _Target(protocol=kind, host=host.strip("[]"), port=_port(port))
    if text in _PROCESSES:
        return _Target(process=text)
    if text:
        raise InvalidRequest(f"a target is an absolute path, tcp:HOST:PORT, udp:HOST:PORT or unix:PATH, not {shown(text)}")
    return _Target()


def _folded(path: str) -> str:
    """`path` without `.`, `..`, doubled and trailing slashes."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _port(text: str) -> int:
    if not _is_port(text):
        raise InvalidRequest(f"a port is a number from 0 to {_LAST_PORT}, not {shown(text)}")
    return int(text)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(_LAST_PORT)) and int(text) <= _LAST_PORT


# Rules and filters.


def _rule(form: Form) -> Rule:
    if form.head not in ("allow", "deny"):
        raise fault(form.line, f"{shown(form.head)} is no rule")
    action: Decision = "allow" if form.head == "allow" else "deny"
    operations = [item for item in form.items[1:] if isinstance(item, str)]
    conditions = form.items[1 + len(operations) :]
    named_first = operations == list(form.items[1 : 1 + len(operations)])
    if not operations or not named_first or not all(map(_OPERATION.fullmatch, operations)):
        raise fault(form.line, "a rule names its operations first, then its filters")
    if "default" in operations and (len(operations) > 1 or conditions):
        raise fault(form.line, "default stands alone")
    return Rule(form.line, action, tuple(operations), tuple(_filter(item, form.line) for item in conditions))


def _filter(item: str | Quoted | Form, line: int) -> _Filter:
    if not isinstance(item, Form):
        raise fault(line, "a filter is a list")
    build = _FILTERS.get(item.head)
    if build is None:
        raise fault(item.line, f"the filter {shown(item.head)} is not understood here")
    return build(item)


def _literal(form: Form) -> _Filter:
    path = _path_in(form)
    return lambda operation, target: target.path == path


def _subpath(form: Form) -> _Filter:
    path = _path_in(form)
    below = path.rstrip("/") + "/"
    return lambda operation, target: target.path == path or target.path.startswith(below)


def _path_in(form: Form) -> str:
    found = form.items[1:]
    if len(found) != 1 or not isinstance(found[0], Quoted) or not found[0].text.startswith("/"):
        raise fault(form.line, f"{form.head} takes one absolute path")
    return _folded(found[0].text)


def _process(form: Form) -> _Filter:
    if len(form.items) != 2 or form.items[1] not in _PROCESSES:
        raise fault(form.line, f"target is one of {', '.join(_PROCESSES)}")
    wanted = ("self", "same-sandbox") if form.items[1] == "same-sandbox" else (form.items[1],)
    return lambda operation, target: target.process in wanted


def _remote(form: Form) -> _Filter:
    holds = _address(form)
    return lambda operation, target: operation.startswith("network-outbound") and holds(operation, target)


def _local(form: Form) -> _Filter:
    holds = _address(form)
    return lambda operation, target: operation.startswith(("network-bind", "network-inbound")) and holds(operation, target)


def _address(form: Form) -> _Filter:
    """The condition in `(remote KIND ...)` and `(local KIND ...)`; which end of a connection it is about is the operation's."""
    kind, conditions = form.items[1] if len(form.items) > 1 else "", form.items[2:]
    if kind == "unix-socket":
        alternatives = [_filter(each, form.line) for each in conditions]
        return lambda operation, target: (
            target.unix and (not alternatives or any(holds(operation, target) for holds in alternatives))
        )
    if kind not in ("ip", "tcp", "udp") or len(conditions) > 1:
        raise fault(form.line, "an address is ip, tcp or udp with one HOST:PORT, or unix-socket")
    protocols = ("tcp", "udp") if kind == "ip" else (kind,)
    host, port = _host_and_port(form) if conditions else ("*", "*")
    return lambda operation, target: (
        target.protocol in protocols and (host == "*" or target.host in _LOOPBACK) and (port == "*" or target.port == int(port))
    )


def _host_and_port(form: Form) -> tuple[str, str]:
    """sandbox-exec takes no other host than these two."""
    text = form.items[2]
    host, _, port = text.text.rpartition(":") if isinstance(text, Quoted) else ("", "", "")
    if host not in ("*", "localhost") or not (port == "*" or _is_port(port)):
        raise fault(form.line, 'an address is "*:PORT" or "localhost:PORT", PORT a number or *')
    return host, port


def _any(form: Form) -> _Filter:
    parts = _parts(form)
    return lambda operation, target: any(holds(operation, target) for holds in parts)


def _all(form: Form) -> _Filter:
    parts = _parts(form)
    return lambda operation, target: all(holds(operation, target) for holds in parts)


def _not(form: Form) -> _Filter:
    parts = _parts(form)
    if len(parts) != 1:
        raise fault(form.line, "require-not takes one filter")
    return lambda operation, target: not parts[0](operation, target)


def _parts(form: Form) -> tuple[_Filter, ...]:
    parts = tuple(_filter(item, form.line) for item in form.items[1:])
    if not parts:
        raise fault(form.line, f"{form.head} is empty")
    return parts


_FILTERS: dict[str, Callable[[Form], _Filter]] = {
    "literal": _literal,
    "path": _literal,
    "path-literal": _literal,
    "path-subpath": _subpath,
    "subpath": _subpath,
    "target": _process,
    "remote": _remote,
    "local": _local,
    "require-any": _any,
    "require-all": _all,
    "require-not": _not,
}
