"""The policy that a command line names by a file, in the workspace that it names."""

from __future__ import annotations

import click

from fable_exec.policy import BrokerPolicy, read_document

__all__ = ["WORKSPACE", "given_policy"]

WORKSPACE = click.option("--workspace", metavar="DIRECTORY", help="The workspace. [default: the policy's]")


def given_policy(file: str | None, workspace: str | None) -> BrokerPolicy:
    """The policy of `file`, or the default policy for the current directory; a workspace that is given wins.

    Raises:
        PolicyError: with every fault.
    """
    document = {"workspace": "."} if file is None else read_document(file)
    if workspace is None:
        return BrokerPolicy.from_mapping(document)
    return BrokerPolicy.from_mapping({**document, "workspace": workspace}, given_by={"workspace": "--workspace"})
