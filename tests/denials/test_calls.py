"""What is told of calls that the filter refuses, and that a command can have no listener of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fable_exec import Confinement, ConfinementUnavailable, EnvironmentPolicy
from fable_exec.policy import Protections
from tests.confinement.places import confined, in_modes, run
from tests.denials.told import PROGRAMS, python, told

pytestmark = pytest.mark.requires_ability("linux")


@in_modes()
def test_calls_of_the_kernels_surface_are_told(mode: str, workspace: Path) -> None:
    text = (
        "import ctypes, errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == -1 and ctypes.get_errno() == errno.EPERM\n"
        "assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM\n"
        "assert libc.ptrace(0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM\n"
    )
    with confined(workspace, mode, allowed_executables=PROGRAMS) as broker:
        result = python(broker, text)
    assert result.success, result.stderr
    assert told(result) == {
        ("mount", "", "kernel_surface"),
        ("unshare", "", "kernel_surface"),
        ("ptrace", "", "other_processes"),
    }


LEAKS = "#include <stdlib.h>\nint main(void) { void *volatile kept = malloc(7); kept = 0; return 0; }\n"


@pytest.fixture
def sanitized(tmp_path: Path) -> tuple[str, str]:
    """A program that loses memory, built with AddressSanitizer and with LeakSanitizer alone."""
    (tmp_path / "leaks.c").write_text(LEAKS)
    for name in ("address", "leak"):
        argv = ["gcc", f"-fsanitize={name}", "-o", str(tmp_path / name), str(tmp_path / "leaks.c")]
        built = subprocess.run(argv, capture_output=True, text=True)
        if built.returncode:
            pytest.skip(f"gcc without -fsanitize={name}: {built.stderr[-200:]}")
    return str(tmp_path / "address"), str(tmp_path / "leak")


@pytest.mark.requires_ability("gcc")
@in_modes()
def test_leak_sanitizer_fails_and_is_told_what_to_do(mode: str, workspace: Path, sanitized: tuple[str, str]) -> None:
    environment = EnvironmentPolicy(set={"ASAN_OPTIONS": "detect_leaks=0"})
    with confined(workspace, mode, allowed_executables=sanitized) as broker:
        for program in sanitized:
            result = broker.execute_command((program,))
            assert not result.success and "LeakSanitizer does not work under ptrace" in result.stderr
            assert told(result) == {("ptrace", "", "other_processes")}
            assert "detect_leaks=0" in result.denials[0].suggestion
    with confined(workspace, mode, allowed_executables=sanitized, environment=environment) as broker:
        assert run(broker, sanitized[0]).denials == ()
    if mode == "plain":  # where the filter is all that holds some strict protections
        surface_off = Confinement(protections=Protections(kernel_surface="off"))
        with confined(workspace, mode, allowed_executables=sanitized, confinement=surface_off) as broker:
            with pytest.raises(ConfinementUnavailable):
                broker.execute_command((sanitized[0],))
    without = Confinement.off() if mode == "plain" else Confinement(protections=Protections(kernel_surface="off"))
    with confined(workspace, mode, unlocked=True, allowed_executables=sanitized, confinement=without) as broker:
        for program in sanitized:
            assert "7 byte(s) leaked" in broker.execute_command((program,)).stderr


NOTIFYING = """
import ctypes, errno, struct
libc = ctypes.CDLL(None, use_errno=True)
program = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
class Fprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))
assert libc.prctl(38, 1, 0, 0, 0) == 0
number = {"x86_64": 317, "aarch64": 277}[__import__("platform").machine()]
assert libc.syscall(number, 1, 8, ctypes.byref(Fprog(1, ctypes.addressof(program)))) == -1
print(errno.errorcode[ctypes.get_errno()])
assert libc.syscall(number, 1, 0, ctypes.byref(Fprog(1, ctypes.addressof(program)))) == 0
"""


@pytest.mark.requires_ability("confinement")
def test_a_command_cannot_have_a_listener_of_its_own_but_filters(workspace: Path) -> None:
    with confined(workspace, allowed_executables=PROGRAMS) as broker:
        assert run(broker, "python3", "-c", NOTIFYING).stdout == "EBUSY\n"
    with confined(workspace, confinement=Confinement(observe="off"), allowed_executables=PROGRAMS) as broker:
        assert python(broker, NOTIFYING).stdout != "EBUSY\n"
