# Every target sets up its own .venv; nothing is needed beforehand but make and Python 3.11 or newer.
# PYTHON=/path/to/python chooses the interpreter, PYTEST_ARGS="-k name -x" is handed to pytest, "-n 0" keeps it in one process.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# One that every user of the machine can run comes first, so that both runs of `make test` use the same one.
CANDIDATES := $(PYTHON) /usr/bin/python3 /usr/local/bin/python3 python3 python3.14 python3.13 python3.12 python3.11
USABLE := import sys, venv, ensurepip; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)
HOST_PYTHON := $(shell for p in $(CANDIDATES); do "$$p" -c '$(USABLE)' 2>/dev/null </dev/null && break; done)

VENV := .venv
BIN := $(VENV)/bin
VENV_TOOL = $(if $(HOST_PYTHON),$(HOST_PYTHON) tools/environment.py $(VENV),@echo "no Python 3.11+ with venv and ensurepip found; set PYTHON=" >&2; exit 1;)
TEST_WITH = $(if $(HOST_PYTHON),$(HOST_PYTHON) tools/test_with.py,echo "no Python 3.11+ found; set PYTHON=" >&2; exit 1;)
PYTEST := $(BIN)/python -m pytest

# The suite starts this library some thousand times: without compiled files of it each start would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

# "auto" makes a skipped kernel test a failure where the kernel should be able to run it (tests/abilities.py).
export FABLE_EXEC_REQUIRE_ABILITIES ?= auto

.PHONY: help demo test test-as-root test-as-user test-all test-adapters test-verifiers without-landlock lint types bench escapes leaks fuzz deep docs env env-lint env-docs clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

env:
	@$(VENV_TOOL) --extra cli --group test

env-lint:
	@$(VENV_TOOL) --extra cli --group test --group lint

env-docs:
	@$(VENV_TOOL) --extra cli --group docs

demo: env ## the broker at work in a clone of this repository, each step checked
	@$(BIN)/python examples/demo.py

test: env ## the suite in random order, warnings are errors; as root also as an ordinary user
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) test-as-root && $(MAKE) test-as-user; else $(PYTEST) -n auto $(PYTEST_ARGS); fi

test-as-root: env # what no user changes is left to the run as an ordinary user that follows
	FABLE_EXEC_SECOND_RUN_FOLLOWS=1 $(PYTEST) -n auto $(PYTEST_ARGS)

test-as-user: ## only the second half of `make test` (needs root)
	@$(HOST_PYTHON) tools/as_ordinary_user.py -- make test PYTEST_ARGS='$(PYTEST_ARGS)'

test-all: ## the suite on every interpreter from 3.11 up that is found
	@$(HOST_PYTHON) tools/test_all.py $(PYTEST_ARGS)

test-adapters: ## the adapters against the frameworks that can be installed here; the others are named
	@$(TEST_WITH) adapters $(ADAPTERS_ARGS)

test-verifiers: ## attestations and the model checker beside what others wrote for the same, as far as that can be installed here
	@$(TEST_WITH) verifiers $(VERIFIERS_ARGS)

without-landlock: env ## the suite as on a kernel without Landlock: what needs it is skipped and says so
	$(BIN)/python tools/without_landlock.py -- $(PYTEST) -n auto $(PYTEST_ARGS)

lint: env-lint types ## ruff, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: env-lint ## mypy for Linux, and of what also runs on macOS for that
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin fable_exec tools examples

bench: env ## every benchmark beside its limit and its peers, into benchmarks/README.md
	@$(BIN)/python -m benchmarks.run --write $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.supervision --write $(SCALE_ARGS)

escapes: env ## every attempt at breaking out, each in a world of its own, into benchmarks/escapes/README.md
	@$(BIN)/python -m benchmarks.escapes --write

leaks: env ## what local executors of frameworks leave running after a timeout, and ours, into benchmarks/leaks/README.md
	@$(BIN)/python -m benchmarks.leaks --write $(LEAKS_ARGS)

fuzz: env ## the property tests with 100 000 examples each, 10 000 for the slow ones
	HYPOTHESIS_PROFILE=deep $(PYTEST) -n auto --dist worksteal -m fuzz --timeout=0 -o faulthandler_timeout=0 $(PYTEST_ARGS)

deep: env ## the long forms: races, storms, large inputs
	$(PYTEST) -m deep --timeout=3600 -o faulthandler_timeout=0 $(PYTEST_ARGS)

docs: env-docs ## the manual, warnings are errors, into docs/_build/html
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean: ## everything that the other targets made
	rm -rf $(VENV) .venvs .venv-adapters .venv-verifiers benchmarks/.venv-peer benchmarks/.venv-leaks build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
