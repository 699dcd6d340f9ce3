"""How the text of a command line is judged: by the argument rules that come with the library, narrowed and added to.

The rules themselves are `fable_exec.argrules`; here it is only said which of them count, and what a refusal means.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import attrs

from fable_exec.policy.fields import ruled, settle, texts, texts_or_none
from fable_exec.policy.forms import rules_document
from fable_exec.policy.rules import Items, OneOf, OrNone, Text

__all__ = ["ArgumentPolicy"]


@attrs.frozen(kw_only=True)
class ArgumentPolicy:
    """Rules about arguments. They see words, not what a program does with them: advisory unless the kernel confines it."""

    mode: Literal["off", "advisory", "enforce"] = attrs.field(
        default="off",
        metadata=ruled(
            OneOf(("off", "advisory", "enforce")),
            "Not asked, asked and written down, or asked and obeyed: a command that they refuse is then denied.",
        ),
    )
    unknown_tools: Literal["allow", "deny"] = attrs.field(
        default="deny",
        metadata=ruled(OneOf(("allow", "deny")), "What a listed executable without a rule is, when the rules are obeyed."),
    )
    tools: tuple[str, ...] | None = attrs.field(
        default=None,
        converter=texts_or_none,
        metadata=ruled(
            OrNone(Items(Text(str, {"minLength": 1}))),
            "Names of the tools whose rules that come with the library are kept, the others are refused; null keeps all.",
        ),
    )
    documents: tuple[str, ...] = attrs.field(
        default=(),
        converter=texts,
        metadata=ruled(
            Items(Text(rules_document, {"minLength": 1})),
            "More rules: TOML text, or absolute paths of TOML files outside the workspace; a tool must pass all that know it.",
        ),
    )

    def __attrs_post_init__(self) -> None:
        settle(self)

    @property
    def paths(self) -> tuple[str, ...]:
        """Those of the documents that are named by their path: no TOML text begins like one."""
        return tuple(document for document in self.documents if PurePath(document).is_absolute())
