# Every target makes what it needs: a virtual environment in .venv with the versions of constraints.txt.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
# --no-compile: most of what the frameworks bring is never imported, and compiling it takes longer than installing it.
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --no-compile -q -c constraints.txt

export OMP_NUM_THREADS      := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS      := 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint types docs bench build fix clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## Measure the bundled GloVe table, and watch a short training
	@$(BIN)/fullspan demo

test: $(VENV)/.dev ## All checks: style, types, floors, docs, tests
	$(MAKE) --no-print-directory lint types docs
	$(BIN)/python -m pytest

lint: $(VENV)/.dev ## Style and floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(VENV)/.dev ## Types
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

docs: $(VENV)/.dev ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.dev ## Benchmarks
	$(BIN)/python -m benchmarks.run

build: $(BIN)/python ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --disable-pip-version-check -q --no-deps -w dist .

fix: $(VENV)/.dev ## Format, and fix what can be fixed by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove what was built, and the environment
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[all,test,lint,docs,bench]"
	@touch $@ $(VENV)/.core
