"""`fable-exec supervise stop` and `wait`."""

from __future__ import annotations

import click

from fable_exec.cli.exits import Exit
from fable_exec.cli.showing import print_object, say
from fable_exec.cli.supervise.options import AS_JSON, ID, ROOT, door, found_in, seconds
from fable_exec.cli.supervise.words import how_it_ended
from fable_exec.supervisor import Supervisor

__all__ = ["stop", "wait"]


@click.command("stop", short_help="Ask for the end of a job.")
@ROOT
@AS_JSON
@ID
def stop(root: str | None, as_json: bool, execution_id: str) -> int:
    """Ask for the end of a job: SIGTERM now, SIGKILL after its grace. Returns at once; `wait` waits for the end.

    Exit status: 0 when it is asked for, or had ended already.
    """

    def act() -> int:
        with Supervisor(root) as supervisor:
            execution = supervisor.request_stop(execution_id)
        if as_json:
            print_object(execution.to_members())
        elif execution.is_over:
            say(f"{execution_id} {how_it_ended(execution.to_members())}")
        else:
            say(f"{execution_id} is asked to stop")
        return Exit.OK

    return door(act, as_json)


@click.command("wait", short_help="Wait for the end of a job, and exit as it did.")
@ROOT
@click.option("--timeout", metavar="SECONDS", type=float, callback=seconds, help="Wait no longer. [default: as long as it takes]")
@AS_JSON
@ID
def wait(root: str | None, timeout: float | None, as_json: bool, execution_id: str) -> int:
    """Wait for the end of a job, and exit as it did. Ending this ends the waiting and nothing else.

    \b
    Exit status: the job's own, 128+N where signal N ended it, or
      4      no such execution
      5      whose it is, or how it fares, cannot be verified
      124    --timeout ran out
      125    it never ran, or nobody was told how it ended (126, 127: as `run`)
    """

    def act() -> int:
        with Supervisor(root) as supervisor:
            try:
                execution, status = (found := supervisor.wait(execution_id, timeout)), found.exit_status
            except TimeoutError:
                execution, status = found_in(supervisor, execution_id), int(Exit.TIMED_OUT)
        if as_json:
            print_object(execution.to_members())
        else:
            say(f"{execution_id} {how_it_ended(execution.to_members())}")
        return status

    return door(act, as_json)
