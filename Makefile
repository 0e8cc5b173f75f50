# `make` alone explains the targets. Everything runs from .venv, which each target makes when it is missing.
PY := .venv/bin/python
CODE := $(wildcard operator/rekindle examples benchmarks tests)

.DEFAULT_GOAL := help
.PHONY: help setup demo bench bench-slow-node bench-losses bench-storing bench-following test chaos test-unit test-spark test-faults test-cluster soak mutants cluster cluster-down lint types layers format crds requirements clean

help: ## this list
	@echo "Rekindle. First:  make demo   (a pipeline on real Spark, slowed and killed, and the same answer)"
	@echo "          Then:   make test   (what CI runs)"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=/path/to/python3.13   the interpreter of .venv"
	@echo "  ARGS='-k name -x'            more arguments for pytest, with test-unit, test-spark, test-faults, test-cluster, soak"
	@echo "  ARGS='rekindle.core.ids.*'     only these, with mutants"
	@echo "  FAILFAST=1                   make test stops at the first tier that fails"

setup: ## .venv with all dependencies, and a check for Java 17; instant when nothing changed
	@PYTHON='$(PYTHON)' .ci/setup

demo: setup ## the flights pipeline: undisturbed, with a slow node, with a killed driver; one table
	$(PY) examples/flights/demo.py

bench: setup ## the figures of the README, on TPC-H data
	$(PY) benchmarks/run.py

bench-slow-node: setup ## a slow node on Kubernetes, beside Spark's own means: SCENARIO=a (b, c, d, e, f), ARGS='--rounds 3'
	$(PY) -m tests.kind up
	$(PY) benchmarks/slow_node_on_kubernetes.py --scenario $(or $(SCENARIO),a) $(ARGS)

bench-losses: setup ## a driver, node, volume or executor lost under a pipeline on Kubernetes, beside its peers: ARGS='--lost node --at 75'
	$(PY) -m tests.kind up
	$(PY) benchmarks/losses_on_kubernetes.py $(ARGS)

bench-storing: setup ## what storing results costs a pipeline on Kubernetes, on volumes and in a bucket: ARGS='--rounds 3'
	$(PY) -m tests.kind up
	$(PY) benchmarks/storing_on_kubernetes.py $(ARGS)

bench-following: setup ## what following running applications costs the operator; no cluster: ARGS='--applications 20 --minutes 1'
	$(PY) benchmarks/following.py $(ARGS)

test: setup ## all tiers in order, with minutes against a budget; the last line is the sum
	@$(PY) -m tests.tools.tiers

test-unit: setup ## without Spark, but for what takes long, such as histories by the thousand (under a minute)
	@$(PY) -m tests.tools.tiers unit $(or $(ARGS),-m 'not soak and not thorough')

test-spark: setup ## on real Spark executors
	@$(PY) -m tests.tools.tiers spark $(ARGS)

test-faults: setup ## nodes slowed, executors and drivers killed
	@$(PY) -m tests.tools.tiers faults $(ARGS)

test-cluster: setup ## on a real Kubernetes, made for it unless it is up (make cluster)
	@$(PY) -m tests.tools.tiers cluster $(ARGS)

chaos: setup ## faults at random under pipelines on Kubernetes, two at a time, and a look at what came of it: SEED=7 MINUTES=30
	@REKINDLE_CHAOS_SEED=$(or $(SEED),1) REKINDLE_CHAOS_MINUTES=$(or $(MINUTES),0) $(PY) -m tests.tools.tiers cluster -s -k come_out_right

soak: setup ## the long cases that make test leaves out
	$(PY) -m pytest -m soak --timeout 3600 $(ARGS)

mutants: setup ## defects put into the core on purpose, and which of them the tests notice (a quarter of an hour; docs/mutation.md)
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[mutation]'
	@$(PY) -m tests.tools.mutants $(ARGS)

cluster: setup ## a real Kubernetes for the tests: kind, four nodes (minutes the first time; see tests/kind/README.md)
	@$(PY) -m tests.kind up

cluster-down: setup ## remove it, and the Docker daemon that it may have started
	@$(PY) -m tests.kind down

lint: setup ## style and likely bugs (ruff)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup ## mypy --strict
	$(PY) -m mypy $(CODE)

layers: setup ## imports point down only (import-linter)
	.venv/bin/lint-imports

format: setup ## put the code into the project's style
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

crds: setup ## crds/, from the models of operator/rekindle/api
	$(PY) -m rekindle.api.crd crds

requirements: setup ## which rules of docs/semantics.md have a passing test; runs the tests that are stale
	@$(PY) -m tests.tools.requirements

clean: ## remove build results and caches (.venv stays)
	rm -rf .build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
