"""The page of the command line names every option that a command has, and rows that show all of them show no other."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from fable_exec.cli.program import commands
from tests.cli.typed import PROJECT

PAGE = (PROJECT / "docs/reference/cli.md").read_text().replace("\\|", "|")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def leaves(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that takes no further one, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, *names, name)
        elif command is not None:
            yield " ".join((*names, name)), command


LEAVES = dict(leaves(commands))


def options_of(command: click.Command) -> set[str]:
    """The long names that `--help` shows."""
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return {name for each in shown for name in (*each.opts, *each.secondary_opts) if name.startswith("--")}


def rows() -> Iterator[tuple[str, set[str]]]:
    """The words of each command that the first table shows with all its options, and those."""
    for usage in re.findall(r"^\| `fable-exec ([^`]*)`", PAGE, re.MULTILINE):
        words = re.match(r"[a-z|-]+(?: [a-z|]+)?", usage)
        assert words is not None, usage
        if "[FLAGS]" not in usage and words[0].split()[0] != "supervise":
            *group, names = words[0].split()
            for name in names.split("|"):
                yield " ".join((*group, name)), set(OPTION.findall(usage))


def test_a_row_shows_the_options_of_its_command() -> None:
    found = dict(rows())
    assert len(found) > 12
    assert found == {words: options_of(LEAVES[words]) for words in found}


@pytest.mark.parametrize("words", LEAVES)
def test_every_option_of_a_command_is_on_the_page(words: str) -> None:
    assert options_of(LEAVES[words]) - set(OPTION.findall(PAGE)) == set()
