"""Where the SDK is not installed."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.typed import PROJECT, environment

WITHOUT = "import sys; sys.modules['mcp'] = None; "


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, *arguments], env=environment(), cwd=PROJECT, capture_output=True, text=True
    )


def test_the_adapter_says_what_to_install() -> None:
    program = """
from fable_exec import ExtraMissing
try:
    import fable_exec.adapters.mcp
except ExtraMissing as error:
    assert error.extra == "mcp"
    print(error)
"""
    assert "fable-exec[mcp]" in python(program).stdout


def test_the_command_says_it_too_and_opens_nothing(tmp_path: object) -> None:
    program = "from fable_exec.__main__ import main; sys.exit(main(sys.argv[1:]))"
    answer = python(program, "mcp", "--workspace", str(tmp_path), "--allow", "true")
    assert answer.returncode == 1 and answer.stdout == "" and "fable-exec[mcp]" in answer.stderr
