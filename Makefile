# Everything a person or CI does here is one of these targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORES := $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)))' 2>/dev/null || echo 2)
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --dist worksteal --numprocesses
# Tests that wait for their parties leave cores to others.
MORE_THAN_CORES := $(shell expr $(CORES) + 2)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where it is set, each of a thousand processes of the tests compiles this package anew: half of its start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: venv demo test test-all test-fast matrix chaos chaos-sim audit audit-replay audit-attack lab lint format
.PHONY: protos reference bench referee site dist clean

venv: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml audit/pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@printf 'Installing fedkme into $(VENV), once; a dot is a package, and about 160 take minutes: '
	@rm -f $(VENV)/.failed; { $(BIN)/pip install $(PIP_OPTIONS) --progress-bar off --constraint constraints.txt \
		--editable '.[sim,release,dev]' --editable audit --editable lab || touch $(VENV)/.failed; } | awk \
		'/^Collecting/ { printf "." } /^Installing coll/ { printf " unpacking" } { fflush() } END { print "" }'
	@test ! -e $(VENV)/.failed
	@touch $@

demo: venv
	$(BIN)/fedkme sim run examples/own-files/scenario.toml

test: venv
	$(MAKE) --jobs 2 lint test-all

# With COMPILE=1 one process compiles what tests import, beside the lint; else each worker does where nothing is compiled.
test-all: venv
	$(if $(COMPILE),$(BIN)/pytest --collect-only --quiet $(TESTS) >/dev/null || true)
	$(PYTEST) $(MORE_THAN_CORES) $(TESTS)

test-fast: venv
	$(PYTEST) auto -m 'not processes and not long'

# The fast tests by each supported Python of this machine, in environments of their own under build/.
PYTHONS ?= 3.11 3.12 3.13
matrix:
	for version in $(PYTHONS); do \
		$(MAKE) test-fast PYTHON=python$$version VENV=build/venv-$$version || exit; done

# N schedules of real processes that die, and of disks that fail, from SEED on; with MORE=--releases, lives of the
# last release are among them; with MORE=--between, a forwarder that breaks and a PostgreSQL that restarts. What fails
# tells its story.
N ?= 50
SEED ?= 0
chaos: venv
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.system.chaos $(N) --seed $(SEED) $(MORE)

# N simulated schedules on all cores: 10,000 take four minutes of two, N=1000000 a night of a server. Which, follows from
# the files of the commit: the same commit plays the same ones, another one those that nobody played. SEED=... plays
# others, and `fedkme sim schedule SEED` one of them again, with its story.
chaos-sim: N = 10000
chaos-sim: SEED = $(shell printf %d 0x$$(git rev-parse 'HEAD^{tree}' 2>/dev/null | cut -c1-7) 2>/dev/null)
chaos-sim: venv
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/fedkme sim chaos --schedules $(N) --seed $(SEED) --jobs $(CORES)

# The auditor's shelf: its tests, then replays in their quick size, of which docs/privacy.md speaks, and attacks with
# half of the trials of theirs: no planted fault needs more than 0.4 of those.
audit: venv
	$(PYTEST) $(MORE_THAN_CORES) audit/tests
	$(MAKE) --jobs 2 audit-replay audit-attack

# A replay is one process: attacks, then planted faults, use the other core.
audit-replay: venv
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/fedkme audit replay all --quick

audit-attack: venv
	rm -rf build/audit  # of an earlier state of the code
	$(BIN)/fedkme audit attack all --scale 0.5 --jobs 2 --out build/audit
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m audit.planted_faults

# The makers' shelf: tests of benchmarks, experiments and forecasts.
lab: venv
	$(PYTEST) $(MORE_THAN_CORES) lab/tests

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/protos.py --check
	$(BIN)/python tools/reference.py --check

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

protos: venv
	$(BIN)/python tools/protos.py

reference: venv
	$(BIN)/python tools/reference.py

bench: venv
	$(BIN)/fedkme bench

# Made rows beside rivals', by tests that others wrote; what we lose stands first, and exit status 1 says that a row was
# lost that was won. Environments of others are made once. MORE=--quick: within ten minutes of two cores.
referee: venv
	$(BIN)/fedkme referee prepare
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/fedkme referee $(MORE)

# With what the worked examples show: they run first, which takes two minutes.
site: venv
	FEDKME_RUN_EXAMPLES=1 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The wheel is the same, bit for bit, wherever a commit is built with the locked tools.
dist: build/dist/.ready
	build/dist/bin/python tools/dist.py $(URL)

build/dist/.ready: constraints.txt
	$(PYTHON) -m venv build/dist
	build/dist/bin/pip install --quiet --constraint constraints.txt build cyclonedx-bom
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info runs
