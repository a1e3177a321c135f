# The only list of commands. `make` alone shows it.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-to-run
COMPILE = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # pip would do so on one processor; templates among the packages are no Python
EDITABLE = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --no-build-isolation --editable
export DPICL_DATA ?= $(abspath $(wildcard ../shared/data))
export PREFECT_SERVER_ANALYTICS_ENABLED = false
export DO_NOT_TRACK = 1

CHECKS := check-lint check-form check-types check-layers

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all audit chaos drill check $(CHECKS) format bench release-check mutants peers schema reference notebooks docs sbom lock clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## make the virtual environment and install everything
$(DEMO_READY): pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sh tools/install.sh $(BIN)/python requirements.lock
	$(EDITABLE) .
	@touch $@
$(READY): $(DEMO_READY) requirements-dev.lock lab/pyproject.toml
	sh tools/install.sh $(BIN)/python requirements-dev.lock
	$(EDITABLE) lab
	@echo "compiling: what was installed, once; a minute or more on a slow machine"
	@$(COMPILE)
	@touch $@

demo: export PYTHONDONTWRITEBYTECODE = # what it imports is compiled once, and nothing else
demo: export DPICL_HOME = $(CURDIR)/.dpicl/demo
demo: export DPICL_RUNS = .dpicl/runs
demo: $(DEMO_READY) ## a private release beside the true rows, and what a real language model makes of it: a report in two to seven minutes on two cores
	@if $(BIN)/dpicl model fetch smollm2 > /dev/null; then $(BIN)/dpicl run demo --executor pool; \
	else echo "So the bundled model answers alone, which compares rows and knows no language."; $(BIN)/dpicl run demo --executor pool --model bundled; fi

TESTERS ?= 3 # on two cores: some wait for servers
test: $(READY) ## run the tests of every change, in three processes
	$(BIN)/python -m pytest -q -n $(TESTERS) --dist loadfile --no-loadscope-reorder

test-all: $(READY) ## the same and what is too long for every change: whole runs, pages followed, kills at every step, several hosts
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -q -n $(TESTERS) --dist loadfile --no-loadscope-reorder -m ""

RUNS ?= 1000000
RUNS_OF_THE_MACHINE ?= 4000
TRANSCRIPTS ?= 5000
audit: $(READY) ## bound every mechanism's epsilon from below, and the whole machine's; public suites of DPICL_SUITES: make audit RUNS=100000
	$(BIN)/dpicl audit --all --runs $(RUNS)
	$(BIN)/dpicl audit transcripts --runs $(TRANSCRIPTS)
	$(BIN)/dpicl audit end-to-end --runs $(RUNS_OF_THE_MACHINE)
	$(BIN)/dpicl audit suites

SCHEDULES ?= 100
chaos: $(READY) ## kill the release protocol at every step: make chaos SCHEDULES=5
	$(BIN)/python -m lab.benchmarks.crash.matrix --schedules $(SCHEDULES)

RUNS_A_NIGHT ?= 24
MINUTES ?= 20
drill: $(READY) ## kill every part of an installation in turn under scheduled runs: make drill MINUTES=20
	$(BIN)/python -m lab.benchmarks.installation.drill --runs $(RUNS_A_NIGHT) --minutes $(MINUTES)

check: $(READY) ## lint, types and layers, beside each other
	@$(MAKE) --no-print-directory --keep-going --jobs=4 $(CHECKS)
check-lint:
	$(BIN)/ruff check .
check-form:
	$(BIN)/ruff format --check .
check-types:
	$(BIN)/mypy
check-layers:
	$(BIN)/lint-imports

format: $(READY) ## put the code into its usual form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutants: $(READY) ## bring listed mistakes back one by one, and see that a test notices each: make mutants MUTANTS="--jobs 2"
	$(BIN)/python -m tools.mutants $(MUTANTS)

TOPIC ?= main
bench: $(READY) ## measure: make bench TOPIC=main
	$(BIN)/python -m lab.benchmarks.$(subst -,_,$(TOPIC))

release-check: $(READY) ## all checks, tests, audits, chaos and topics on this commit, over several sittings: build/release-check.md
	$(BIN)/python -m lab.benchmarks.release_check $(STEPS)

PEERS := .venv-peers
NUMPY1 := .venv-peers-numpy1
peers: $(PEERS)/.ready $(NUMPY1)/.ready ## install the packages that make bench TOPIC=peers and dpicl audit --target look at, apart from dpicl's
$(PEERS)/.ready: lab/benchmarks/peers/requirements.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	CMAKE_ARGS=-DLLAVA_BUILD=OFF $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r lab/benchmarks/peers/requirements.txt
	@touch $@

$(NUMPY1)/.ready: lab/benchmarks/peers/numpy1.txt
	@test -x $(NUMPY1)/bin/python || $(PYTHON) -m venv $(NUMPY1)
	$(NUMPY1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r lab/benchmarks/peers/numpy1.txt
	@touch $@

schema: $(READY) ## write the JSON schemas of contracts and their suites of Great Expectations again
	$(BIN)/python -c "from dpicl.contract.load import Contract, schema_text; print(schema_text(Contract), end='')" > data_contracts/schema.json
	$(BIN)/python -c "from dpicl.contract.load import TextContract, schema_text; print(schema_text(TextContract), end='')" > data_contracts/texts/schema.json
	DPICL_CONTRACTS=data_contracts $(BIN)/python -m tasks.expectations

reference: $(READY) ## write the pages of docs/reference again
	$(BIN)/python -m tools.reference

notebooks: $(READY) ## write pages as notebooks with what they show: build/notebooks
	$(BIN)/python -m tools.notebooks build/notebooks

# With an environment of its own: `make setup` need not wait for it.
DOCS := .venv-docs
docs: $(DOCS)/.ready ## make a site of all pages, to be opened without a server: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet --config-file tools/site/mkdocs.yml
	@echo $(CURDIR)/build/site/index.html
$(DOCS)/.ready: tools/site/requirements.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/site/requirements.txt
	@touch $@

# Torch's build without an accelerator is not on PyPI: its digest stands here, one for each version of Python. A new torch has others.
TORCH_CPU := 6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
EXPORT = uv export --quiet --frozen --no-emit-project --no-annotate --no-header
sbom: $(DEMO_READY) ## list every package and shipped file with its digest: dist/dpicl.cdx.json
	@mkdir -p dist
	$(BIN)/python -m tools.packages > dist/dpicl.cdx.json

lock: ## resolve the dependencies anew (needs uv)
	uv lock --upgrade
	$(EXPORT) --extra pipeline --extra local --extra build --output-file requirements.lock
	$(EXPORT) --all-extras --output-file requirements-dev.lock
	sed -i "/^torch==/a \\    --hash=sha256:$(TORCH_CPU) \\\\" requirements.lock requirements-dev.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --output-file tools/site/requirements.txt tools/site/requirements.in
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --output-file lab/benchmarks/peers/requirements.txt lab/benchmarks/peers/requirements.in
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --output-file lab/benchmarks/peers/numpy1.txt lab/benchmarks/peers/numpy1.in

clean: ## remove the virtual environments, the site and all runs of this folder; budgets stay
	rm -rf $(VENV) $(DOCS) $(PEERS) $(NUMPY1) build/site .dpicl/runs .dpicl/peers
