# Everything a contributor runs. `make help` lists it.
# VENV, PYTHON, JOBS and ARGS may be set: `make test JOBS=4 ARGS="-k reduce"`.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
ARGS ?=
EXTRAS ?= test
DIST ?= dist

BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup setup-jax mnist test rest tensorflow lint types format docs full ratchet wheel clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp per set of extras: adding docs to an environment that has test installs only docs.
$(VENV)/.ready-%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "xladev needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing xladev[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(if $(filter run,$*),,[$*])'
	@touch '$@'

setup: $(VENV)/.ready-run  ## Install xladev into .venv, and its fast calls where a C compiler is
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ./packaging/xladev-calls || \
		echo "calls of compiled programs go through Python"

setup-jax: $(VENV)/.ready-jax  ## Install xladev, JAX and the library between them into .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ./packaging/xladev-pjrt

mnist: $(VENV)/.ready-run  ## Train softmax regression on handwritten digits (the main job)
	@$(BIN)/python examples/mnist_softmax/train.py $(ARGS)

test: $(VENV)/.ready-$(EXTRAS)  ## Run tests of every area, in minutes
	@$(PYTEST) --scope=quick -n $(JOBS) $(ARGS)

rest: $(VENV)/.ready-$(EXTRAS)  ## Run the tests that `make test` leaves out
	$(PYTEST) --scope=rest -m "not serial" -n $(JOBS) $(ARGS)
	$(PYTEST) --scope=rest -m serial $(ARGS)

TENSORFLOW_TESTS := tests/unit/frontends/tensorflow tests/packaging/test_tensorflow.py \
	tests/examples/test_mnist_softmax_xla.py

tensorflow: $(VENV)/.ready-test,tensorflow  ## Run a part of the tests that need TensorFlow (a gigabyte; VENV names a place for it)
	$(PYTEST) -n $(JOBS) $(TENSORFLOW_TESTS) $(ARGS)

lint: $(VENV)/.ready-lint  ## Check style (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-lint  ## Check types (mypy, strict)
	$(BIN)/mypy

format: $(VENV)/.ready-lint  ## Rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready-docs  ## Build the documentation, warnings being errors
	$(BIN)/python docs/gen/all.py --check
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet docs build/docs
	@echo "see build/docs/index.html"

full: $(VENV)/.ready-$(EXTRAS)  ## Run every test; goes on where it stopped; writes docs/reference/full-run.json
	$(BIN)/python -m tests.tools.full_run $(ARGS)

ratchet: $(VENV)/.ready-$(EXTRAS)  ## Refuse a count in tests/ratchet.toml below any earlier one
	$(BIN)/python -m tests.tools.ratchet $(ARGS)

wheel: $(VENV)/.ready-build  ## Build sdist and wheel into dist/
	$(BIN)/python -m build --outdir $(DIST) .

clean:  ## Remove what was built (not .venv)
	rm -rf build $(DIST) .pytest_cache .ruff_cache .mypy_cache .hypothesis
