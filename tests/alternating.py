"""What each of the two runs of `make test` tries, where root runs it: nothing twice that would be the same again.

What can be tried in several ways is tried in one of them by each run of the suite, and in all of them by the deep runs; which one
depends on the test, on its other parameters, and on whether root runs it. What no user changes is left to the second run.
"""

from __future__ import annotations

import collections
import functools
import os
import zlib
from collections.abc import Container, Iterable
from pathlib import Path

import pytest

__all__ = ["leave_to_the_second_run", "try_one_way"]

_TESTS = Path(__file__).resolve().parent
WAYS = {
    "broker": ("door", "locked_door"),
    "broker/test_listening.py": ("door", "locked_door", "kind"),
    "confinement": ("mode",),
    "denials": ("mode",),
    "keeper": ("rung", "scene"),
    "laterfiles": ("guarded", "pinned", "swept"),
    "pathguard/test_races.py": ("resolver",),
    "runner/test_concurrency.py": ("mode",),
    "runner/test_exactness.py": ("mode",),
    "runner/test_hosts.py": ("mode",),
    "runner/test_limits.py": ("mode",),
    "runner/test_streams.py": ("mode",),
    "runner/test_tree_shapes.py": ("mode",),
    "supervision_runs": ("rung",),
}
"""The parameters that are a way, by file or directory; elsewhere every way is tried each time."""

EVERY_WAY_BY_THE_SECOND_RUN = frozenset(
    """
    confinement/test_canary.py confinement/test_fields.py confinement/test_locked.py confinement/test_locked_databases.py
    confinement/test_runtimes.py
    """.split()
)
"""Files of which only root's run tries one way, and only where the second run follows: each protection in each way it is done."""

SAME_FOR_EVERY_USER = frozenset(
    """
    adapters/test_blocking.py adapters/test_deepagents_operations.py
    adapters/test_launch.py adapters/test_mcp_missing.py adapters/test_openai_agents_operations.py
    adapters/test_openai_agents_sandbox_operations.py
    adapters/test_pydantic_ai_operations.py adapters/test_statuses.py adapters/test_workspace.py admin/test_reference.py
    argrules assurance/test_causal.py assurance/test_checking.py assurance/test_formulas.py assurance/test_invariants.py
    assurance/test_reach.py assurance/test_replays.py attest audit/test_lines.py audit/test_log.py
    audit/test_lost_lines.py audit/test_shared_log.py audit/test_torn_lines.py audit/test_verify.py
    benchmarks/test_leaks.py benchmarks/test_measuring.py benchmarks/test_supervision_scale.py broker/test_background.py
    broker/test_dropped_handles.py broker/test_environment.py broker/test_soak.py broker/test_surroundings.py
    cli/test_assurance.py cli/test_attest.py cli/test_commands.py cli/test_digest.py cli/test_endings.py
    cli/test_exits.py cli/test_interruptions.py cli/test_notes.py cli/test_proof.py cli/test_reference.py cli/test_run.py
    cli/test_seatbelt.py cli/test_supervise.py cli/test_supervise_boundaries.py cli/test_supervise_following.py
    cli/test_supervise_recovering.py
    cli/test_supervise_refusals.py cli/test_supervise_terminals.py cli/test_supervise_tutorial.py cli/test_words.py
    client/test_clients.py client/test_conversation.py client/test_forked_copies.py client/test_kill.py
    client/test_odd_hosts.py confine/test_bpf.py confine/test_filters.py confine/test_observing.py
    confine/test_ordinary_programs.py confine/test_plans.py confine/test_seccomp.py deadline/test_cancel_file.py
    deadline/test_endings.py deadline/test_library.py deadline/test_reference.py deadline/test_signals.py
    deadline/test_streams.py deadline/test_terms.py decision executions frames keypairs laterfiles/test_gitconfig.py
    laterfiles/test_names.py launcher/test_reference.py lifecycle outcome policy procident/test_compare.py
    procident/test_tokens.py project/test_abilities.py
    project/test_alternating.py project/test_architecture.py project/test_bounds.py project/test_field_reports.py
    project/test_reference.py project/test_tools.py::test_the_running_interpreters_version_is_among_those_found
    project/test_turns.py proofbind protocol providers
    runner/test_tree_shapes.py::test_a_broker_in_a_process_of_its_own_does_the_same seatbelt/test_arming.py
    seatbelt/test_boundary.py seatbelt/test_evaluator.py seatbelt/test_profiles.py server/test_lines.py server/test_options.py
    server/test_order.py server/test_outbox.py server/test_program.py server/test_session.py server/test_session_properties.py
    statefile/test_concurrency.py statefile/test_documents.py statefile/test_faults.py statefile/test_flock.py
    statefile/test_lock.py statefile/test_power_cuts.py statefile/test_records.py statefile/test_reference.py strictjson
    supervisor/test_foreground.py supervisor/test_logs.py supervisor/test_prune.py supervisor/test_recover.py
    supervisor/test_reference.py supervisor/test_wait.py test_demo.py test_forked_hosts.py test_left_open.py
    test_locks_at_a_fork.py test_readme.py test_umask.py testing/test_broken_brokers.py testing/test_faults.py
    testing/test_plugin.py testing/test_reference.py testing/test_scripted.py testing/test_strategies.py
    testing/test_supervisor_conformance.py treedigest/test_cache.py treedigest/test_digests.py
    treedigest/test_gitindex.py treedigest/test_properties.py
    """.split()
)
"""Values, forms, tables, tools, and doors to brokers and keepers that are tried as every user elsewhere: nothing there
asks who runs it. Directories, files, and single tests of a file."""

A_SECOND_RUN_FOLLOWS = "FABLE_EXEC_SECOND_RUN_FOLLOWS"
"""Set by `make test` for root's run of the suite."""


def try_one_way(items: Iterable[pytest.Function]) -> None:
    """Mark as deep what another way of the same test stands for."""
    groups: dict[str, dict[str, pytest.Function]] = collections.defaultdict(dict)
    for item in items:
        way = _way_of(item)
        if way and item.get_closest_marker("deep") is None:
            name, _, parameters = item.nodeid.partition("[")
            groups[f"{name}[{parameters.replace(way, '*', 1)}"][way] = item
    for name, found in groups.items():
        for way in found:
            if way != chosen(name, found):
                found[way].add_marker(pytest.mark.deep)


def chosen(name: str, ways: Iterable[str]) -> str:
    """The way that this run tries the test `name` in."""
    in_order = sorted(ways)
    return in_order[(zlib.crc32(name.encode()) + (os.geteuid() == 0)) % len(in_order)]


def leave_to_the_second_run(items: list[pytest.Item]) -> list[pytest.Item]:
    """Take out of `items` what is the same for every user, and return it; nothing where no second run follows, or were it all."""
    if not os.environ.get(A_SECOND_RUN_FOLLOWS):
        return []
    left = [item for item in items if _is_the_same(item)]
    if len(left) == len(items):
        return []
    items[:] = [item for item in items if not _is_the_same(item)]
    return left


def _is_the_same(item: pytest.Item) -> bool:
    name = item.name.partition("[")[0]
    return _among(item, SAME_FOR_EVERY_USER) is not None or f"{_places_of(item.path)[0]}::{name}" in SAME_FOR_EVERY_USER


def _way_of(item: pytest.Function) -> str:
    """The value of its parameter that is a way, "" where there is none."""
    if not hasattr(item, "callspec"):
        return ""
    if not os.environ.get(A_SECOND_RUN_FOLLOWS) and _among(item, EVERY_WAY_BY_THE_SECOND_RUN):
        return ""
    names = WAYS.get(_among(item, WAYS) or "", ())
    given = item.callspec.params
    return next((str(given[name]) for name in names if name in given), "")


def _among(item: pytest.Item, places: Container[str]) -> str | None:
    """The one of `places` that is its file or holds it."""
    return next((each for each in _places_of(item.path) if each in places), None)


@functools.cache
def _places_of(path: Path) -> tuple[str, ...]:
    """That file and the directories that hold it, as the tables here name them."""
    if not path.is_relative_to(_TESTS):
        return (str(path),)
    place = path.relative_to(_TESTS)
    return tuple(str(each) for each in (place, *place.parents))
