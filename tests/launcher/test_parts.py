"""The launcher program's small parts, each by itself: /proc lines, removal, readiness, reports, descriptors on the wire."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from fable_exec._launcher import removal, wire
from fable_exec._launcher.leaders import Leaders
from fable_exec._launcher.places import PlaceLost, Slot
from fable_exec._launcher.proctree import Stat, parse_stat, read_member
from fable_exec._launcher.readiness import Readiness
from fable_exec._launcher.refusals import Ledger, Refusal, Told, answer_to_take

# /proc/PID/stat


@pytest.mark.parametrize("name", ["cat", "a b", "a) b (c", ")", "(", "x\ny", ") Z 1 ", "ü€", "", " "])
def test_a_name_of_any_kind_hides_nothing(name: str) -> None:
    line = b"12 (" + name.encode() + b") S 7 12 12 0 -1 4194304"
    assert parse_stat(line) == Stat(name, "S", 7, 12)


def test_a_process_on_its_way_out_is_said_to_be() -> None:
    line = b"12 (cat) R 7 12 12 0 -1 "
    assert [parse_stat(line + flags) for flags in (b"4194304 1", b"4194308 1")] == [
        Stat("cat", "R", 7, 12),
        Stat("cat", "R", 7, 12, exiting=True),
    ]


@pytest.mark.parametrize("text", [b"", b"12", b"12 (cat", b"12 (cat)", b"12 (cat) ", b"12 (cat) S", b"12 (cat) S 7"])
def test_a_torn_line_is_nobody(text: bytes) -> None:
    assert parse_stat(text) is None


def test_a_name_that_is_not_utf8_is_shown_with_replacements() -> None:
    found = parse_stat(b"1 (\xff) R 0 1 1")
    assert found is not None and found.name == "\ufffd"


@pytest.mark.requires_ability("linux")
def test_ourselves_and_nobody() -> None:
    found = read_member(os.getpid())
    assert found is not None and found.parent == os.getppid()
    assert read_member(2**22 + 1) is None


# Removal


def deep_tree(top: Path, levels: int) -> None:
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("levels", [0, 1, 63, 64, 65, 400])
def test_a_tree_of_any_depth_goes(tmp_path: Path, levels: int) -> None:
    (tmp_path / "private").mkdir()
    deep_tree(tmp_path / "private", levels)
    before = len(os.listdir("/proc/self/fd"))
    removal.remove_tree(str(tmp_path / "private"))
    assert os.listdir(tmp_path) == [] and len(os.listdir("/proc/self/fd")) == before


@pytest.mark.requires_ability("linux")
def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "kept").write_text("x")
    private = tmp_path / "private"
    (private / "a").mkdir(parents=True)
    (private / "link").symlink_to(outside)
    (private / "a" / "link").symlink_to("../../outside")
    (private / "file").symlink_to(outside / "kept")
    os.mkfifo(private / "fifo")
    removal.remove_tree(str(private))
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert (outside / "kept").read_text() == "x" and outside.stat().st_mode & 0o777 == 0o750


@pytest.mark.requires_ability("linux")
def test_directories_without_rights_go_too(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "a" / "b").mkdir(parents=True)
    (private / "a" / "f").write_text("x")
    (private / "a").chmod(0o000)
    removal.remove_tree(str(private))
    assert os.listdir(tmp_path) == []


def test_removing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    removal.remove_tree(str(tmp_path / "missing"))
    removal.remove_tree("")


# Readiness


def test_a_reused_number_is_not_called_for_the_old_event() -> None:
    """The first handler closes the second descriptor and opens another under its number, all within one round."""
    ready = Readiness()
    first, second = os.pipe(), os.pipe()
    called: list[str] = []
    for pipe in (first, second):
        os.write(pipe[1], b"x")

    def reuse() -> None:
        called.append("first")
        for reading, writing in (second,):
            ready.unwatch(reading)
            os.close(reading)
            fresh = os.pipe()
            assert reading in fresh
            ready.watch(reading, lambda: called.append("stale"), writable=False)
            opened.extend(fresh)
            opened.append(writing)

    opened: list[int] = []
    ready.watch(first[0], reuse)
    ready.watch(second[0], lambda: called.append("second"))
    ready.round(1000)
    assert called in (["first"], ["second", "first"])
    for descriptor in {*first, *opened}:
        os.close(descriptor)


def test_a_round_waits_no_longer_than_it_is_told_and_hang_ups_count() -> None:
    ready = Readiness()
    reading, writing = os.pipe()
    called: list[int] = []
    ready.watch(reading, lambda: called.append(1))
    ready.round(0)
    assert called == []
    os.close(writing)
    ready.round(10_000)
    assert called == [1]
    ready.unwatch(reading)
    ready.unwatch(reading)
    os.close(reading)


# Messages


MESSAGES = ["word", {}, {"a": [1, None, 2.5, "ü\udcff\ud800"]}, ["x" * 70_000], {"x": "ü" * 65_536}, "y" * (8 << 20)]


@pytest.mark.requires_ability("linux")
@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
@pytest.mark.parametrize("count", [0, 1, 4, 15])
def test_a_message_and_its_descriptors_arrive_whole(message: object, count: int) -> None:
    ours, theirs = wire.socket_pair()
    with ours, theirs:
        given = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
        wire.send(ours, message, tuple(given))
        found, received = wire.receive(theirs)
        assert (found, len(received)) == (message, count)
        assert all(not os.get_inheritable(descriptor) for descriptor in received)
        for descriptor in [*given, *received]:
            os.close(descriptor)


def test_messages_keep_their_borders_and_the_end_is_told() -> None:
    ours, theirs = wire.socket_pair()
    with theirs:
        for number in range(20):
            wire.send(ours, number)
        ours.close()
        assert [wire.receive(theirs)[0] for _ in range(20)] == list(range(20))
        with pytest.raises(wire.PeerGone):
            wire.receive(theirs)
        with pytest.raises(wire.PeerGone):
            wire.send(theirs, "late")
        assert not wire.peer_is_alive(theirs)


def test_an_answer_outlives_a_peer_that_closes_with_our_message_unread() -> None:
    """The kernel reports the reset before what the peer had sent; the answer must not be lost for that."""
    ours, theirs = wire.socket_pair()
    with ours:
        wire.send(ours, "unread")
        wire.send(theirs, "answer")
        theirs.close()
        assert wire.receive(ours)[0] == "answer"
        with pytest.raises(wire.PeerGone):
            wire.receive(ours)


def test_a_full_socket_says_so_instead_of_waiting() -> None:
    ours, theirs = wire.socket_pair()
    with ours, theirs:
        with pytest.raises(BlockingIOError):
            for _ in range(100_000):
                wire.send(ours, "x" * 1000, flags=socket.MSG_DONTWAIT)
        assert wire.peer_is_alive(ours) and wire.peer_is_alive(theirs)
        with pytest.raises(BlockingIOError):
            wire.receive(ours, socket.MSG_DONTWAIT)


@pytest.mark.requires_ability("linux")
def test_descriptors_that_do_not_fit_are_reported_and_those_that_came_are_handed_over() -> None:
    import resource

    ours, theirs = wire.socket_pair()
    with ours, theirs:
        given = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
        wire.send(ours, "x", tuple(given))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        top = max(map(int, os.listdir("/proc/self/fd"))) + 1
        holes = [os.dup(0) for _ in range(top - len(os.listdir("/proc/self/fd")))] if top else []
        resource.setrlimit(resource.RLIMIT_NOFILE, (max([*holes, *given]) + 2, limits[1]))
        try:
            with pytest.raises(wire.DescriptorsLost) as caught:
                for _ in range(50):
                    wire.receive(theirs)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert len(caught.value.kept) < 4
        for descriptor in [*given, *holes, *caught.value.kept]:
            os.close(descriptor)


# A slot's answers


def slot() -> tuple[Slot, socket.socket]:
    ours, theirs = wire.socket_pair()
    return Slot(ours, *os.pipe(), leaders=Leaders(-1)), theirs


def test_only_the_last_answer_is_settled_and_only_an_end_names_survivors() -> None:
    place, init = slot()
    with init:
        assert place.ask() is None
        place.end()
        assert place.ask() is None
        for members in ([[4, "looked at", 1]], [[5, "ended", 1]], []):
            wire.send(init, {"empty": not members, "alone": not members, "members": members})
        looked, ended, last = place.answer(), place.answer(), place.answer()
        assert (looked.settled, looked.empty, looked.members) == (False, False, [])
        assert (ended.settled, ended.empty, [member.name for member in ended.members]) == (False, False, ["ended"])
        assert (last.settled, last.empty, last.members) == (True, True, [])
        place.close()


def test_a_slot_whose_init_is_gone_is_lost_whatever_it_is_asked() -> None:
    place, init = slot()
    assert place.usable()
    init.close()
    assert not place.usable()
    for question in (place.ask, place.end, place.answer):
        with pytest.raises(PlaceLost):
            question()
    place.close()


def test_an_empty_list_of_children_is_an_answer_by_itself(tmp_path: Path) -> None:
    ours, init = wire.socket_pair()
    children = tmp_path / "children"
    children.write_text("")
    siblings = tmp_path / "siblings"
    siblings.write_text("")
    leaders = Leaders(os.open(siblings, os.O_RDONLY))
    place = Slot(ours, *os.pipe(), os.open(children, os.O_RDONLY), leaders=leaders)
    report = place.ask()
    assert report is not None and report.empty and report.settled
    children.write_text("7 ")
    assert place.ask() is None and wire.receive(init)[0] == "ask"
    children.write_text("")
    assert place.ask() is None, "an answer is on its way, and it is older than the list"
    init.close()
    place.close()


def test_the_wire_is_used_by_one_thread_per_end() -> None:
    ours, theirs = wire.socket_pair()
    with ours, theirs:
        sender = threading.Thread(target=lambda: [wire.send(ours, {"n": n, "pad": "x" * (n * 500)}) for n in range(300)])
        sender.start()
        assert [wire.receive(theirs)[0]["n"] for _ in range(300)] == list(range(300))
        sender.join()


def test_what_the_observer_hands_over_too_late_is_counted_and_never_taken_for_the_next_commands() -> None:
    ours, observer = wire.socket_pair()
    told, ledger = Told(ours), Ledger()

    def receive() -> None:
        told.hear(wire.receive(ours)[0])

    def taken() -> tuple[object, object]:
        wire.send(observer, {"refused": 7})
        found = told.take(lambda: 7, receive)
        assert found is not None
        return found["refusals"], found["beyond"]

    def answer() -> None:
        wire.send(observer, answer_to_take(ledger, wire.receive(observer)[0]["take"]))

    with ours, observer:
        assert told.take(lambda: 7, receive) is None
        assert taken() == ([], 1)
        late = wire.receive(observer)[0]["take"]
        ledger.note(7, Refusal("mkdir", "/late", "", "host_writes"))
        answering = threading.Thread(target=lambda: (wire.send(observer, answer_to_take(ledger, late)), answer()))
        answering.start()
        assert taken() == ([], 0)
        answering.join()
        ledger.note(7, Refusal("mkdir", "/in-time", "", "host_writes"))
        answering = threading.Thread(target=answer)
        answering.start()
        assert taken() == ([["mkdir", "/in-time", "", "host_writes"]], 0)
        answering.join()


def test_what_a_process_may_do_without_is_sure_once_that_process_fails() -> None:
    ledger, unix, inet = Ledger(), Refusal("socket", "", "unix", "host_sockets"), Refusal("socket", "", "inet6", "network")
    assert ledger.note(7, unix, 100)
    assert not ledger.note(7, inet, 101) and not ledger.note(7, inet, 102) and not ledger.count(7)
    ledger.failed(7, 103)
    ledger.failed(8, 101)
    ledger.failed(7, 102)
    assert ledger.take(7) == {"refusals": [inet], "unsure": [unix], "beyond": 1}
    assert ledger.take(7) == {"refusals": [], "unsure": [], "beyond": 0}


def test_what_more_processes_ask_for_than_are_remembered_is_sure() -> None:
    ledger, unix = Ledger(), Refusal("socket", "", "unix", "host_sockets")
    for process in range(1, 257):
        ledger.note(7, unix, process)
    assert ledger.take(7) == {"refusals": [], "unsure": [unix], "beyond": 0}
    for process in range(1, 258):
        ledger.note(7, unix, process)
    assert ledger.take(7) == {"refusals": [unix], "unsure": [], "beyond": 0}


def test_unsure_refusals_take_room_as_well() -> None:
    ledger = Ledger()
    for number in range(100):
        ledger.note(7, Refusal("socket", "", f"family {number}", "network"), number + 1)
        ledger.note(7, Refusal("mkdir", f"/{number}", "", "host_writes"))
    found = ledger.take(7)
    assert (len(found["refusals"]), len(found["unsure"]), found["beyond"]) == (32, 32, 136)


def test_a_list_of_children_too_long_for_one_read_names_nobody_by_half_a_number(tmp_path: Path) -> None:
    listed = tmp_path / "children"
    listed.write_text("12345 " * 11_000)
    leaders = Leaders(os.open(listed, os.O_RDONLY))
    leaders.note(12345)
    assert leaders.have_siblings(), "what was not read may be one"
    listed.write_text("12345 ")
    assert not leaders.have_siblings()
    leaders.forget(12345)
    with pytest.raises(ChildProcessError):
        leaders.have_siblings()  # a number of ours that is no child of this process
