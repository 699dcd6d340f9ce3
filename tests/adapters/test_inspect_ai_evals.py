"""Whole evaluations in the sandbox "fable": inspect-ai's own loop and tools, with a model that reads from a script.

Where inspect-ai is not installed this is skipped.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.inspect_samples import Call, sample_names, scripted
from tests.cli.typed import PROJECT, is_running
from tests.waiting import until

pytestmark = [
    pytest.mark.requires_ability("inspect_ai"),
    pytest.mark.requires_ability("confinement", "own_proc"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),  # inspect-ai's own, as is the next
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the samples' directories and inspect-ai's own files are. What inspect-ai left open is collected here, not in another
    test."""
    directory = tmp_path / "place"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    for name in ("TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(directory))
    yield directory
    gc.collect()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    def evaluation(
        *turns: Sequence[Call], tools: Sequence[Any], samples: Sequence[Any] = (), most: int | None = None, **task: Any
    ) -> Any:
        """The log of one evaluation, whose model makes these calls."""
        from inspect_ai import Task, eval
        from inspect_ai.dataset import Sample
        from inspect_ai.solver import generate, use_tools

        made = Task(
            dataset=list(samples) or [Sample(input="go")],
            solver=[use_tools(*tools), generate()],
            **{"sandbox": "fable", **task},
        )
        options = {"display": "none", "log_dir": str(tmp_path / "logs"), "log_level": "error", "max_subprocesses": most}
        (log,) = eval(made, model=scripted(turns), **options)
        return log

    return evaluation


def told(log: Any, sample: int = 0) -> list[Any]:
    """What the model was told of its calls."""
    return [message for message in log.samples[sample].messages if message.role == "tool"]


def bash(command: str) -> Call:
    return ("bash", {"command": command})


def scoring(look: Callable[[], Awaitable[bool]]) -> Any:
    """A scorer that looks at the sandbox."""
    from inspect_ai.scorer import Score, accuracy, scorer

    def make() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value=int(await look()))

        return score

    return scorer(metrics=[accuracy()])(make)()


def test_tools_files_and_setup_share_the_sandbox(run: Callable[..., Any], place: Path) -> None:
    from inspect_ai.dataset import Sample
    from inspect_ai.tool import bash as bash_tool
    from inspect_ai.tool import python

    sample = Sample(
        input="go",
        files={"given.txt": "given ✨\n", "deep/er.txt": "deeper\n", "/tmp/absolute.txt": "absolute\n"},
        setup="cat given.txt > made-by-setup; echo $PWD >> made-by-setup",
    )
    log = run(
        [bash("cat made-by-setup deep/er.txt /tmp/absolute.txt; pwd; ls")],
        [("python", {"code": "print('grün', 6 * 7, open('given.txt').read())"})],
        [bash("echo grün > ü.txt; cat ü.txt; exit 3")],
        tools=[bash_tool(), python()],
        samples=[sample],
    )
    assert log.status == "success", log.error
    first, second, third = told(log)
    root = first.text.splitlines()[1]
    assert first.text == f"given ✨\n{root}\ndeeper\nabsolute\n{root}\ndeep\ngiven.txt\nmade-by-setup\n"
    assert Path(root).parent == place.resolve()
    assert (second.text, third.text) == ("grün 42 given ✨\n\n", "grün\n")
    assert sample_names(place) == []


def test_what_the_policy_and_the_kernel_refuse_is_told_to_the_model(run: Callable[..., Any], tmp_path: Path) -> None:
    from inspect_ai.tool import bash as bash_tool

    (tmp_path / "policy.toml").write_text('allowed_executables = ["python3"]\n')
    log = run([bash("echo never")], tools=[bash_tool()], sandbox=("fable", str(tmp_path / "policy.toml")))
    (refused,) = told(log)
    assert (refused.error.type, "allow-list" in refused.error.message) == ("permission", True)
    log = run([bash("touch /usr/new; touch /etc/new; echo done")], tools=[bash_tool()])
    (kept,) = told(log)
    assert kept.text.count("Read-only file system") == 2
    assert kept.text.endswith("done\n")


def test_what_the_policy_says_holds_in_every_sample(run: Callable[..., Any], tmp_path: Path) -> None:
    from inspect_ai.tool import bash as bash_tool

    document = '[environment]\nset = { COLOUR = "blau" }\n[limits]\nmax_timeout_seconds = 1\n'
    (tmp_path / "policy.toml").write_text(document)
    log = run([bash("echo $COLOUR")], [bash("sleep 600")], tools=[bash_tool()], sandbox=("fable", str(tmp_path / "policy.toml")))
    coloured, late = told(log)
    assert (coloured.text, late.error.type) == ("blau\n", "timeout")


def test_a_timeout_and_too_much_output_end_the_command_and_not_the_sample(run: Callable[..., Any]) -> None:
    from inspect_ai.tool import bash as bash_tool

    marker = f"7{time.time_ns() % 10**9}"
    log = run(
        [bash(f"echo before; setsid sleep {marker} & sleep {marker}")],
        [bash(f"sleep {marker} & yes")],
        [bash("echo after")],
        tools=[bash_tool(timeout=2)],
    )
    late, much, after = told(log)
    assert (late.error.type, much.error.type, after.error) == ("timeout", "limit", None)
    assert "10 MiB" in much.error.message
    assert "before" in late.text or "before" in late.error.message
    assert after.text == "after\n"
    assert not is_running(marker)


def test_large_files_go_in_and_come_out_whole(run: Callable[..., Any]) -> None:
    from inspect_ai.dataset import Sample
    from inspect_ai.tool import bash as bash_tool
    from inspect_ai.util import sandbox

    lines = "\n".join(["0123456789"] * 2_000_000)

    async def is_whole() -> bool:
        there = await sandbox().read_file("given", text=False)
        return bool(there == await sandbox().read_file("/tmp/copy", text=False) == lines.encode())

    log = run(
        [bash("cp given /tmp/copy")],
        tools=[bash_tool()],
        samples=[Sample(input="go", files={"given": lines})],
        scorer=scoring(is_whole),
    )
    assert log.results.scores[0].metrics["accuracy"].value == 1.0


def test_many_samples_and_calls_run_at_once_and_apart(run: Callable[..., Any], place: Path) -> None:
    from inspect_ai.dataset import Sample
    from inspect_ai.tool import bash as bash_tool

    marker = f"7{time.time_ns() % 10**9}"
    calls = [bash(f"cat number; touch made-{number}; sleep {marker} &") for number in range(4)]
    samples = [Sample(input="go", id=number, files={"number": f"{number}\n"}, setup="touch set-up") for number in range(1, 9)]
    log = run(calls, [bash("ls; cat number")], tools=[bash_tool()], samples=samples)
    assert log.status == "success", log.error
    for at, sample in enumerate(log.samples):
        *first, last = [message.text for message in told(log, at)]
        assert first == [f"{sample.id}\n"] * 4
        assert last.split() == ["made-0", "made-1", "made-2", "made-3", "number", "set-up", str(sample.id)]
    assert sample_names(place) == []
    assert not is_running(marker)


def test_no_more_commands_run_at_once_than_the_evaluation_says(run: Callable[..., Any]) -> None:
    from inspect_ai.tool import bash as bash_tool

    calls = [bash("mkdir alone && sleep 0.1 && rmdir alone && echo alone")] * 5
    assert [message.text for message in told(run(calls, tools=[bash_tool()], most=1))] == ["alone\n"] * 5


def test_a_sample_that_runs_out_of_time_leaves_nothing(run: Callable[..., Any], place: Path) -> None:
    from inspect_ai.tool import bash as bash_tool

    marker = f"7{time.time_ns() % 10**9}"
    log = run([bash(f"setsid sleep {marker} & sleep {marker}")], tools=[bash_tool()], time_limit=3)
    assert log.samples[0].limit.type == "time"
    assert not is_running(marker)
    assert sample_names(place) == []


@pytest.mark.parametrize("setup", ["exit 7", "sleep 600"])
def test_a_setup_that_fails_is_the_samples_error_and_leaves_nothing(
    setup: str, run: Callable[..., Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspect_ai.dataset import Sample

    monkeypatch.setenv("INSPECT_SANDBOX_SETUP_TIMEOUT", "1")
    log = run(tools=[], samples=[Sample(input="go", setup=setup)])
    assert log.status == "error"
    assert ("setup" if setup == "exit 7" else "time") in log.error.message.lower()
    assert sample_names(place) == []


def test_inspects_own_tools_in_the_sandbox_keep_their_sessions(run: Callable[..., Any], place: Path) -> None:
    from inspect_ai.tool import bash_session, text_editor
    from inspect_ai.util import sandbox

    async def is_remote() -> bool:
        done = await sandbox().exec_remote(["sh", "-c", "cat new.txt; exit 3"], stream=False)
        return (done.returncode, done.stdout) == (3, "two\n")

    marker = f"7{time.time_ns() % 10**9}"
    log = run(
        [("bash_session", {"action": "type_submit", "input": f"word=kept; sleep {marker} &"})],
        [("bash_session", {"action": "type_submit", "input": "echo $word; pwd; echo one > /tmp/new.txt"})],
        [("text_editor", {"command": "str_replace", "path": "/tmp/new.txt", "old_str": "one", "new_str": "two"})],
        [("bash_session", {"action": "type_submit", "input": "cp /tmp/new.txt new.txt; cat new.txt"})],
        tools=[bash_session(), text_editor()],
        scorer=scoring(is_remote),
    )
    assert log.status == "success", log.error
    _, kept, edited, copied = told(log)
    assert kept.text.startswith(f"kept\n{place.resolve()}/")
    assert edited.error is None
    assert copied.text.startswith("two\n")
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert not is_running(marker)
    assert sample_names(place) == []


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

@solver
def commands():
    async def solve(state, generate):
        state.metadata["root"] = (await sandbox().exec(["pwd"])).stdout.strip()
        done = await sandbox().exec(["sh", "-c", COMMAND])
        state.output.completion = done.stdout
        return state
    return solve

@task
def one():
    return Task(dataset=[Sample(input="go", files={"kept": "kept"})], solver=commands(), sandbox="fable")
"""


def inspect(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "inspect_ai", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def evaluating(cwd: Path, command: str, *more: str) -> subprocess.Popen[str]:
    (cwd / "task.py").write_text(TASK.replace("COMMAND", repr(command)))
    return inspect("eval", "task.py", "--model", "mockllm/model", "--display", "plain", *more, cwd=cwd)


def test_the_command_line_finds_the_sandbox_and_the_policy_beside_the_task(tmp_path: Path, place: Path) -> None:
    (tmp_path / "fable.toml").write_text('[environment]\nset = { COLOUR = "blau" }\n')
    running = evaluating(tmp_path, 'echo "$COLOUR"; ls')
    said, _ = running.communicate()
    assert running.returncode == 0, said
    (written,) = (tmp_path / "logs").iterdir()
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(written))
    assert log.samples[0].output.completion == "blau\nkept\n"
    assert sample_names(place) == []


def test_an_interrupted_evaluation_leaves_nothing(tmp_path: Path, place: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    running = evaluating(tmp_path, f"setsid sleep {marker} & sleep {marker}")
    until(lambda: is_running(marker), 60)
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert not is_running(marker)
    assert sample_names(place) == []


def test_what_a_killed_evaluation_leaves_is_its_directory_which_is_cleaned_up(tmp_path: Path, place: Path) -> None:
    marker = f"7{time.time_ns() % 10**9}"
    running = evaluating(tmp_path, f"setsid sleep {marker} & sleep {marker}")
    until(lambda: is_running(marker), 60)
    used, _ = inspect("sandbox", "cleanup", "fable", cwd=tmp_path).communicate()
    (name,) = sample_names(place)
    assert name not in used
    running.kill()
    running.communicate()
    until(lambda: not is_running(marker))
    assert sample_names(place) == [name]
    other, _ = inspect("sandbox", "cleanup", "fable", "another-name", cwd=tmp_path).communicate()
    assert sample_names(place) == [name]
    left, _ = inspect("sandbox", "cleanup", "fable", name, cwd=tmp_path).communicate()
    assert (name in other, name in left, sample_names(place)) == (False, True, [])


def test_what_is_not_to_be_cleaned_up_stays_and_says_where(tmp_path: Path, place: Path) -> None:
    running = evaluating(tmp_path, "echo made > made", "--no-sandbox-cleanup")
    said, _ = running.communicate()
    assert running.returncode == 0, said
    (name,) = sample_names(place)
    assert sorted(os.listdir(place / name)) == ["kept", "made"]
    assert (str(place) in said, "inspect sandbox cleanup fable" in said) == (True, True)


def test_the_example_runs_and_every_protection_holds() -> None:
    program = [sys.executable, "examples/inspect_eval.py"]
    done = subprocess.run(program, cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every protection held" in done.stdout
