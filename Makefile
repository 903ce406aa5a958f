# What a person types. `make` alone lists it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
# The platform and its tests are many short processes: without bytecode each would compile all modules anew.
export PYTHONDONTWRITEBYTECODE =

PY := .venv/bin/python
DEVSTACK := $(PY) -m dpp_project.devstack
# Fast for tests: services of their own, thrown away afterwards.
AROUND := $(DEVSTACK) with-services --
SECONDS ?= 300
LOCK := .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
JOBS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1 )))
T ?= tests
ARGS ?=

.PHONY: help setup setup-ocr setup-model setup-workspaces setup-browser setup-deploy setup-docker docker-test setup-image image-test base demo up down status logs lint format test locks check contract bench bench-ocr prove fuzz mutants clean reset

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make the virtual environments, tools for testing included
	@sh dpp_project/devstack/bootstrap.sh dev
	@sh dpp_project/devstack/setup_ocr.sh --may
	@sh dpp_project/devstack/setup_model.sh --may
	@sh dpp_project/devstack/setup_workspaces.sh --may
	@sh dpp_project/devstack/setup_browser.sh --may
	@sh dpp_project/devstack/setup_deploy.sh --may

setup-ocr: ## Install Tesseract's Korean and English and the tests' fonts (apt, as root)
	@sh dpp_project/devstack/setup_ocr.sh

setup-model: ## Install spin and gcc, which check the protocol's model (apt, as root)
	@sh dpp_project/devstack/setup_model.sh

setup-docker: ## Install a Docker daemon, which the tests of the workspaces' Docker driver start themselves (apt, as root)
	@sh dpp_project/devstack/setup_docker.sh

docker-test: setup setup-docker ## The contract of drivers, with a Docker daemon of the tests' own
	@$(AROUND) $(PY) -m pytest -q -n 0 -m slow -k docker tests/integration/workspaces

setup-workspaces: ## Install bubblewrap, which holds workspaces on this machine (apt, as root)
	@sh dpp_project/devstack/setup_workspaces.sh

setup-browser: ## Install Chromium and its driver, which the journeys look at pages with (apt, as root)
	@sh dpp_project/devstack/setup_browser.sh

setup-deploy: ## Fetch promtool, which checks the alert rules (apt)
	@sh dpp_project/devstack/setup_deploy.sh

setup-image: ## Install what builds the container image and runs it without an engine (apt, as root)
	@sh dpp_project/devstack/setup_image.sh

image-test: setup setup-image ## Build the container image and run a platform from it
	@$(AROUND) $(PY) -m pytest -q -s -n 0 -m slow tests/image

base:
	@sh dpp_project/devstack/bootstrap.sh base
	@sh dpp_project/devstack/setup_ocr.sh --may
	@sh dpp_project/devstack/setup_workspaces.sh --may

demo: base ## Start everything from nothing and show that it works
	@$(DEVSTACK) demo

up: base ## Start services and the platform; return when all is ready
	@$(DEVSTACK) up

down: ## Stop everything, keep the data (NOW=1 kills a worker that is busy)
	@if [ -x $(PY) ]; then $(DEVSTACK) down $(if $(NOW),--now); fi

status: ## What runs, with pids, ports and restarts
	@$(DEVSTACK) status

logs: ## The end of the logs (S=worker for one, F=1 to follow)
	@$(DEVSTACK) logs $(S) $(if $(F),-f) $(if $(N),-n $(N))

lint: setup ## Style, types, import rules, missing migrations, Django's own checks
	@$(AROUND) sh -ec '\
	  .venv/bin/ruff check . ; \
	  .venv/bin/ruff format --check . ; \
	  .venv/bin/mypy . ; \
	  .venv/bin/lint-imports ; \
	  $(PY) manage.py makemigrations --check --dry-run ; \
	  $(PY) manage.py migrate --verbosity 0 ; \
	  $(PY) manage.py provision >/dev/null ; \
	  DPP_HTTPS=1 DPP_METRICS_TOKEN=0123456789abcdef $(PY) manage.py check --deploy --fail-level WARNING'

format: setup ## Put the code into its form
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

test: setup ## All tests but the slow ones (T=tests/unit for some, JOBS=1, ARGS=-x)
	@$(AROUND) $(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" $(T) $(ARGS)

locks: setup ## Resolve requirements/*.in anew, for Python 3.11 and later, with hashes
	@for name in base devstack; do $(LOCK) requirements/$$name.in -o requirements/$$name.txt; done
	@$(LOCK) -c requirements/base.txt requirements/dev.in -o requirements/dev.txt
	@for peer in bench/peers/*.in; do $(LOCK) $$peer -o $${peer%.in}.txt; done

check: lint test ## What must pass before a commit

contract: setup ## Each promise with its tests
	@$(AROUND) $(PY) -m tests.proving.contract

bench: setup ## Measure, and write docs/performance.md from it (B=worker_pool for one, KEEP=1 keeps it, ARGS= are its own)
	@$(AROUND) $(PY) -m bench $(B) $(if $(KEEP),--keep) $(if $(PATIENCE),--patience $(PATIENCE)) $(if $(ARGS),-- $(ARGS))

bench-ocr: setup ## Character error rate by kind of page, and pages a minute (SEEDS=20 for more of each)
	@$(PY) -m bench.ocr $(SEEDS)

prove: setup ## Every slow proof, each with its count (P=devstack for one)
	@sh dpp_project/devstack/setup_image.sh --may
	@$(PY) -m tests.proving.proofs $(P)

mutants: setup ## Plant small faults, one after the other; the suite must find each (M=gate for some)
	@$(AROUND) $(PY) -m tests.proving.mutants $(M)

fuzz: setup ## The API against its own document, 20,000 requests (N=2000 for fewer)
	@DPP_FUZZ_CASES=$(or $(N),20000) $(AROUND) $(PY) -m pytest -q -n $(JOBS) tests/acceptance/test_openapi_fuzz.py

chaos: setup ## Load and faults on a platform of its own for SECONDS=300, then the account (SEED=n repeats)
	@$(PY) -m tests.proving.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

reset: ## Stop everything and delete data, keys and logs
	@if [ -x $(PY) ]; then $(DEVSTACK) reset; else rm -rf .devstack; fi

clean: down ## Remove environments and caches; the data stay
	@rm -rf .venv .venv-devstack staticfiles .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
