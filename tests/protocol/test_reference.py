"""docs/reference/protocol.md says what the code does: its examples are decoded, its table is compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest

from fable_exec import BrokerPolicy, ExecutionBroker
from fable_exec import protocol as p

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^### (\w+)\n\n```json request\n(.+?)\n```\n```json result\n(.+?)\n```", PAGE, re.MULTILINE)
ROWS = dict(re.findall(r"^\| `(\w+)`(?:, `probe_capabilities`)? \| (.*?) ?\|", PAGE.partition("## Answers")[0], re.MULTILINE))


def test_every_action_has_an_example() -> None:
    assert {action for action, _, _ in EXAMPLES} == set(p.ACTIONS) - {"probe_capabilities"}


@pytest.mark.parametrize(("action", "request_text", "result_text"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_an_example_reads_and_writes_back_the_same(action: str, request_text: str, result_text: str) -> None:
    envelope = p.decode_line(request_text.encode())
    assert envelope.request.action == action
    assert p.encode_request(envelope.request, envelope.id) == json.loads(request_text)
    result = p.decode_result(envelope.request, json.loads(result_text))
    assert p.encode_result(result, envelope.request) == json.loads(result_text)


def test_the_examples_of_a_background_command_are_a_dialogue_that_a_broker_understands(workspace: Path) -> None:
    requests = {action: json.loads(text) for action, text, _ in EXAMPLES}
    results = {action: json.loads(text) for action, _, text in EXAMPLES}
    requests["start_command"]["command"][0] = "python3"
    with ExecutionBroker(BrokerPolicy(workspace=workspace, allowed_executables=("python3",))) as broker:
        for action in ("start_command", "read_command", "write_stdin"):
            answer = broker.handle(requests[action])
            assert (answer.keys(), answer["handle"]) == (results[action].keys(), results[action]["handle"])
        (listed,) = broker.handle(requests["list_commands"])["commands"]
        assert listed["handle"] == results["list_commands"]["commands"][0]["handle"]
        while (answer := broker.handle(requests["read_command"]))["running"]:
            pass
    assert answer["result"]["exit_code"] == 0


@pytest.mark.parametrize("action", sorted(set(p.ACTIONS) - {"probe_capabilities", "start_command"}))
def test_the_table_names_exactly_the_members_of_each_action(action: str) -> None:
    request_type = p.ACTIONS[action]
    listed = dict(re.findall(r"`(\w+)`(\?)?", ROWS[action]))
    for field in attrs.fields(request_type):
        optional = field.default is not attrs.NOTHING
        assert (listed.pop(field.name) == "?") is optional or action == "cancel", field.name
    assert set(listed) <= {"encoding"}


def test_every_outcome_word_and_error_name_is_on_the_page() -> None:
    from fable_exec.outcome import EndedBy

    for word in EndedBy:
        assert f"`{word.value}`" in PAGE
    for number in (f"{p.MAX_DEPTH} levels", f"{p.MAX_VALUES:_}".replace("_", " "), f"{p.MAX_ID_CHARACTERS} characters"):
        assert number in PAGE
