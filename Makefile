# Every target sets itself up on a machine that has only python3 (3.11 or newer) and make; a second call reinstalls nothing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# Two processes, each with whole files, so that what a file's tests share is made once.
PARALLEL := --numprocesses 2 --dist loadfile
# Compiled programs are kept between runs, so that only the first one pays for XLA.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.5

# Two processes test at a time: let each keep to one thread in NumPy's small products.
check test test-slow: export OPENBLAS_NUM_THREADS = 1

.PHONY: help demo picture check test test-newest test-slow lint paper bench docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.python:
	@echo "setting up $(VENV) (once)"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "anyshot needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing anyshot (about two minutes the first time)"
	$(PIP) --editable .
	touch $@

$(VENV)/.dev-installed: $(VENV)/.installed
	$(PIP) --editable '.[dev]'
	touch $@

$(VENV)/.bench-installed: $(VENV)/.installed
	$(PIP) --editable '.[bench]'
	touch $@

$(VENV)/.docs-installed: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	touch $@

demo: $(VENV)/.installed  ## compare six methods on embedded digits in about three minutes and write a report
	$(BIN)/anyshot demo --out demo-report

picture: demo  ## make the README's picture from the demo's report
	$(BIN)/python docs/picture.py demo-report/report_files docs/demo.png

check: lint  ## the inner loop: lint, types, architecture and the fast tests, in about 90 seconds
	$(BIN)/python -m pytest -m "not slow and not medium" $(PARALLEL)

test: lint  ## lint, types, architecture and all tests but the slow ones
	$(BIN)/python -m pytest -m "not slow" $(PARALLEL)

test-newest:  ## make test with Python 3.12 and the newest JAX, in .venv-newest; skipped where there is no Python 3.12
	@for python in python3.12 $(HOME)/.pyenv/versions/3.12.*/bin/python; do \
		if $$python -c '' 2>/dev/null; then exec $(MAKE) test PYTHON=$$python VENV=.venv-newest; fi; \
	done; \
	echo "test-newest: skipped, for there is no python3.12 on PATH or in pyenv"

test-slow: $(VENV)/.dev-installed  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow $(PARALLEL)

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs-installed  ## write docs/settings.md anew and build the pages into .cache/site
	$(BIN)/python docs/reference.py
	$(BIN)/mkdocs build --strict --quiet

paper: $(VENV)/.installed  ## run one of the paper's tables: make paper TARGET=table-2-pose PAPER="--parallel 5"
	$(BIN)/python -m paper $(or $(TARGET),--help) $(PAPER)

bench: $(VENV)/.bench-installed  ## time the meta-gradient against PyTorch; BENCH="--tasks 10" changes the size
	$(BIN)/python -m benchmarks.meta_step $(BENCH)

clean:  ## remove what the targets made
	rm -rf $(VENV) .venv-newest .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache demo-report benchmarks/out
