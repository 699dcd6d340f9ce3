"""`fable-exec supervise start`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from fable_exec.cli.exits import Exit, of_run_failure, of_supervise_failure
from fable_exec.cli.showing import at_the_door, print_object, say
from fable_exec.cli.supervise.options import AS_JSON, ROOT, canonical, found_in, pairs
from fable_exec.cli.supervise.printing import show_execution
from fable_exec.cli.supervise.proofs import PROOF_GPG_KEYS, PROOF_JWKS, PROOF_PROFILE, PROOF_REQUIRE, SIGNING_KEY
from fable_exec.cli.supervise.words import how_it_ended
from fable_exec.errors import Conflict, PolicyError
from fable_exec.supervisor import Execution, Supervisor

if TYPE_CHECKING:
    from fable_exec.executions.spec import ExecutionSpec

__all__ = ["start"]


@click.command("start", short_help="Start a job, or find it again.", context_settings={"allow_interspersed_args": False})
@ROOT
@click.option(
    "--id", "execution_id", metavar="UUID", callback=canonical, help="Its id: asked for again, it is found. [default: new]"
)
@click.option("--workspace", metavar="DIRECTORY", required=True, help="Where it runs and may write; one live job has it.")
@click.option("--spec", "spec_file", metavar="FILE", help="What it is to do: kept as its spec.md.")
@click.option(
    "--hard-timeout", "hard_timeout_seconds", metavar="SECONDS", type=float, help="End it after this time. [default: never]"
)
@click.option(
    "--idle-timeout",
    "idle_timeout_seconds",
    metavar="SECONDS",
    type=float,
    help="End it after this time without output. [default: never]",
)
@click.option("--stop-grace", "stop_grace_seconds", metavar="SECONDS", type=float, help="From SIGTERM to SIGKILL. [default: 10]")
@click.option("--restarts", metavar="N", type=int, help="How often it may crash and be started again. [default: 0]")
@click.option("--restart-delay", "restart_delay_seconds", metavar="SECONDS", type=float, help="The pause before. [default: 1]")
@click.option(
    "--verdict", type=click.Choice(["exit-code", "proof"]), default="exit-code", help="What success is: status 0, or a proof."
)
@click.option("--engine-dir", metavar="DIRECTORY", help="Its own state directory. [default: .fable in the workspace]")
@PROOF_REQUIRE
@PROOF_GPG_KEYS
@PROOF_JWKS
@PROOF_PROFILE
@SIGNING_KEY
@click.option("--policy", "policy_file", metavar="FILE", help="TOML or JSON. [default: its program may write the workspace]")
@click.option("--boundary", "boundary_file", metavar="FILE", help="TOML: what of the host it gets; a policy narrows that.")
@click.option("--provider", metavar="NAME", help="Start it only if this model provider is ready within the boundary.")
@click.option("--label", metavar="NAME=VALUE", multiple=True, callback=pairs, help="Kept with it; may be repeated.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, callback=pairs, help="Set a variable; may be repeated.")
@click.option("--foreground", is_flag=True, help="Pass its output on, to its end; its exit status is ours.")
@AS_JSON
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def start(
    root: str | None,
    execution_id: str | None,
    label: Mapping[str, str],
    env: Mapping[str, str],
    foreground: bool,
    as_json: bool,
    argv: Sequence[str],
    **flags: Any,
) -> int:
    """Start ARGV as a job of its own; return once it runs, or has ended, and print its state.

    \b
    Exit status:
      0      it runs, or has ended, however: the state says so
      1      nothing was started: the policy does not allow it, the provider is not ready, or no keeper could be had
      2      wrong usage, or a policy or boundary with faults
      3      the id was used for something else, or the workspace has a live job
    With --foreground: the job's own, or as `run` has it (125 to 127, 128+N).
    """

    def act() -> int:
        from fable_exec.cli.supervise.request import specification  # with policies, which no other sub-command needs

        spec = specification(argv, execution_id=execution_id or str(uuid.uuid4()), environment=env, labels=label, **flags)
        with Supervisor(root) as supervisor:
            if foreground:
                return _in_the_foreground(supervisor, spec, as_json)
            show_execution(_started(supervisor, spec), as_json, briefly=True)
        return Exit.OK

    return at_the_door(act, as_json=as_json, status_of=_of_foreground_failure if foreground else of_supervise_failure)


def _started(supervisor: Supervisor, spec: ExecutionSpec) -> Execution:
    try:
        with _told_by_flags(spec):
            return supervisor.start(spec)
    except KeyboardInterrupt:
        say(f"interrupted: whether execution {spec.execution_id} was accepted, `fable-exec supervise show` tells")
        raise


@contextmanager
def _told_by_flags(spec: ExecutionSpec) -> Iterator[None]:
    """Without a policy its faults are those of what was typed."""
    try:
        yield
    except PolicyError as error:
        if spec.policy is not None:
            raise
        raise error.told_by({"allowed_executables": "the program to run", "workspace": "--workspace"}) from None


def _in_the_foreground(supervisor: Supervisor, spec: ExecutionSpec, as_json: bool) -> int:
    """The job's output on our standard output; with `as_json` its state instead, as `run` has it."""
    say(f"execution {spec.execution_id}")
    with _told_by_flags(spec), _silenced(1) if as_json else nullcontext():
        status = supervisor.run_foreground(spec)
    if supervisor.get(str(spec.execution_id)) is None:
        say("interrupted while the provider was asked: nothing was accepted")
        return status
    ended = found_in(supervisor, str(spec.execution_id))
    if as_json:
        print_object(ended.to_members())
    else:
        say(f"{spec.execution_id} {how_it_ended(ended.to_members())}")
    return status


@contextmanager
def _silenced(descriptor: int) -> Iterator[None]:
    kept, null = os.dup(descriptor), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
        os.close(null)


def _of_foreground_failure(error: Exception) -> int:
    """As `run`, save that a conflict stays one."""
    return of_supervise_failure(error) if isinstance(error, Conflict | PolicyError) else of_run_failure(error)
