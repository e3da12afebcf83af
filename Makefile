# What a developer types. `make` lists the targets; `make demo` and `make test` are the two that
# a newcomer needs, and set themselves up.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
K ?=
# Two workers on two cores; the tests are independent of each other. Files are handed out in the
# order of pyproject.toml; left to itself, xdist begins with those of many tests and ends with the
# one that plays seeds, on one worker.
WORKERS ?= 2
IN_ORDER := --dist loadfile --no-loadscope-reorder
# Plays seeds a fifth faster than one built without optimisation; used only if its version fits.
export SIMULATION_PYTHON ?= $(wildcard /usr/bin/python3.11)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

$(VENV)/.runtime: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("runnerscale needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@touch $@

$(VENV)/.project: $(VENV)/.runtime pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.project requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

.PHONY: setup
setup: $(VENV)/.dev ## make .venv with everything a developer needs

.PHONY: demo
demo: $(VENV)/.project ## run real jobs through the whole system on this machine (ARGS="--jobs 20 --max 5")
	@$(BIN)/runnerscale demo $(ARGS)

.PHONY: test
test: $(VENV)/.dev ## everything that needs no Go toolchain
	$(BIN)/python -m pytest -q -n $(WORKERS) $(IN_ORDER) $(if $(K),-k '$(K)') $(ARGS)

.PHONY: quick
quick: $(VENV)/.dev ## unit and plan tests only: a minute or two; with K=word seconds
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile tests/unit tests/plan $(if $(K),-k '$(K)')

.PHONY: system
system: $(VENV)/.dev ## real processes, real sockets
	$(BIN)/python -m pytest -q tests/system $(if $(K),-k '$(K)')

.PHONY: conformance
conformance: $(VENV)/.dev ## the same cases that a real API server must pass
	$(BIN)/python -m pytest -q tests/conformance $(if $(K),-k '$(K)')

.PHONY: bench
bench: kube ## how fast, against a floor of the same run, on a real API server: ten minutes at most (needs Go)
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: counts
counts: $(VENV)/.dev ## what a clean life costs in writes, reads and calls, and whether that is allowed: seconds
	@$(BIN)/python -m benchmarks --cases life --server embedded --output build/counts.json $(ARGS)

.PHONY: bench-full
bench-full: kube ## all benchmarks at all sizes on both servers: some hours (needs Go)
	@$(BIN)/python -m benchmarks --full $(ARGS)

.PHONY: go-client
go-client: $(VENV)/.dev ## GitHub's own Go client against the fake GitHub (needs Go)
	@$(BIN)/python tools/go_client.py

.PHONY: simulate
simulate: $(VENV)/.dev ## the whole system on a virtual clock under faults: SEED=n with its trace, or N=100 seeds
	@$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED),--seeds 0 $(or $(N),100) --workers $(WORKERS) --smaller) $(ARGS)

.PHONY: soak
soak: $(VENV)/.dev ## 10,000 seeds (N=), goes on where it was stopped; every kind and pair of faults must have struck
	@$(BIN)/python -m tests.simulation.run --soak --seeds 0 $(or $(N),10000) --workers $(WORKERS) --smaller $(ARGS)

.PHONY: sweeps
sweeps: $(VENV)/.dev ## every write, call and event of the canonical scenarios disturbed in turn (ARGS="--full": hours)
	@$(BIN)/python -m tests.simulation.sweeps $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.dev ## planted defects, each to be noticed within 200 seeds of the simulation (ARGS="--only listener")
	@$(BIN)/python -m tests.simulation.mutants.run $(ARGS)

.PHONY: properties
properties: $(VENV)/.dev ## what holds for whatever hypothesis draws, N=20 times as many examples as in `make test` (N=2 K=lease)
	PROPERTIES_TIMES=$(or $(N),20) $(BIN)/python -m pytest -q --timeout=0 tests/plan tests/unit -k '(properties or machine or lease or fuzz or doubted)$(if $(K), and ($(K)))'

.PHONY: faults
faults: $(VENV)/.dev ## real processes killed, stopped for a minute, without memory, ports, certificates or a line: minutes
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist load --timeout=290 tests/system/slow $(if $(K),-k '$(K)') $(ARGS)

.PHONY: coverage
coverage: $(VENV)/.dev ## branch coverage of the rules, at least 95 %
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -q tests/plan tests/unit/controllers tests/unit/listener
	$(BIN)/python tools/rules_coverage.py

.PHONY: check
check: $(VENV)/.dev ## format, lint, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases tools
	$(BIN)/mypy benchmarks
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/generate.py --check
	$(BIN)/python -m pytest -q tests/unit/test_tidy.py

.PHONY: fix
fix: $(VENV)/.dev ## repair what can be repaired
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

.PHONY: generate
generate: $(VENV)/.dev ## CRDs, phase picture, reason, behaviour and command pages from the code
	$(BIN)/python tools/generate.py

.PHONY: lock
lock: $(VENV)/.dev ## pin the dependencies anew, with hashes and without an index address
	$(BIN)/python tools/lock.py

.PHONY: sbom
sbom: $(VENV)/.runtime ## what is inside, from the locks, as CycloneDX (ARGS="--output sbom.json"); no network
	@$(BIN)/python tools/sbom.py $(ARGS)

.PHONY: dashboards
dashboards: $(VENV)/.dev ## every query and alert on a running system, in a real Prometheus (Debian's, unpacked)
	$(BIN)/python -m pytest -q tests/dashboards $(if $(K),-k '$(K)') $(ARGS)

# What follows needs a Go toolchain: the real Kubernetes is built from tests/kube, once.
.PHONY: kube
kube: $(VENV)/.dev ## build kube-apiserver, controller manager, etcd and helm for the tests (once; needs Go)
	@$(BIN)/python tools/kube.py build

.PHONY: conformance-real
conformance-real: kube ## the conformance cases on the embedded and on a real API server, with a table
	RUNNERSCALE_CONFORMANCE_SERVERS=embedded,real $(BIN)/python -m pytest -q --timeout=300 tests/conformance $(if $(K),-k '$(K)') $(ARGS)

.PHONY: kubernetes
kubernetes: kube ## the whole system on a real kube-apiserver, under the charts' rights (needs Go)
	$(BIN)/python -m pytest -q tests/kubernetes $(if $(K),-k '$(K)') $(ARGS)
