"""`fable-exec run`: one command through a broker of its own, its output passed through, its end told by the exit status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs
import click

from fable_exec.broker import ExecutionBroker, StartedCommand
from fable_exec.broker.surroundings import notes_on_git
from fable_exec.cli.exits import Exit, of_result, of_run_failure, of_signal
from fable_exec.cli.feeding import feed_in_background, is_left_unread
from fable_exec.cli.interruptions import Interruptions, interrupt_with_parent
from fable_exec.cli.notes import bounds_of, notes_on, signal_name
from fable_exec.cli.outlets import Outlet, OutletGone
from fable_exec.cli.run_policy import UNLOCK_TOKEN, RunRules, check_is_there, givers, run_policy
from fable_exec.cli.showing import at_the_door, print_object, say
from fable_exec.errors import InvalidRequest, LaunchFailed, PathDenied, PathError, PolicyError, WritesLocked
from fable_exec.outcome import display_text
from fable_exec.policy import BrokerPolicy, is_environment_name
from fable_exec.protocol import CommandResult, ExecuteCommand, StartCommand, encode_answer, encode_result
from fable_exec.runner import Output

__all__ = ["command"]

_LOOK_SECONDS = 0.25
"""How often to look whether our reader is gone while there is nothing to write."""
_GIT_FAILED = 128
"""git's status for what it cannot go on with."""
_GIT_ASKS_WHO = b'git config --global user.email "'
"""git says this in every language where it has no identity."""


def _variables(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _value in pairs:
        if equals and not is_environment_name(name):
            raise click.BadParameter(f'"{display_text(name)}" is no name that a variable can have')
        if not equals:
            raise click.BadParameter(f'"{display_text(name)}" is not NAME=VALUE; a policy\'s environment.inherit passes ours on')
        if name == "PATH":
            raise click.BadParameter(
                "PATH says where programs are found: give a policy's environment.path, or change our own PATH"
            )
    return {name: value for name, _, value in pairs}


@click.command(
    "run", short_help="Run one command and end all that it started.", context_settings={"allow_interspersed_args": False}
)
@click.option("--workspace", metavar="DIRECTORY", help="The directory to run in. [required unless the policy names it]")
@click.option("--policy", "file", metavar="FILE", help="TOML or JSON; flags win. Without one just ARGV's program may run.")
@click.option("--policy-env", "variable", metavar="NAME", help="A variable of our environment that holds the policy, as JSON.")
@click.option("--allow", metavar="NAME", multiple=True, help="What may run, instead of that; may be repeated.")
@click.option("--allow-executable", "allow_executable", multiple=True, hidden=True)  # the longer name that `serve` always had
@click.option("--timeout", metavar="SECONDS", type=float, help="End everything after this time. [default: the policy's, 120]")
@click.option("--idle-timeout", metavar="SECONDS", type=float, help="End everything after this time without output.")
@click.option("--cwd", metavar="DIRECTORY", help="Where to run, below the workspace.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, callback=_variables, help="Set a variable; may be repeated.")
@click.option("--stdin", "feed", is_flag=True, help="Pass our standard input on. [default: the command gets /dev/null]")
@click.option("--unlocked", is_flag=True, help="Unlock workspace writes, as the administrator.")
@click.option(
    "--confinement", type=click.Choice(["strict", "off"]), help="What the kernel holds. [default: the policy's, else strict]"
)
@click.option("--end-with", metavar="PID", type=int, help="End everything when our parent, which has this PID, ends.")
@click.option("--stream/--no-stream", default=None, help="Pass output on at once, or when all is over. [default: --stream]")
@click.option("--json", "as_json", is_flag=True, help="Print one object with the result instead of the output.")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    workspace: str | None,
    file: str | None,
    variable: str | None,
    allow: tuple[str, ...],
    allow_executable: tuple[str, ...],
    timeout: float | None,
    idle_timeout: float | None,
    cwd: str | None,
    env: Mapping[str, str],
    feed: bool,
    unlocked: bool,
    confinement: str | None,
    end_with: int | None,
    stream: bool | None,
    as_json: bool,
    argv: tuple[str, ...],
) -> int:
    """Run ARGV in a workspace; when this returns, nothing that it started is alive.

    \b
    Exit status: the command's own, or
      2      wrong usage
      124    a timeout ended it
      125    fable-exec itself failed
      126    refused, or not executable, or a planted file that the policy counts as a failure
      127    not found
      137    ended for too much output
      128+N  ended by signal N, or we were: 130 Ctrl-C, 143 SIGTERM
      141    nobody reads the output any more
    """
    if file is not None and variable is not None:
        raise click.UsageError("Give either --policy or --policy-env.")
    if workspace is None and file is None and variable is None:
        raise click.UsageError("Give --workspace, or a --policy that names one." + _behind_the_program(argv))
    if as_json and stream:
        raise click.UsageError("--json prints one object; --stream does not go with it.")
    run = _Run(
        rules=RunRules(
            workspace=workspace,
            file=file,
            variable=variable,
            allow=allow + allow_executable,
            environment=env,
            unlocked=unlocked,
            confinement=confinement,
        ),
        end_with=end_with,
        stream=not as_json if stream is None else stream,
        as_json=as_json,
    )

    def act() -> int:
        with _as_typed({"cwd": cwd, "timeout_seconds": timeout, "idle_timeout_seconds": idle_timeout}):
            request = StartCommand(
                command=argv, cwd=cwd, timeout_seconds=timeout, idle_timeout_seconds=idle_timeout, keep_stdin_open=feed
            )
            return run.do(request)

    return at_the_door(act, as_json=as_json, status_of=of_run_failure)


def _behind_the_program(argv: tuple[str, ...]) -> str:
    """What to say when the flag that is missing stands where the program's own arguments do."""
    flag = next((word for word in argv[1:] if word.partition("=")[0] in ("--workspace", "--policy")), None)
    if flag is None:
        return ""
    return (
        f" {display_text(flag)} stands after {display_text(argv[0])}, so it is that program's: put our flags before the program."
    )


_OPTIONS = {"cwd": "--cwd", "timeout_seconds": "--timeout", "idle_timeout_seconds": "--idle-timeout"}


@contextmanager
def _as_typed(given: Mapping[str, str | float | None]) -> Iterator[None]:
    """A refusal of a member of the request names the option that it came from: that is what was typed."""
    try:
        yield
    except (PathDenied, PathError) as error:
        if given["cwd"] is None or error.reason in ("workspace-gone", "workspace-moved"):
            raise
        raise error.reworded(f"--cwd{str(error).removeprefix('path')}") from None  # the one path of a run
    except InvalidRequest as error:
        member, _, rule = str(error).partition(" ")
        value = given.get(member)
        if value is None:
            raise
        shown = f"{value:g}" if isinstance(value, float) else ascii(value)
        raise error.reworded(f"{_OPTIONS[member]} {shown} {rule}") from None


@attrs.frozen(kw_only=True)
class _Run:
    """One run, from flags to exit status."""

    rules: RunRules
    end_with: int | None
    stream: bool
    as_json: bool

    def do(self, request: StartCommand) -> int:
        program = request.command[0]
        policy = run_policy(self.rules, program)
        check_is_there(policy, program)
        with Interruptions() as interruptions:
            if self.end_with is not None:
                interrupt_with_parent(self.end_with)
            try:
                with self._opened(policy) as broker:
                    result = self._follow(broker, request, interruptions)
            except LaunchFailed:
                if interruptions.received is None:
                    raise
                result = None  # cancelled before it had begun
            signal = interruptions.received
        if result is not None:
            self._report(result, request, policy, signal)
        elif signal is not None:
            say(f"interrupted by {signal_name(signal)}: nothing was started")
        return of_signal(signal) if signal is not None else of_result(result) if result is not None else Exit.OWN_FAILURE

    def _opened(self, policy: BrokerPolicy) -> ExecutionBroker:
        """A broker; what it finds at its start is told by the flag that gave it, as faults of the policy are."""
        try:
            return ExecutionBroker(policy)
        except PolicyError as error:
            raise error.told_by(givers(self.rules)) from None

    def _follow(self, broker: ExecutionBroker, request: StartCommand, interruptions: Interruptions) -> CommandResult | None:
        """The result of a command that ran; None when a signal came before it was started."""
        if self.rules.unlocked:
            broker.unlock_writes(UNLOCK_TOKEN)
        if interruptions.received is not None:
            return None
        with _started(broker, request, self.rules.unlocked) as started:
            interruptions.call(started.cancel)
            if request.keep_stdin_open:
                feed_in_background(started)
            outlets = {name: Outlet(number, interruptions.descriptor) for name, number in (("stdout", 1), ("stderr", 2))}
            return _to_the_end(started, outlets, self.stream)

    def _report(self, result: CommandResult, request: StartCommand, policy: BrokerPolicy, signal: int | None) -> None:
        if self.as_json:
            print_object(encode_answer(encode_result(result, ExecuteCommand(command=request.command))))
            return
        if not self.stream:
            Outlet(1).write(result.stdout_raw)
            Outlet(2).write(result.stderr_raw)
        for note in notes_on(result, streamed=self.stream, interrupted_by=signal, bounds=bounds_of(policy, request)):
            say(note)
        wanted_input = not result.success or not result.stdout_total_bytes
        if wanted_input and not request.keep_stdin_open and is_left_unread():
            say("something waits on standard input, which the command did not get: --stdin passes it on")
        if result.exit_code == _GIT_FAILED:
            for note in notes_on_git(policy, result.confinement):
                say(note)
            if _GIT_ASKS_WHO in result.stderr_raw:
                say(
                    "git has no identity here: --env GIT_AUTHOR_NAME=... with GIT_AUTHOR_EMAIL, GIT_COMMITTER_NAME and "
                    "GIT_COMMITTER_EMAIL, or the four in environment.set of a policy"
                )


def _started(broker: ExecutionBroker, request: StartCommand, unlocked: bool) -> StartedCommand:
    try:
        return broker.begin_command(request)
    except WritesLocked as error:
        if unlocked:
            raise
        raise error.reworded(f"{error}; --unlocked runs it with the workspace writable") from None


def _to_the_end(started: StartedCommand, outlets: Mapping[str, Outlet], stream: bool) -> CommandResult:
    """Pass events on until there are no more.

    Raises:
        OutletGone: nobody reads them any more. LaunchFailed: the command never ran.
    """
    while started.result is None:
        event = started.next_event(_LOOK_SECONDS)
        if isinstance(event, Output) and stream:
            outlets[event.stream].write(event.data)
        elif started.result is None and outlets["stdout"].gone:
            raise OutletGone
    return started.result
