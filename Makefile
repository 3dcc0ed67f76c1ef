# Each target alone works on a fresh machine with Python 3.11: it makes .venv, installs and does its job.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: demo test cover check format pages bench clean

# bytecode is made of what is used, when it is used, and kept, whatever the machine says: to compile all that is
# installed takes a minute, and tests start a hundred processes
export PYTHONDONTWRITEBYTECODE =

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[figures,dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/coterie demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# the same, with lines counted, which takes a third more: before a release
cover: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov=coterie --cov-report=term:skip-covered --cov-fail-under=90

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/coterie bench

# pages that are made of entries: of methods, metrics and keys of a policy
pages: $(STAMP)
	$(BIN)/coterie methods --reveals > docs/reveals.md
	$(BIN)/python -m coterie.show.glossary
	$(BIN)/python -m coterie.federation.policy.pages

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
