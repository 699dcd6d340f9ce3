"""From flags, environment and policy file to what a server needs. Flags win over FABLE_EXEC_*, which wins over FABLE_BROKER_*.

A policy file gives everything that flags and environment do not. Nothing is opened here but the files that are named, and before
that the descriptors that were given are looked at: a number that is not open yet would soon be one of our own.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from fable_exec._sys.given import fault_of_input, fault_of_process
from fable_exec._sys.inherited import read_patiently
from fable_exec.errors import PolicyError
from fable_exec.interpreter import SETTING_PREFIXES
from fable_exec.policy import BrokerPolicy, Confinement, read_document, read_json
from fable_exec.policy.document import read_text

__all__ = ["PROGRAM", "AdminOptions", "Options", "read_options"]

PROGRAM = "python -m fable_exec.server"

_DESCRIPTION = "Serve one broker over JSON lines on standard input and output. Exits 2 when the policy is not valid."
_MAX_DIGEST_FILE_BYTES = 4096
_NUMBER = re.compile("-?[0-9]{1,18}", re.ASCII)


@attrs.frozen(kw_only=True)
class AdminOptions:
    """Where the admin speaks; None means not there."""

    descriptor: int | None = None
    file: Path | None = None
    socket: str | None = None


@attrs.frozen(kw_only=True)
class Options:
    """All that a server is started with."""

    policy: BrokerPolicy
    given_by: Mapping[str, str] = attrs.field(factory=dict)
    """By places in the policy, the flag or variable that gave what stands there."""
    admin: AdminOptions
    host: int | None = None
    """A descriptor of the process whose end is ours (pidfd_open(2))."""


def read_options(
    arguments: Sequence[str], environment: Mapping[str, str], program: str = PROGRAM, description: str = _DESCRIPTION
) -> Options:
    """The options of this command line.

    Args:
        program, description: how the user calls it, for help and complaints, and what it does.

    Raises:
        PolicyError: with every fault of the policy, or of the settings. The descriptor of the policy is closed, others are not.
        SystemExit: the command line is not of its form (argparse has printed why), or asked for help.
    """
    flags = _parser(program, description).parse_args(arguments)
    _take_given(flags)
    document, given_by = _completed(flags, environment)
    policy = BrokerPolicy.from_mapping(document, given_by=given_by)
    file = flags.admin_file or _setting(environment, "ADMIN_FILE")
    socket = flags.admin_socket or _setting(environment, "ADMIN_SOCKET")
    admin = AdminOptions(descriptor=flags.admin_fd, file=None if file is None else Path(file), socket=socket)
    return Options(policy=policy, given_by=given_by, admin=admin, host=flags.host_fd)


def _parser(program: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        allow_abbrev=False,
    )
    policy = parser.add_argument_group("policy")
    policy.add_argument("--workspace", metavar="DIRECTORY", help="the directory that requests work in")
    policy.add_argument("--allow", metavar="NAME", action="append", default=[], help="what may run; may be repeated")
    policy.add_argument("--allow-executable", dest="allow", action="append", help=argparse.SUPPRESS)  # its longer name
    policy.add_argument("--max-output-bytes", metavar="N", type=_whole_number, help="cap of each output stream and of one read")
    policy.add_argument("--confinement", choices=("strict", "off"), help="what the kernel holds; the policy's, else strict")
    policy.add_argument("--policy", metavar="FILE", help="TOML or JSON; flags win over it")
    policy.add_argument("--policy-fd", metavar="N", type=_whole_number, help="an inherited descriptor with the policy as JSON")
    policy.add_argument("--audit-log", metavar="FILE", help="absolute path, outside the workspace")
    policy.add_argument("--write-token-digest", metavar="HEX", help="SHA-256 of the token that unlocks writes")
    policy.add_argument("--write-token-digest-file", metavar="FILE", help="a file that holds it")
    parser.add_argument(
        "--host-fd", metavar="N", type=_whole_number, help="an inherited descriptor of a process; end when that ends"
    )
    admin = parser.add_argument_group("admin's channels, never to be reachable by a model")
    admin.add_argument("--admin-fd", metavar="N", type=_whole_number, help="an inherited descriptor")
    admin.add_argument("--admin-file", metavar="FILE", help="a private command file outside the workspace")
    admin.add_argument("--admin-socket", metavar="ADDRESS", help="path of a Unix socket, or 127.0.0.1:PORT (0 chooses one)")
    return parser


def _whole_number(text: str) -> int:
    """int() takes other digits, blanks and underscores as well, and whoever answers it repeats any number of digits."""
    if not _NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a whole number: {text!a:.50}")
    return int(text)


def _take_given(flags: argparse.Namespace) -> None:
    """See that each descriptor is what it was given for, and keep it from our children. Raises PolicyError with every fault."""
    given = {"--policy-fd": flags.policy_fd, "--admin-fd": flags.admin_fd, "--host-fd": flags.host_fd}
    named = {flag: descriptor for flag, descriptor in given.items() if descriptor is not None}
    faults = []
    for flag, descriptor in named.items():
        fault = fault_of_process(descriptor) if flag == "--host-fd" else fault_of_input(descriptor)
        if fault is None and list(named.values()).count(descriptor) > 1:
            fault = "is given twice"
        if fault is not None:
            faults.append((flag, f"descriptor {descriptor} {fault}"))
    if faults:
        raise PolicyError.of(faults, "invalid setting")
    for descriptor in named.values():
        os.set_inheritable(descriptor, False)


def _completed(flags: argparse.Namespace, environment: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The policy file's members with those that flags and environment give, and who gave what."""
    document = _document(flags)
    given_by: dict[str, str] = {}
    for name, flag, value in (
        ("workspace", "--workspace", flags.workspace),
        ("allowed_executables", "--allow", flags.allow or None),
        ("max_output_bytes", "--max-output-bytes", flags.max_output_bytes),
        ("write_token_digest", *_token_digest(flags, environment)),
    ):
        if value is not None:
            document[name], given_by[name] = value, flag
    if flags.confinement is not None:
        document["confinement"] = attrs.asdict(Confinement.named(flags.confinement))
    if flags.audit_log is not None:
        rules = document.get("audit")
        document["audit"] = {**(rules if isinstance(rules, dict) else {}), "path": flags.audit_log}
        given_by["audit.path"] = "--audit-log"
    if document.get("workspace") is None:
        given_by["workspace"] = "--workspace, or a --policy that names one"
    return document, given_by


def _document(flags: argparse.Namespace) -> dict[str, Any]:
    """The members of the policy file, not yet a policy: flags may still complete it."""
    if flags.policy is not None and flags.policy_fd is not None:
        raise PolicyError.of([("", "give either --policy or --policy-fd")])
    if flags.policy is not None:
        return read_document(flags.policy)
    if flags.policy_fd is not None:
        return read_json(_read_descriptor(flags.policy_fd))
    return {}


def _read_descriptor(descriptor: int) -> str:
    try:
        with os.fdopen(descriptor, "rb") as file:
            return read_text(partial(read_patiently, file.fileno()))
    except OSError as error:
        raise PolicyError.of([("--policy-fd", f"descriptor {descriptor} cannot be read: {error.strerror}")]) from error


def _token_digest(flags: argparse.Namespace, environment: Mapping[str, str]) -> tuple[str, str | None]:
    """The flag or variable that gives the digest, and the digest, from the first level that gives one.

    The levels are flags, then FABLE_EXEC_*, then FABLE_BROKER_*.
    """
    levels = [("--write-token-digest", "--write-token-digest-file", flags.write_token_digest, flags.write_token_digest_file)]
    for prefix in SETTING_PREFIXES:
        one, other = f"{prefix}WRITE_TOKEN_DIGEST", f"{prefix}WRITE_TOKEN_DIGEST_FILE"
        levels.append((one, other, environment.get(one, "").strip(), environment.get(other, "").strip()))
    for by_itself, in_a_file, digest, file in levels:
        if digest and file:
            raise PolicyError.of([("", f"give either {by_itself} or {in_a_file}, not both")])
        if digest:
            return by_itself, digest
        if file:
            return in_a_file, _digest_from(file, in_a_file)
    return "", None


def _digest_from(path: str, given_by: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_DIGEST_FILE_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise PolicyError.of([(given_by, f"cannot be read: {error.strerror}: {path!a:.200}")]) from error


def _setting(environment: Mapping[str, str], name: str) -> str | None:
    return next((value for prefix in SETTING_PREFIXES if (value := environment.get(prefix + name, "").strip())), None)
