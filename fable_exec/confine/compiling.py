"""From policy and support to a plan for one lock state. Pure: the same arguments give the same plan, golden tests read it."""

from __future__ import annotations

from typing import Any

from fable_exec.confine import resources
from fable_exec.confine.applied import applied_for, refuse_unmet
from fable_exec.confine.plan import PRIVATE_ENVIRONMENT, LauncherMode, LaunchMode, Plan, Step
from fable_exec.confine.support import Support, explain_errno
from fable_exec.confine.view import COMMAND_HOME, FileView
from fable_exec.errors import ConfinementUnavailable
from fable_exec.policy.confinement import Confinement
from fable_exec.policy.values import BrokerPolicy, Limits

__all__ = ["choose_mode", "compile_command_plan", "compile_kept_plan", "compile_plan"]

_COMMAND_UMASK = 0o022
_HOST_NAME = "localhost"
"""The one name that /etc/hosts of every system has: a command that looks up its own host finds the loopback."""
_BASE_NAMESPACES = ("mount", "pid", "ipc", "uts")
_VIEW_ENVIRONMENT = (("HOME", COMMAND_HOME), ("TMPDIR", "/tmp"))


def choose_mode(launch: LaunchMode, support: Support) -> LauncherMode:
    """The launch mode: the one asked for, or with "auto" the strongest there is.

    Raises:
        ConfinementUnavailable: the mode was asked for by name and this host cannot do it.
    """
    namespaces = "" if support.namespaces else f"no namespaces ({explain_errno(support.user_namespaces)})"
    own_proc = f"no /proc of its own ({explain_errno(support.own_proc)})" if support.own_proc else ""
    missing: dict[LauncherMode, str] = {"slots": namespaces or own_proc, "namespace": namespaces, "plain": ""}
    if launch == "auto":
        return next(mode for mode, reason in missing.items() if not reason)
    if missing[launch]:
        raise ConfinementUnavailable(
            f'launch mode "{launch}" cannot be had here: {missing[launch]}', protection="whole_tree_end", reason=missing[launch]
        )
    return launch


def compile_plan(
    launch: LaunchMode,
    support: Support,
    confinement: Confinement,
    view: FileView,
    limits: Limits | None = None,
    *,
    insist: bool = True,
) -> Plan:
    """How commands are launched under `confinement` with the files of `view`, on a host with `support`.

    What `limits` states is asked for whatever the mode of the protection "resources", which says how much it is insisted on.

    Args:
        insist: refuse where a strict protection is not active; without, `applied` of the plan says so and the caller refuses.

    Raises:
        ConfinementUnavailable: a strict protection is not active in this mode on this host.
    """
    mode = choose_mode(launch, support)
    return _plan(mode, launch, support, confinement, view, limits or Limits(), insist=insist, observes=True)


def compile_command_plan(
    policy: BrokerPolicy,
    support: Support,
    runtime_paths: tuple[str, ...],
    *,
    writable: bool,
    hidden: tuple[str, ...] = (),
    insist: bool = True,
) -> Plan:
    """How a broker under `policy` launches commands in one state of its write lock.

    Args:
        runtime_paths: what commands may read and execute besides the system directories.
        writable: writes are unlocked.
        hidden: see `FileView`. insist: see `compile_plan`, which says what is raised, too.
    """
    besides = policy.confinement.runtime_write_paths
    view = FileView(
        workspace=str(policy.workspace),
        writable=writable,
        runtime_paths=(*runtime_paths, *(() if writable else besides)),
        writable_paths=besides if writable else (),
        hidden=hidden,
    )
    return compile_plan(policy.launch, support, policy.confinement, view, policy.limits, insist=insist)


def compile_kept_plan(
    launch: LaunchMode, support: Support, confinement: Confinement, view: FileView, limits: Limits, *, insist: bool = True
) -> Plan:
    """How one supervised job is launched: with namespaces and an init of its own; plain where there are none or it is asked for.

    Args and raises as `compile_plan`. Nobody observes refusals: their observer would have to live as long as the job.
    """
    mode: LauncherMode = "plain" if launch == "plain" or not support.namespaces else "kept"
    return _plan(mode, launch, support, confinement, view, limits, insist=insist, observes=False)


def _plan(
    mode: LauncherMode,
    launch: LaunchMode,
    support: Support,
    confinement: Confinement,
    view: FileView,
    limits: Limits,
    *,
    insist: bool,
    observes: bool,
) -> Plan:
    applied = applied_for(mode, support, confinement, limits, writable=view.writable)
    if insist:
        refuse_unmet(applied, support, launch)
    own_view = mode != "plain" and confinement.confines_files
    restrictions, observer = _restrictions(mode, support, confinement, view, observes=observes)
    return Plan(
        mode=mode,
        namespaces=_namespaces(mode, support, confinement),
        slot_namespaces=("mount", "pid") if mode == "slots" else (),
        stage=_stage(mode, support, confinement, view, limits) if mode != "plain" else (),
        slot=_slot(resources.pid_max(mode, support, limits)) if mode == "slots" else (),
        launcher=(*_launcher(mode, limits), *restrictions),
        command_limits=resources.command_limits(limits),
        watched_limits=resources.watched_limits(mode, support, limits),
        environment=_VIEW_ENVIRONMENT if own_view else PRIVATE_ENVIRONMENT,
        observer=observer,
        applied=applied,
        workspace=view.workspace,
    )


def _namespaces(mode: LauncherMode, support: Support, confinement: Confinement) -> tuple[str, ...]:
    if mode == "plain":
        return ()
    user = ("user",) if support.user_namespaces == 0 else ()
    network = ("net",) if confinement.network == "off" and confinement.mode("network") != "off" else ()
    return (*user, *_BASE_NAMESPACES, *network)


def _stage(mode: LauncherMode, support: Support, confinement: Confinement, view: FileView, limits: Limits) -> tuple[Step, ...]:
    steps: list[Step] = [("private_mounts",), ("host_name", _HOST_NAME)]
    if "net" in _namespaces(mode, support, confinement):
        steps.append(("loopback_up",))
    proc = _own_proc(resources.pid_max(mode, support, limits) if mode == "kept" else 0) if support.own_proc == 0 else None
    if not confinement.confines_files:
        return (*steps, *([proc] if proc else ()))
    return (*steps, *view.stage_steps(proc), ("enter_root",), ("seal_root",))


def _own_proc(pid_max: int) -> Step:
    return ("mount_proc", pid_max) if pid_max else ("mount_proc",)


def _slot(pid_max: int) -> tuple[Step, ...]:
    return (("follow_base",), _own_proc(pid_max), ("no_new_privileges",), ("drop_capabilities",))


def _launcher(mode: LauncherMode, limits: Limits) -> tuple[Step, ...]:
    steps: list[Step] = [("umask", _COMMAND_UMASK), ("no_core_files",), *resources.launcher_steps(limits)]
    steps += [("no_new_privileges",), ("no_root_privileges",)]
    steps.append(("drop_capabilities",) if mode in ("plain", "kept") else ("keep_launcher_capabilities",))
    return tuple(steps)


def _restrictions(
    mode: LauncherMode, support: Support, confinement: Confinement, view: FileView, *, observes: bool
) -> tuple[list[Step], dict[str, Any] | None]:
    """The steps, and what the observer of refusals is told, if there is one."""
    wants_files = bool(support.landlock_abi) and confinement.confines_files
    wants_calls = not support.seccomp_reason and confinement.mode("kernel_surface") != "off"
    if not wants_files and not wants_calls:
        return [], None
    from fable_exec.confine import restricting  # tables that only a confined plan needs

    steps = [restricting.file_step(mode, support, confinement, view)] if wants_files else []
    if not wants_calls:
        return steps, None
    filtering, observer = restricting.call_step(mode, support, confinement, view, observes=observes)
    return [*steps, filtering], observer
