"""`serve` inside another program: the broker stays the caller's, and nothing of the serving is left."""

from __future__ import annotations

import json
import os
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fable_exec import ExecutionBroker, PolicyError
from fable_exec.server import AdminOptions, serve
from fable_exec.server.loop import Server
from tests.doors import TOKEN, policy_for


@pytest.mark.requires_ability("confinement")
def test_a_peer_is_served_on_any_two_descriptors_and_nothing_is_left(workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace)) as broker:
        requests, send = os.pipe()
        receive, answers = os.pipe()
        serving = threading.Thread(target=serve, args=(broker,), kwargs={"stdin": requests, "stdout": answers})
        serving.start()
        with open(send, "wb", buffering=0) as out, open(receive, "rb") as back:
            for number in range(5):
                out.write(json.dumps({"action": "execute_command", "command": ["echo", "x"], "id": number}).encode() + b"\n")
            assert {json.loads(back.readline())["id"] for _ in range(5)} == set(range(5))
            out.write(b'{"action":"execute_command","command":["sleep","600"],"id":9}\n')
            out.write(b'{"action":"probe"}\n')
            assert json.loads(back.readline())["ok"]
        serving.join(30)
        assert not serving.is_alive()
        os.close(requests)
        os.close(answers)
        assert broker.execute_command(["true"]).success  # it was not closed


def test_the_admin_is_heard_while_a_peer_is_served(workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace)) as broker:
        requests, send = os.pipe()
        receive, answers = os.pipe()
        read, write = os.pipe()
        given = {"stdin": requests, "stdout": answers, "admin": AdminOptions(descriptor=read)}
        serving = threading.Thread(target=serve, args=(broker,), kwargs=given)
        serving.start()
        os.write(write, json.dumps({"action": "unlock_writes", "token": TOKEN}).encode() + b"\n")
        os.write(write, b'{"action":"shutdown"}\n')
        serving.join(30)
        assert not serving.is_alive()
        assert broker.writes_enabled
        for descriptor in (requests, send, receive, answers, write):
            os.close(descriptor)


def test_input_that_another_took_first_is_not_the_end_of_the_input(workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace)) as broker:
        requests, send = os.pipe()
        receive, answers = os.pipe()
        os.set_blocking(requests, False)  # as the event loop of a parent does that shares it
        with closing(Server(broker, requests, answers)) as server:
            server._read()  # poll(2) had called it readable, and it is empty again
            os.write(send, b'{"action":"probe","id":1}\n')
            os.close(send)
            server.run()
        os.close(answers)
        assert json.loads(os.read(receive, 1 << 16))["id"] == 1
        for descriptor in (requests, receive):
            os.close(descriptor)


def test_a_channel_that_cannot_be_had_serves_nobody(workspace: Path) -> None:
    with ExecutionBroker(policy_for(workspace)) as broker:
        with pytest.raises(PolicyError):
            serve(broker, admin=AdminOptions(socket="0.0.0.0:1"))
