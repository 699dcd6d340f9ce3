"""What was found beside what was asked for: budgets are for 1 000 executions, and totals of fewer are projected in proportion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

__all__ = ["Line", "lines", "table"]

ASKED_FOR = 1000
_FLAT = 1.20


@attrs.frozen
class Line:
    """One figure. `projected` is what is compared with the budget."""

    title: str
    found: str
    projected: str
    budget: str
    is_met: bool | None


def lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """Every figure of a run."""
    count, factor = found["count"], ASKED_FOR / found["count"]
    yield _total("all running, from 16 threads", found["starting_seconds"], factor, 6.0)
    idle = found["idle_share_of_a_core"] * 100
    yield _line("idle, all keepers and inits", idle, idle * factor, 0.5, "{:.3f} % of a core", below=True)
    yield from _memory(found)
    exit_ = found["exit_to_record_seconds"]
    title = f"exit to durable record beside all others, p99 of {exit_['of']}"
    yield _line(title, exit_["p99"] * 1e3, exit_["p99"] * 1e3, 50.0, "{:.1f} ms", below=True)
    yield _beside("the same, p50", f"{exit_['p50'] * 1e3:.1f} ms")
    yield _total("stop-all to all records", found["stopping_seconds"], factor, 3.0)
    yield _total("all exit at once to all records", found["all_ending_seconds"], factor, None)
    yield _exact("exact exit codes", found["exact_codes"], count)
    yield _exact("stopped, and proved empty", sum(n for why, n in found["stopped"].items() if _is_proved(why)), count)
    for name, title in (
        ("zombies_after_exits", "zombies after all exits"),
        ("left_zombies", "zombies at the end"),
        ("left_processes", "processes left"),
        ("left_descriptors", "descriptors left in the host"),
    ):
        yield _exact(title, found[name], 0)
    left = found["left_files"]
    yield Line("files that do not belong to an execution", ", ".join(left) or "none", "", "none", not left)
    yield _beside("descriptors of a keeper", str(found["descriptors_of_a_keeper"]))
    yield from _flatness(found["one_more"])


def _memory(found: Mapping[str, Any]) -> Iterator[Line]:
    if "private_kib" not in found:
        yield _beside("private memory of one", "for root to see")
        return
    private = found["private_kib"] / 1024
    yield _line("private memory of one (keeper and init, Private_Dirty, median)", private, private, 1.8, "{:.2f} MiB")
    yield _beside("of it the keeper's", f"{found['keeper_private_kib'] / 1024:.2f} MiB")
    yield _beside("of it the init's", f"{found['init_private_kib'] / 1024:.2f} MiB")
    yield _beside("its share of all anonymous memory (Pss_Anon)", f"{found['proportional_kib'] / 1024:.2f} MiB")


def _flatness(steps: list[Mapping[str, Any]]) -> Iterator[Line]:
    """One more `true` beside those that are there. Processor time says it; on two processors wall time says what else ran."""
    first = steps[0]
    for name, title in (("processor_seconds", "processor time"), ("wall_seconds", "wall time")):
        for step in steps:
            ratio = step[name] / first[name]
            budget = "within 20 % of the first" if step is not first else ""
            yield Line(
                f"one more `true` beside {step['live']}, {title}",
                f"{step[name] * 1e3:.1f} ms",
                f"{ratio:.2f} times",
                budget,
                None if step is first else ratio <= _FLAT,
            )


def _is_proved(why: str) -> bool:
    reason, _, proof = why.partition(", ")
    return reason == "stopped" and proof != "none"


def _total(title: str, seconds: float, factor: float, budget: float | None) -> Line:
    return _line(title, seconds, seconds * factor, budget, "{:.2f} s", below=True)


def _line(title: str, found: float, projected: float, budget: float | None, form: str, *, below: bool = False) -> Line:
    if budget is None:
        return Line(title, form.format(found), form.format(projected), "", None)
    asked, unit = f"{'<' if below else '<='} {budget:g}", form.partition("}")[2]
    return Line(
        title, form.format(found), form.format(projected), asked + unit, projected < budget if below else projected <= budget
    )


def _exact(title: str, found: int, wanted: int) -> Line:
    return Line(title, str(found), "", str(wanted), found == wanted)


def _beside(title: str, found: str) -> Line:
    return Line(title, found, "", "", None)


def table(found: Mapping[str, Any], asked_count: int) -> str:
    """For people."""
    count, words = found["count"], {True: "met", False: "**missed**", None: ""}
    parts = [f"{count} executions at once ({found['processes']} processes), held by {_held(found['containment'])}."]
    if count < asked_count:
        parts.append(f"{asked_count} were asked for; the bound on processes left room for {count}.")
    if count != ASKED_FOR:
        parts.append(f"**Totals of {count} are projected to {ASKED_FOR} in proportion; {ASKED_FOR} at once were not run.**")
    rows = [("figure", f"at {count}", f"at {ASKED_FOR}", "budget", "verdict"), ("---",) * 5]
    rows += [(line.title, line.found, line.projected, line.budget, words[line.is_met]) for line in lines(found)]
    return " ".join(parts) + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _held(containment: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in sorted(containment.items()))
