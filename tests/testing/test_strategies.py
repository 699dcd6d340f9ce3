"""Each strategy keeps the promise that its docstring makes, and what is made of it is worth drawing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fable_exec import lifecycle as lc
from fable_exec.errors import PathDenied
from fable_exec.pathguard import PathProfile, Workspace, WorkspacePath
from fable_exec.policy import BrokerPolicy, dump_json, parse_json
from fable_exec.proofbind import verify_integrity
from fable_exec.testing import ProcessTree, alive_with, strategies
from fable_exec.testing.trees import MOST_PROCESSES, Branch
from tests.waiting import until

some = hypothesis.settings(max_examples=hypothesis.settings.default.max_examples // 4)
"""Of what each profile asks for: the promises are looked at here, and each strategy is drawn from by other tests all day."""


@given(strategies.honest_paths())
@some
def test_an_honest_path_is_taken_by_every_profile_and_can_be_created(text: str) -> None:
    for profile in PathProfile:
        path = WorkspacePath.parse(text, profile)
        assert "/".join(path.components) == text
        assert path.creation_fault() is None


@given(strategies.hostile_paths())
@some
def test_a_hostile_path_is_refused_by_the_words_alone(text: str) -> None:
    with pytest.raises(PathDenied):
        WorkspacePath.parse(text.replace("\\", "/"))


@given(text=strategies.hostile_paths(links=("link", "self"), outside=("/etc/shadow",)))
@hypothesis.settings(some, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_a_hostile_path_through_links_is_refused_too(text: str, workspace: Path) -> None:
    if not (workspace / "link").is_symlink():
        (workspace / "link").symlink_to("/etc")
        (workspace / "self").symlink_to(".")
    with Workspace.open(workspace) as opened:
        for act in (opened.read, lambda path: opened.write_replace(path, b"x"), opened.list):
            with pytest.raises(PathDenied):
                act(WorkspacePath.parse(text.replace("\\", "/")))
    assert sorted(os.listdir(workspace)) == ["link", "self"]


@given(strategies.frame_streams(), st.data())
@some
def test_the_pieces_of_a_stream_are_the_stream(stream: bytes, data: st.DataObject) -> None:
    pieces = data.draw(strategies.splits(stream))
    assert b"".join(pieces) == stream
    assert all(pieces)


@given(strategies.request_lines())
@some
def test_a_line_is_one_line(line: bytes) -> None:
    assert b"\n" not in line


@given(strategies.policies())
@some
def test_a_policy_is_one_that_can_be_written_down_and_loaded(policy: BrokerPolicy) -> None:
    assert parse_json(dump_json(policy)) == policy


@given(strategies.arguments(), strategies.environments(("A", "B")))
@some
def test_arguments_and_variables_can_be_handed_to_any_program(arguments: list[str], variables: dict[str, str]) -> None:
    for text in (*arguments, *variables.values()):
        assert "\0" not in text
        text.encode()
    assert set(variables) <= {"A", "B"}


@given(strategies.lifecycles())
@some
def test_every_life_is_one_that_the_tables_take(life: list[lc.Event]) -> None:
    progress = None
    for event in life:
        progress, _ = lc.step(progress, event)
    assert progress is not None


@given(strategies.proof_documents())
@some
def test_an_honest_proof_is_found_whole(document: dict[str, Any]) -> None:
    assert verify_integrity(document).reasons == ()
    assert verify_integrity(json.dumps(document, indent=1).encode()).ok


@given(strategies.damaged_proofs())
@some
def test_a_damaged_proof_is_never_found_whole(raw: bytes) -> None:
    assert not verify_integrity(raw).ok


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (strategies.proof_documents(), lambda found: found["honesty"]["headline"] == "VERIFIED"),
        (strategies.proof_documents(), lambda found: found["honesty"]["headline"] == "NOT VERIFIED"),
        (strategies.lifecycles(), lambda found: lc.Judged(holds=True) in found),
        (strategies.lifecycles(), lambda found: lc.StopRequested() in found and len(found) > 5),
        (strategies.process_trees(), lambda found: found.staying > 2 and found.exit_code > 0),
        (strategies.process_trees(stays=True), lambda found: any(each.deaf and each.way == "daemon" for each in found.branches)),
        (strategies.hostile_paths(), lambda found: "\0" in found),
        (strategies.hostile_paths(), lambda found: found.startswith("/")),
    ],
)
def test_the_kinds_that_matter_are_drawn(strategy: st.SearchStrategy[Any], wanted: Any) -> None:
    hypothesis.find(
        strategy, wanted, settings=hypothesis.settings(max_examples=2000, database=None, phases=[hypothesis.Phase.generate])
    )


def test_a_tree_is_bounded() -> None:
    nest: tuple[Branch, ...] = ()
    for _ in range(MOST_PROCESSES - 1):
        nest = (Branch(branches=nest),)
    assert ProcessTree(nest).size == MOST_PROCESSES
    for make in (lambda: ProcessTree((Branch(branches=nest),)), lambda: ProcessTree(exit_code=256)):
        with pytest.raises(ValueError, match=r"at most|up to 255"):
            make()
    with pytest.raises(ValueError, match="between 1 and"):
        strategies.process_trees(most=MOST_PROCESSES + 1)


TREES = {
    "alone": ProcessTree(exit_code=3),
    "everything": ProcessTree(
        (
            Branch("child", stays=True, branches=(Branch("daemon", stays=True, deaf=True), Branch("session"))),
            Branch("session", stays=True, keeps_streams=False),
            Branch("daemon", branches=(Branch("child", stays=True),)),
        ),
        exit_code=255,
    ),
}


RUN_AND_LOOK = """
import json, os, subprocess, sys
argv = json.loads(sys.argv[1])
ran = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
code, alive = ran.wait(), []
for pid in filter(str.isdigit, os.listdir("/proc")):
    words = open(f"/proc/{pid}/cmdline").read().rstrip("\\0")
    state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    if words.endswith(argv[-1]) and state != "Z":
        alive.append(int(pid))
for pid in alive:
    os.kill(pid, 9)
print(json.dumps([code, len(alive), sorted(ran.stdout.read().decode().splitlines()), ran.stderr.read().decode()]))
"""


@pytest.mark.requires_ability("pid_namespace")
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_tree_has_the_effects_that_it_promises(tree: ProcessTree, pid_box: Any) -> None:
    """In a box: nobody else ends here what stays."""
    argv = tree.argv("marker-of-this-tree")
    finished = pid_box([sys.executable, "-c", RUN_AND_LOOK, json.dumps(argv), "."], timeout=60)
    assert finished.stderr == ""
    code, alive, words, complaints = json.loads(finished.stdout)
    assert (code, alive, complaints) == (tree.exit_code, tree.staying, "")
    assert tuple(word.encode() for word in words) == tree.words


def test_who_executes_just_now_is_alive() -> None:
    """A process that has just been started has no command line for a moment; every second one was missed once."""
    for _ in range(30):
        marker = f"m-{uuid.uuid4().hex}"
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", marker]) as sleeper:
            try:
                assert alive_with(marker) == [sleeper.pid]
            finally:
                sleeper.kill()


def test_who_is_alive_is_found_by_proc_and_by_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    from fable_exec.testing import processes

    marker = f"m-{uuid.uuid4().hex}"
    sleeper = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", marker])
    try:
        assert alive_with(marker) == [sleeper.pid]
        monkeypatch.setattr(processes, "_living", processes._by_ps)
        assert alive_with(marker) == [sleeper.pid]
        monkeypatch.undo()
        assert processes.end_all_with(marker) == [sleeper.pid]
        until(lambda: not alive_with(marker))
        assert processes.end_all_with(marker) == []
    finally:
        sleeper.kill()
        sleeper.wait()
