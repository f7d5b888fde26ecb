# Every target below with a `##` comment is listed by `make help`.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-spark exhaustive check fmt bench soak clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTHON ?= python3
WORKERS ?= 2
BENCH ?=
DEMO ?=

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv and install everything from PyPI (quick when nothing changed)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,dev,bench,spark]'
	@touch $@

demo: setup ## views follow a stream of TPC-H changes on Spark, and are checked; DEMO="--engine local" for this process
	$(BIN)/viewmill demo $(DEMO)

test: setup ## every test but the exhaustive ones
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not exhaustive"

test-spark: setup ## every test of the Spark engine, also those that take long
	$(BIN)/python -m pytest tests/spark

exhaustive: setup ## every test, with every strategy compiled
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

check: setup ## lint, types and the fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not slow and not exhaustive and not spark" --hypothesis-profile=quick

fmt: setup ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## TPC-H, VWAP and the compiler, timed; hours, or minutes with BENCH=--quick
	$(BIN)/python benchmarks/compile.py
	$(BIN)/viewmill bench vwap
	$(BIN)/viewmill bench tpch $(BENCH)

soak: setup ## a million random changes under five views, compared with DuckDB
	$(BIN)/viewmill bench soak

clean: ## remove .venv and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
