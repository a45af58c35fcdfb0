# A fresh machine needs Python 3.11+ and make, nothing else: each target makes its own environment in .venv.
PYTHON ?= python3
NAME   ?= linear
PAPER  ?= all
WORKERS ?= 2

VENV  := .venv
BIN   := $(VENV)/bin
BENCH := .venv-bench
TORCH := .venv-torch
OLDEST := .venv-oldest
DOCS  := .venv-docs
MINIMAL := .venv-minimal
PIP_INSTALL := -m pip install --disable-pip-version-check -q
PINS  := pyproject.toml constraints.txt

# One BLAS thread per process where processes run side by side.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m pytest -n $(WORKERS)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-slow test-campaign test-torch test-oldest test-minimal lint format types docs papers bench clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

demo: $(VENV)/.demo-stamp ## install the package with plots and command line, run the main job on an embedded data set
	$(BIN)/bayesvm demo

test: $(VENV)/.dev-stamp ## run the tests and the doctests (ARGS= is passed on to pytest)
	$(PYTEST) $(ARGS)

test-slow: $(VENV)/.dev-stamp ## run the tests marked slow
	$(PYTEST) -m slow --ignore=tests/campaign $(ARGS)

test-campaign: $(VENV)/.dev-stamp ## run the campaign of generated cases and print its table
	$(PYTEST) -m slow tests/campaign $(ARGS)

test-torch: $(TORCH)/.stamp ## run the tests of array libraries and engines with torch on the CPU
	$(ONE_THREAD) MPLBACKEND=Agg $(TORCH)/bin/python -m pytest -n $(WORKERS) $(addprefix tests/,core/test_arrays.py data/test_dask.py data/test_engines.py data/test_mixed.py data/test_same_fit.py) $(ARGS)

test-oldest: $(OLDEST)/.stamp ## run the tests with the oldest supported numpy, scipy and scikit-learn
	$(ONE_THREAD) MPLBACKEND=Agg $(OLDEST)/bin/python -m pytest -n $(WORKERS) $(ARGS)

test-minimal: $(MINIMAL)/bin/python ## install the package as `pip install .` does, run README's first example and the tests of the mathematics
	@$(MINIMAL)/bin/python $(PIP_INSTALL) -c constraints.txt . hypothesis pytest pytest-xdist
	$(ONE_THREAD) $(MINIMAL)/bin/python -m pytest -n $(WORKERS) tests/test_docs.py::test_the_first_example_needs_no_extra \
	  $(addprefix tests/,core designs factor_models gp inference kernels likelihoods linalg priors sparse_kernel) $(ARGS)

lint: $(VENV)/.dev-stamp ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev-stamp ## fix what ruff can fix, format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev-stamp ## check types of the package
	$(BIN)/mypy src

docs: $(DOCS)/.stamp ## build the documentation into docs/_build/html
	MPLBACKEND=Agg $(DOCS)/bin/sphinx-build -W --keep-going -b html docs docs/_build/html

papers: $(VENV)/.demo-stamp ## run the experiments of the papers (ARGS="--quick", PAPER=luts-simulation for one)
	MPLBACKEND=Agg $(BIN)/python -m papers run $(PAPER) $(ARGS)

bench: $(BENCH)/.stamp ## run one benchmark: make bench NAME=linear (ARGS= is passed on)
	PYTHONPATH=. $(BENCH)/bin/python benchmarks/$(NAME).py $(ARGS)

clean: ## remove environments, caches and built files
	rm -rf $(VENV) $(BENCH) $(TORCH) $(OLDEST) $(DOCS) $(MINIMAL) build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst docs/_static/imports.svg
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Environments. A stamp is renewed when the requirements or their pins change.

$(BIN)/python $(BENCH)/bin/python $(TORCH)/bin/python $(OLDEST)/bin/python $(DOCS)/bin/python $(MINIMAL)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bayesvm needs Python 3.11 or newer; choose one with: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Making the environment $(patsubst %/bin/python,%,$@) ..."
	@$(PYTHON) -m venv $(patsubst %/bin/python,%,$@)

$(VENV)/.demo-stamp: $(PINS) | $(BIN)/python
	@echo "Installing bayesvm with plots and command line (about a minute the first time) ..."
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[plot,cli]"
	@touch $@

$(VENV)/.dev-stamp: $(PINS) | $(BIN)/python
	@echo "Installing bayesvm with its development tools (a minute or two the first time) ..."
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[dev]"
	@touch $@

$(DOCS)/.stamp: $(PINS) | $(DOCS)/bin/python
	@echo "Installing bayesvm with its documentation tools (a minute or two the first time) ..."
	@$(DOCS)/bin/python $(PIP_INSTALL) -c constraints.txt -e ".[docs]"
	@touch $@

$(BENCH)/.stamp: $(PINS) constraints-bench.txt | $(BENCH)/bin/python
	@echo "Installing bayesvm with the libraries it is compared with (a few minutes the first time) ..."
	@$(BENCH)/bin/python $(PIP_INSTALL) -c constraints.txt -c constraints-bench.txt -e ".[bench]"
	@touch $@

# The CPU build of torch where an index of such builds is at hand (TORCH_INDEX), else the usual one.
$(TORCH)/.stamp: $(PINS) constraints-torch.txt | $(TORCH)/bin/python
	@echo "Installing bayesvm with torch (a few minutes the first time) ..."
	@$(TORCH)/bin/python $(PIP_INSTALL) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -c constraints.txt -c constraints-torch.txt -e ".[dev,gpu]"
	@touch $@

$(OLDEST)/.stamp: pyproject.toml constraints-oldest.txt | $(OLDEST)/bin/python
	@echo "Installing bayesvm with the oldest supported versions (a few minutes the first time) ..."
	@$(OLDEST)/bin/python $(PIP_INSTALL) -c constraints-oldest.txt -e ".[dev]"
	@touch $@
