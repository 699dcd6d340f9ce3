"""The policy's argument rules at the door: built when first asked, then a verdict on each argv as facts for the decision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from fable_exec._sys.forks import ProcessLock
from fable_exec.decision import ArgumentFacts
from fable_exec.errors import PolicyError
from fable_exec.executables import Executable
from fable_exec.policy import BrokerPolicy
from fable_exec.policy.document import read_file

if TYPE_CHECKING:
    from fable_exec.argrules import ArgumentRules

__all__ = ["ArgumentJudge"]

_UNKNOWN = "argv:unknown-tool"
"""The rule of a verdict on a tool that stands first and that no rule knows."""


class ArgumentJudge:
    """Judges command lines for one broker. Thread-safe. Building the rules takes some 0.2 s, once in a process.

    Raises:
        PolicyError: a document that the policy names cannot be read or has faults.
    """

    def __init__(self, policy: BrokerPolicy) -> None:
        self._policy = policy
        self._building = ProcessLock()
        self._rules: ArgumentRules | None = None
        # Faults in an embedder's own rules are told at once, not by the first command.
        self._own = _own_rules(policy)

    def judge(self, argv: Sequence[str], executable: Executable, cwd: Sequence[str]) -> ArgumentFacts:
        """What the rules say about `argv`, by the name the executable is listed under, else by that of the file behind it."""
        rules = self._built()
        workspace = str(self._policy.workspace)
        verdict = rules.judge([executable.name, *argv[1:]], workspace=workspace, cwd=cwd)
        if verdict.rule == _UNKNOWN and executable.resolved_name != executable.name:
            verdict = rules.judge([executable.resolved_name, *argv[1:]], workspace=workspace, cwd=cwd)
        return ArgumentFacts(
            known=verdict.rule != _UNKNOWN,
            allowed=verdict.allowed,
            reads_only=verdict.read_only and not verdict.inner,
            rule=verdict.rule,
            reason=verdict.reason,
        )

    def without_rules(self) -> tuple[tuple[int, str], ...]:
        """The tools that the policy names and no rule knows, each with its place in `argument_rules.tools`."""
        wanted = self._policy.argument_rules.tools
        if not wanted:
            return ()
        from fable_exec.argrules import ArgumentRules

        known = ArgumentRules.builtin().tools.union(*(own.tools for own in self._own))
        return tuple((index, name) for index, name in enumerate(wanted) if name not in known)

    def _built(self) -> ArgumentRules:
        if self._rules is None:
            with self._building:
                if self._rules is None:
                    self._rules = self._build()
        return self._rules

    def _build(self) -> ArgumentRules:
        from fable_exec.argrules import ArgumentRules  # most brokers never ask

        wanted = self._policy.argument_rules.tools
        rules = ArgumentRules.builtin() if wanted is None else ArgumentRules.builtin().narrow(wanted)
        for own in self._own:
            rules = rules.merge(own)
        return rules


def _own_rules(policy: BrokerPolicy) -> tuple[ArgumentRules, ...]:
    documents = policy.argument_rules.documents
    if not documents:
        return ()
    from fable_exec.argrules import ArgumentRules

    faults: list[tuple[str, str]] = []
    found = []
    for index, document in enumerate(documents):
        try:
            found.append(ArgumentRules.from_toml(read_file(document) if PurePath(document).is_absolute() else document))
        except PolicyError as error:
            place = f"argument_rules.documents[{index}]"
            faults += [(f"{place}: {path}" if path else place, text) for path, text in error.faults]
    if faults:
        raise PolicyError.of(faults)
    return tuple(found)
