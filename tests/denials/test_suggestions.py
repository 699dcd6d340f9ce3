"""Every denial of an observer suggests something, and the right thing where one protection has several ways out."""

from __future__ import annotations

import pytest

from fable_exec.policy.confinement import PROTECTIONS
from fable_exec.runner.denials import denials_of

NEVER_REFUSE = {"whole_tree_end", "resources"}
"""Protections that end and limit, and are in no observer's words."""


def suggestion(operation: str, protection: str, *, path: str = "", address: str = "") -> str:
    (denial,) = denials_of([(operation, path, address, protection)])
    return denial.suggestion


@pytest.mark.parametrize("protection", sorted(set(PROTECTIONS) - NEVER_REFUSE))
def test_none_is_empty(protection: str) -> None:
    assert suggestion("anything", protection, path="/anywhere")


def test_a_write_to_a_repository_outside_is_told_what_a_worktree_needs() -> None:
    assert "a worktree below the main checkout" in suggestion("open for writing", "host_writes", path="/srv/main/.git/index.lock")
    for path in ("/srv/main/file.git", "/srv/main/.gitignore"):
        assert suggestion("open for writing", "host_writes", path=path).startswith("write in the workspace")


@pytest.mark.parametrize(
    ("operation", "protection", "address", "word"),
    [
        ("connect", "network", "192.0.2.1:80", "connect_ports"),
        ("connect", "network", "192.0.2.1:530", "connect_ports"),
        ("connect", "network", "127.0.0.53:53", "/etc/hosts"),
        ("send", "network", "[2001:db8::1]:53", "/etc/hosts"),
        ("send", "network", "192.0.2.1:8125", 'UDP needs "full"'),
        ("bind", "network", "0.0.0.0:80", "bind_ports"),
        ("socket", "network", "inet", "connect_ports"),
        ("socket", "network", "inet6", "connect_ports"),
        ("socket", "network", "inet datagram", 'network = "full" alone'),
        ("socket", "network", "inet6 raw", "raw packets"),
        ("socket", "host_sockets", "unix", "namespaces"),
        ("connect", "host_sockets", "@name", "in the workspace"),
        ("ptrace", "other_processes", "", "detect_leaks=0"),
        ("process_vm_readv", "other_processes", "", "kernel_surface"),
        ("mount", "kernel_surface", "", "kernel_surface"),
    ],
)
def test_it_names_what_would_help(operation: str, protection: str, address: str, word: str) -> None:
    assert word in suggestion(operation, protection, address=address)
