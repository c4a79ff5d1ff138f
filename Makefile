# The venv and the lab's programs are prepared side by side: both take a while on a fresh machine.
MAKEFLAGS += --jobs=2 --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB := $(BIN)/python -m lab
INSTALLED := $(VENV)/.installed

# Only a context named on make's command line counts, not a variable that happens to be in the environment.
with_context := $(if $(findstring command line,$(origin CONTEXT)),--context=$(CONTEXT))

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

.PHONY: demo
demo: install build-demo ## Play a day of the lab on a real API server and a real Prometheus (CONTEXT=… for a cluster of yours)
	@$(LAB) demo $(with_context)

.PHONY: up
up: install build-demo ## Keep the same lab running in the background, to try things by hand
	@$(LAB) up $(with_context)

.PHONY: down
down: $(BIN)/python ## End the lab in the background
	@$(LAB) down

.PHONY: test
test: lint build ## Run everything that has to pass: style, types, imports, all tests
	$(BIN)/pytest --numprocesses=2 --dist=loadfile --quiet

.PHONY: explore
explore: install ## Play very many random histories of the whole operator in process (EXPLORE=… for how many)
	EXPLORE=$(or $(EXPLORE),100000) $(BIN)/pytest tests/explore --timeout=0

.PHONY: soak
soak: install build ## Try faults for as long as they were reported, and kill the operator 200 times (an hour or so)
	FAULTS=long $(BIN)/pytest -m "soak or not soak" --timeout=1800 tests/faults

.PHONY: lint
lint: install ## Check style, types and the import contract
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: install ## Put the code into its house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: install
install: $(INSTALLED) ## Prepare the venv with the pinned dependencies and the operator

.PHONY: build
build: $(BIN)/python ## Build what the tests need and the machine lacks (kube-apiserver, etcd, Prometheus)
	@$(LAB) build

.PHONY: build-demo
build-demo: $(BIN)/python
	@$(LAB) build --demo $(with_context)

.PHONY: constraints
constraints: ## Pin the newest allowed dependencies anew (needs uv)
	uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
		--group dev --output-file constraints.txt pyproject.toml

.PHONY: clean
clean: ## Remove what tools left in the checkout; the venv and the built programs stay
	rm -rf dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}; name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): constraints.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
