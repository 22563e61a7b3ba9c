# Needs Python 3.11, Java 17 or newer, make, and (for torch.compile) g++. Everything else goes into .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3.11
EXTRA ?= cpu
DAYS ?= 5
PORT ?=
GEM_HOME ?= .gem
BIN := .venv/bin
CODE := gem_pipeline assets jobs resources spark tests benchmarks

export GEM_HOME
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test check-fast format dev mlflow bench constraints clean

help:  ## show the targets
	@echo "make TARGET [EXTRA=cpu|cuda] [DAYS=5] [PORT=...] [GEM_HOME=.gem] [PYTHON=python3.11]"
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

install:  ## make .venv with exactly the pinned packages, and fetch the Spark jars; instant when done already
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) was not found. Install Python 3.11, or name it: make install PYTHON=/path/to/python3.11" >&2; exit 3; }
	$(PYTHON) -m gem_pipeline.installation --extra $(EXTRA)

demo: install  ## install, then run the whole chain over the last DAYS days and print the results
	@$(BIN)/gem demo --days $(DAYS)

test: install  ## run the whole test suite, two folders of it at a time, long ones first
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder

check-fast: install  ## lint, format, types, import layers, style tests
	@$(BIN)/ruff check --quiet $(CODE)
	$(BIN)/ruff format --quiet --check $(CODE)
	$(BIN)/pyrefly check --summary=none --output-format=min-text --min-severity=error
	mkdir -p .import_linter_cache
	$(BIN)/lint-imports --no-logo > .import_linter_cache/report.txt || { cat .import_linter_cache/report.txt; exit 1; }
	$(BIN)/python -m pytest tests/style -q -m "not slow"

format:  ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --quiet --fix $(CODE) || true
	$(BIN)/ruff format --quiet $(CODE)

dev: export DAGSTER_HOME := $(abspath $(GEM_HOME))/dagster_home
dev: install  ## open the Dagster UI on PORT (default 3000)
	@$(BIN)/gem doctor --port $(or $(PORT),3000)
	$(BIN)/python -c 'import pathlib, resources.dagster_home as home; home.write_dagster_home(pathlib.Path("$(GEM_HOME)"))'
	exec $(BIN)/dagster dev -w workspace.yaml -h 127.0.0.1 -p $(or $(PORT),3000)

mlflow: install  ## open the MLflow UI on PORT (default 5000)
	@$(BIN)/gem doctor --port $(or $(PORT),5000)
	exec $(BIN)/mlflow ui --backend-store-uri "sqlite:///$(abspath $(GEM_HOME))/mlflow.db" --host 127.0.0.1 --port $(or $(PORT),5000)

bench: install  ## run every benchmark, rewrite docs/benchmarks.md
	@$(BIN)/python -m benchmarks

constraints:  ## resolve pyproject.toml again into constraints.txt (Linux, cpu); keeps what still fits
	@uv=$$(command -v $(BIN)/uv || command -v uv) || { echo "uv was not found. Install it: $(BIN)/python -m pip install uv" >&2; exit 3; }
	$$uv pip compile --quiet pyproject.toml --extra cpu --extra dev --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --output-file constraints.txt
	echo "constraints.txt: $$(wc -l < constraints.txt) packages"

clean:  ## remove .venv, caches and builds; state (GEM_HOME) and reports stay
	@rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
