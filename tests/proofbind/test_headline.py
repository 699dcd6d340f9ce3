"""The headline: a table of the rules, the places where the rule sets differ, and what a document can do about it."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest

from fable_exec.proofbind import FABLE_1, AxisState, Headline, HeadlineRules, ProofDocument, derive
from fable_exec.proofbind.facts import Facts, Gate, MalformedFacts, read_facts
from fable_exec.proofbind.headline import LOKI_GENERATOR, LOKI_VERIFIER, check_headline, derived_headlines, recorded_headline
from tests.proofbind import receipts
from tests.proofbind.receipts import ABSENT, VALID, changed, gate

VERIFIED, GAPS, NOT = Headline.VERIFIED, Headline.WITH_GAPS, Headline.NOT_VERIFIED
GREEN = receipts.facts(VALID)
ALL_RULES = (LOKI_GENERATOR, LOKI_VERIFIER, FABLE_1)
EXOGENOUS_FAILED = Gate("static_analysis", "failed", "exogenous")
ADVISORY_FAILED = Gate("code_review", "failed", "advisory")
ADVISORY_PASSED = Gate("code_review", "passed", "advisory")

FAILURES: list[dict[str, Any]] = [
    {"terminated": True},
    {"exit_code": 1},
    {"exit_code": -9},
    *({"run_status": status} for status in (
        "failed", "force_stopped", "inconclusive_spec_contradiction", "interrupted", "max_iterations_reached",
        "max_retries_exceeded", "paused", "policy_blocked", "provider_deadline_partial_mutation",
    )),
    {"outcome": "intervention"},
    {"outcome": " "},
    {"tests_status": "failed"},
    {"build_status": "failed"},
    {"gates": (EXOGENOUS_FAILED,)},
    {"security_ran": True, "security_high_active": 1},
]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.parametrize("degraded", [True, False])
def test_any_failure_is_not_verified_by_every_rule_set(failure: dict[str, Any], degraded: bool) -> None:
    assert {derive(attrs.evolve(GREEN, **failure), degraded, rules) for rules in ALL_RULES} == {NOT}


@pytest.mark.parametrize(
    ("facts", "degraded", "headline"),
    [
        ({}, False, VERIFIED),
        ({}, True, GAPS),
        ({"exit_code": None, "run_status": "", "outcome": ""}, False, VERIFIED),
        ({"outcome": "success"}, False, VERIFIED),
        ({"run_status": "unheard_of"}, False, VERIFIED),
        ({"tests_command": ""}, False, NOT),
        ({"tests_exit_code": None}, False, NOT),
        ({"tests_exit_code": 1}, False, NOT),
        ({"tests_exit_code": 1}, True, GAPS),
        ({"diff_count": 0}, False, NOT),
        ({"diff_count": None}, False, NOT),
        ({"diff_count": 0}, True, GAPS),
        ({"tests_status": "not_run"}, False, NOT),
        ({"tests_status": "not_run", "build_status": "verified"}, True, GAPS),
        ({"tests_status": "not_run", "build_status": "not_run", "gates": (Gate("lint", "passed", ""),)}, True, GAPS),
        ({"tests_status": "not_run", "build_status": "not_run", "gates": ()}, True, NOT),
        ({"security_ran": False, "security_high_active": 9}, False, VERIFIED),
        ({"gates": (Gate("lint", "inconclusive", ""),)}, False, VERIFIED),
    ],
    ids=str,
)
def test_what_is_not_a_failure_is_as_good_as_its_evidence(facts: dict[str, Any], degraded: bool, headline: Headline) -> None:
    assert {derive(attrs.evolve(GREEN, **facts), degraded, rules) for rules in ALL_RULES} == {headline}


@pytest.mark.parametrize(
    ("facts", "degraded", "generator", "verifier", "ours"),
    [
        ({"gates": (ADVISORY_FAILED,)}, False, VERIFIED, NOT, NOT),
        ({"gates": (ADVISORY_FAILED,)}, True, GAPS, NOT, NOT),
        ({"gates": (ADVISORY_PASSED,), "tests_status": "not_run", "build_status": ""}, True, NOT, GAPS, NOT),
        ({"functional_ran": True, "functional_status": "failed"}, False, VERIFIED, VERIFIED, NOT),
    ],
    ids=str,
)
def test_the_rule_sets_differ_in_gates_that_are_opinions_and_in_functional_checks(
    facts: dict[str, Any], degraded: bool, generator: Headline, verifier: Headline, ours: Headline
) -> None:
    derived = [derive(attrs.evolve(GREEN, **facts), degraded, rules) for rules in (LOKI_GENERATOR, LOKI_VERIFIER, FABLE_1)]
    assert derived == [generator, verifier, ours]


def every_combination() -> list[tuple[Facts, bool]]:
    """2 688 facts: each thing that a rule reads, in each way that matters."""
    gates = [(), *((Gate(name, status, provenance),) for name, provenance in (("lint", "exogenous"), ("code_review", "advisory"))
                   for status in ("passed", "failed", "inconclusive"))]  # fmt: skip
    choices: dict[str, list[Any]] = {
        "exit_code": [0, 1],
        "tests_status": ["verified", "failed", "not_run"],
        "build_status": ["verified", "failed", "not_run", ""],
        "gates": gates,
        "security_high_active": [0, 1],
        "diff_count": [0, 4],
        "functional_status": ["failed", "not_run"],
    }
    evolved = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    return [
        (attrs.evolve(GREEN, security_ran=True, functional_ran=True, **each), degraded)
        for each in evolved
        for degraded in (True, False)
    ]


def test_our_own_rules_are_never_kinder_than_another_set_and_elsewhere_all_agree() -> None:
    rank = {NOT: 0, GAPS: 1, VERIFIED: 2}
    differing = 0
    for facts, degraded in every_combination():
        generator, verifier, ours = (derive(facts, degraded, rules) for rules in ALL_RULES)
        assert rank[ours] <= min(rank[generator], rank[verifier])
        advisory = any(each.is_advisory for each in facts.gates)
        assert generator is verifier or advisory
        assert ours in (generator, verifier) or facts.functional_status == "failed"
        differing += generator is not verifier
    assert differing == 30  # the reference's defect: its verifier calls documents forged that its generator wrote


def judged(**changes: Any) -> tuple[AxisState, str]:
    result = check_headline(ProofDocument(changed({name.replace("__", "/"): value for name, value in changes.items()})))
    return result.state, result.reason


def test_a_headline_that_follows_passes_and_another_fails() -> None:
    assert judged() == (AxisState.PASS, "")
    assert judged(honesty__headline=" VERIFIED\n") == (AxisState.PASS, "")
    for word in ("verified", "VERIFIED WITH GAPS", "NOT VERIFIED", "VERIFIED.", "VERIFIED\0"):
        assert judged(honesty__headline=word) == (AxisState.FAIL, "headline-inconsistent")


def test_a_document_that_nobody_touched_is_not_called_forged_because_two_programs_disagree() -> None:
    failed, passed = [gate("code_review", "failed", "advisory")], [gate("code_review", "passed", "advisory")]
    assert judged(facts__quality_gates=failed) == (AxisState.UNCHECKED, "headline-rules-disagree")
    assert judged(facts__quality_gates=failed, honesty__headline="NOT VERIFIED") == (
        AxisState.UNCHECKED,
        "headline-rules-disagree",
    )
    assert judged(facts__quality_gates=failed, honesty__headline="VERIFIED WITH GAPS") == (
        AxisState.FAIL,
        "headline-inconsistent",
    )
    assert judged(facts__quality_gates=passed) == (AxisState.PASS, "")


def test_a_gate_is_an_opinion_only_if_its_name_is_one_of_those() -> None:
    for name in ("static_analysis", "unheard_of", "", "code_review2", "unit_tests_paused_x"):
        assert judged(facts__quality_gates=[gate(name, "failed", "advisory")]) == (AxisState.FAIL, "headline-inconsistent"), name
    for name in ("Code-Review", "unit_tests_PAUSED", "devils-advocate_blocked"):
        assert judged(facts__quality_gates=[gate(name, "failed", "advisory")])[1] == "headline-rules-disagree", name
    assert judged(facts__quality_gates=[gate("code_review", "failed")]) == (AxisState.FAIL, "headline-inconsistent")


def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    functional = {**VALID["facts"]["functional"], "ran": True, "functional_status": "failed"}
    before = judged(facts__functional=functional)
    monkeypatch.setenv("LOKI_FV_GATE", "1")
    assert judged(facts__functional=functional) == before == (AxisState.PASS, "")


@pytest.mark.parametrize("value", [None, "", "  ", 5, ["VERIFIED"], {"a": 1}, True, ABSENT])
def test_what_is_not_recorded_is_unchecked_and_never_passes(value: Any) -> None:
    assert judged(honesty__headline=value) == (AxisState.UNCHECKED, "headline-not-recorded")


def test_one_headline_is_enough_wherever_it_stands_and_two_must_agree() -> None:
    assert judged(headline="VERIFIED", honesty=ABSENT) == (AxisState.PASS, "")
    assert judged(headline="VERIFIED ") == (AxisState.PASS, "")
    assert judged(headline="NOT VERIFIED") == (AxisState.FAIL, "headline-two")
    assert recorded_headline(ProofDocument(changed({"headline": "NOT VERIFIED"}))) == ""
    assert recorded_headline(ProofDocument(VALID)) == "VERIFIED"


@pytest.mark.parametrize("facts", [None, [], "x", 1])
def test_without_facts_nothing_follows(facts: Any) -> None:
    assert judged(facts=facts) == (AxisState.UNCHECKED, "headline-no-facts")
    assert derived_headlines(ProofDocument(changed({"facts": facts}))) == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("facts/git/diff/count", True),
        ("facts/git/diff/count", "4"),
        ("facts/git/diff/count", 4.0),
        ("facts/git/diff/count", -1),
        ("facts/git/diff", [1]),
        ("facts/git", "x"),
        ("facts/execution/exit_code", False),
        ("facts/execution/exit_code", 0.0),
        ("facts/execution/exit_code", "0"),
        ("facts/execution/terminated", "false"),
        ("facts/execution/terminated", 0),
        ("facts/execution/outcome", ["complete"]),
        ("facts/execution/run_status", 0),
        ("facts/execution", []),
        ("facts/tests/exit_code", False),
        ("facts/tests/status", "Verified"),
        ("facts/tests/command", ["pytest"]),
        ("facts/build/status", "FAILED"),
        ("facts/build/status", " failed"),
        ("facts/build/status", True),
        ("facts/security/high_active", "1"),
        ("facts/security/high_active", 0.5),
        ("facts/security/ran", 1),
        ("facts/quality_gates", ["static_analysis"]),
        ("facts/quality_gates", {"static_analysis": "failed"}),
        ("facts/quality_gates", "x"),
        ("facts/quality_gates", [gate("lint", "FAILED")]),
        ("facts/quality_gates", [gate("lint", "fail")]),
        ("facts/quality_gates", [{"name": "lint", "status": False}]),
        ("facts/quality_gates", [{"name": "lint"}]),
        ("facts/quality_gates", [{"name": ["lint"], "status": "passed"}]),
        ("facts/functionality", ["auth"]),
        ("facts/functionality/auth", "gap"),
        ("facts/functional/functional_status", "Failed"),
    ],
    ids=str,
)
def test_facts_of_another_type_are_a_fault_and_not_true_or_false(path: str, value: Any) -> None:
    document = changed({path: value})
    assert judged(**{path.replace("/", "__"): value}) == (AxisState.UNCHECKED, "headline-facts-malformed")
    with pytest.raises(MalformedFacts) as caught:
        read_facts(document["facts"])
    assert len(str(caught.value)) < 200


def test_facts_that_say_nothing_are_no_fault() -> None:
    assert read_facts({}) == read_facts(dict.fromkeys(VALID["facts"]))
    assert derive(receipts.facts({"facts": {}}), False, FABLE_1) is NOT


def test_a_document_may_ask_for_our_own_rules_and_for_no_others() -> None:
    assert judged(honesty__headline_rules="fable-1") == (AxisState.PASS, "")
    failed = [gate("code_review", "failed", "advisory")]
    assert judged(honesty__headline_rules="fable-1", facts__quality_gates=failed) == (AxisState.FAIL, "headline-inconsistent")
    for name in ("loki-1.1/generator", "loki-1.1/verifier-380f799", "fable-2", "", 1, ["fable-1"]):
        state = judged(honesty__headline_rules=name, facts__quality_gates=failed)
        assert state == (AxisState.UNCHECKED, "headline-rules-unknown"), name


def test_our_own_rules_count_the_gaps_that_the_facts_show() -> None:
    unproven = {"honesty__headline_rules": "fable-1", "facts__build": {"status": "not_run"}}
    assert judged(**unproven) == (AxisState.FAIL, "headline-inconsistent")
    assert judged(**unproven, honesty__headline="VERIFIED WITH GAPS") == (AxisState.PASS, "")


@pytest.mark.parametrize("rules", ALL_RULES, ids=lambda rules: rules.name)
def test_each_rule_set_has_a_name_of_its_own(rules: HeadlineRules) -> None:
    assert [each.name for each in ALL_RULES].count(rules.name) == 1
