"""Each broken broker is found by the check that is there for its fault, within the examples that every embedder gets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fable_exec import BrokerPolicy, Confinement, ExecutionBroker
from fable_exec.testing import BrokerConformance
from tests.testing.broken import BROKEN, Broken

Found = tuple[str, str]
"""By which check, and what that says then."""
BY_STRATEGIES: dict[str, Found] = {
    "AsksAShell": ("test_the_program_gets_exactly_the_arguments_variables_and_input", "assert"),
    "ChecksTheBeginning": ("test_no_hostile_path_leads_out_of_the_workspace", r"inspect_files\(.*\) was not refused"),
    "DescribesAnything": ("test_no_hostile_path_leads_out_of_the_workspace", r"stat_path below\(.*\) was not refused"),
    "DropsEmptyArguments": ("test_the_program_gets_exactly_the_arguments_variables_and_input", "assert"),
    "FollowsLinks": ("test_no_hostile_path_leads_out_of_the_workspace", r"append\(.*\) changed a file outside"),
    "LeavesWhatLeftTheSession": (
        "test_a_tree_of_processes_ends_with_its_call_and_tells_all",
        r"were alive when the call returned|\.staying",  # or it tells of none that it ended
    ),
    "RefusesWithoutAType": ("test_no_hostile_path_leads_out_of_the_workspace", ""),
    "TranslatesLineEnds": ("test_what_is_written_is_read_back_to_the_byte", "assert"),
}
MODEL = "test_any_sequence_of_calls_agrees_with_the_model"
BY_THE_MACHINE: dict[str, Found] = {
    "AppendsWhileLocked": (MODEL, "assert .*x"),
    "MovesOverWhatIsThere": (MODEL, "DID NOT RAISE .*PathExists"),
    "RemembersOldContents": (MODEL, "assert"),
}
BY_EXAMPLES: dict[str, Found] = {
    "EditsEveryPlace": ("test_an_edit_changes_one_place_and_a_part_is_told_as_that", "DID NOT RAISE .*Conflict"),
    "ForgetsTheIdleDeadline": ("test_silence_beyond_its_deadline_ends_the_tree_too", "IDLE_TIMED_OUT"),
    "IsOffByOneAtTheCap": ("test_the_output_cap_is_exact", "exactly the cap is not too much"),
    "LeavesWhatRuns": ("test_close_ends_everything_and_leaves_nothing", "processes outlived the broker"),
    "LosesTheEndOfLongOutput": ("test_both_streams_are_kept_whole_and_apart", "assert"),
    "RunsEverythingAtTheTop": ("test_a_command_works_where_it_is_asked_to", "assert"),
    "StartsWhileLocked": ("test_while_locked_no_request_and_no_command_writes", "start_background wrote the workspace"),
    "SwapsAnswers": ("test_calls_of_several_threads_get_their_own_answers", "thread-.* got "),
    "TakesTheDigestForTheToken": ("test_only_the_token_unlocks_and_locking_locks_again", "DID NOT RAISE .*Denied"),
    "TellsACancelAsAnEnd": ("test_a_started_command_is_fed_followed_and_cancelled", "CANCELLED"),
    "TellsADeadlineAsAnEnd": ("test_a_deadline_ends_the_tree_and_keeps_what_was_said", "TIMED_OUT"),
    "TellsASignalAsAStatus": ("test_death_by_a_signal_is_told_as_that", "SIGNALED"),
    "UnlocksForEver": ("test_an_unlock_for_some_time_ends_by_itself", "assert not"),
    "WaitsForThePipe": ("test_who_holds_the_output_open_holds_nobody_up", "only when a child of the command had ended by itself"),
}
FOUND_BY = {**BY_STRATEGIES, **BY_THE_MACHINE, **BY_EXAMPLES}
Refused = (AssertionError, PermissionError, pytest.fail.Exception)


class Suite(BrokerConformance):
    """As embedders have it, but for shrinking, and on a host that cannot confine: none of these faults is one of confinement."""

    shrink = False
    confinement = Confinement.off()

    def __init__(self, broker: type[ExecutionBroker]) -> None:
        self.broker = broker

    def make_broker(self, policy: BrokerPolicy) -> Any:
        return self.broker(policy)

    def check(self, name: str, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What pytest does with one check."""
        check = getattr(self, name)
        wanted = check.__code__.co_varnames[1 : check.__code__.co_argcount]
        if "desk" not in wanted:
            check(**{"workspace": workspace, "monkeypatch": monkeypatch} if "monkeypatch" in wanted else {"workspace": workspace})
            return
        with self.opened(workspace) as broker:
            desk = self.desk_at(broker, workspace)
            try:
                check(desk)
            finally:
                left = desk.left()
            assert left == []


@pytest.fixture(autouse=True)
def _closed_for_real(same_workspace: Path) -> Iterator[None]:
    yield
    for broker in Broken.made:
        broker._closed = False
        ExecutionBroker.close(broker)
    Broken.made.clear()


def test_there_is_a_check_for_each_and_at_least_twelve_of_them() -> None:
    assert FOUND_BY.keys() == BROKEN.keys()
    assert len(BROKEN) >= 12
    assert len(BY_STRATEGIES) + len(BY_THE_MACHINE) == 11


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_the_suite_finds_it(name: str, same_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, words = FOUND_BY[name]
    with pytest.raises(Refused) as found:
        Suite(BROKEN[name]).check(check, same_workspace, monkeypatch)
    assert re.search(words, str(found.value)), found.value
