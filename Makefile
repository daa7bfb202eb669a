# Every target creates what it needs in .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-all check docs docs-versions evidence-check bench packages release-check clean

help:   ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 18

$(VENV)/run: pyproject.toml reproduction/pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'multigrade needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[pictures,plots]' --editable reproduction
	touch $@

$(VENV)/dev: $(VENV)/run
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --editable reproduction
	touch $@

demo: $(VENV)/run   ## fit the paper's first function both ways and denoise a picture: two minutes
	$(BIN)/multigrade demo

test: $(VENV)/dev   ## the tests
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: $(VENV)/dev   ## the tests and the long checks
	$(BIN)/python -m pytest -n auto --dist worksteal --hypothesis-profile=long

check: $(VENV)/dev   ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

docs: $(VENV)/dev   ## the documentation, in site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-versions: $(VENV)/dev   ## the documentation of every release, in site/, with a menu
	$(BIN)/python -m pip install --quiet --editable '.[release]'
	$(BIN)/python tools/docs_versions.py

evidence-check: $(VENV)/dev   ## whether docs/verdicts.md says what the results in reproduction/evidence say
	$(BIN)/python -m pytest tests/reproduction/test_evidence.py

bench: $(VENV)/dev   ## measurements, each against its rival in one run
	$(BIN)/python -m benchmarks

packages:   ## wheels and source packages of both distributions, in dist/, checked
	$(PYTHON) -m build --outdir dist .
	$(PYTHON) -m build --outdir dist reproduction
	$(PYTHON) -m twine check --strict dist/*

release-check: $(VENV)/dev   ## what a release needs: packages, citation, workflows
	$(BIN)/python -m pip install --quiet --editable '.[release]'
	$(MAKE) packages PYTHON=$(BIN)/python
	$(BIN)/uvx --from 'cffconvert==2.0.0' --with 'setuptools<81' cffconvert --validate  # its requirements exclude newer ones
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline .github

clean:   ## remove the virtual environment
	rm -rf $(VENV)
