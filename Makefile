# The single door: everything a person or a CI machine runs is a target here.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test slow mutants mutate attack audit lint types format tables clean

help:           ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

demo: $(VENV)/.ready        ## train on the bundled Cora, write a report, suggest ten new links
	@run=$$($(BIN)/cgcl train cora --out runs/demo) && \
	$(BIN)/cgcl predict "$$run" --top 10
	@echo; echo "The program is $(BIN)/cgcl; with 'source $(BIN)/activate' it is just cgcl."

# A process for each core, each on one thread: threads of two processes would wait for each other.
test: $(VENV)/.ready-test   ## run the test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow" -n logical --dist loadgroup

slow: $(VENV)/.ready-test   ## run the tests that take minutes
	$(BIN)/python -m pytest -q -m slow

mutants: $(VENV)/.ready-test ## break each promise by one line and see whether its tests notice
	$(BIN)/python scripts/mutants.py --workers 2

mutate: $(VENV)/.ready-test ## change the code in every small way and see whether tests of its room notice
	OMP_NUM_THREADS=1 $(BIN)/python scripts/mutate.py --workers 2 --out runs/mutate.jsonl

attack: $(VENV)/.ready-test ## signals and faults at every call to the disk, changes in every file that is read
	$(BIN)/python scripts/attack/disk.py --times 17
	$(BIN)/python scripts/attack/stored.py --draw 2000
	$(BIN)/python scripts/attack/fuzz.py --seconds 600

# In an environment of its own: what it needs must not change what is audited. Strict, because a
# dependency that a mirror of the list does not know would else count as sound.
audit: $(VENV)/bin/python   ## look the pinned dependencies up in the public list of known faults
	@$(BIN)/python -m venv $(VENV)/audit && $(VENV)/audit/bin/pip install --quiet pip-audit
	@$(VENV)/audit/bin/pip-audit -r constraints.txt --no-deps --strict || { \
	  echo "Not sound, or not looked up: the lines above say which; the list is on the network."; exit 1; }

lint: $(VENV)/.ready-lint   ## style, format, spelling and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell src tests docs scripts experiments examples benchmarks README.md CHANGELOG.md CONTRIBUTING.md
	$(BIN)/lint-imports

types: $(VENV)/.ready-lint  ## static types
	$(BIN)/pyrefly check

format: $(VENV)/.ready-lint ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

tables: $(VENV)/.ready-test ## write the tables and figures of README and docs from the committed results
	$(BIN)/python experiments/tables.py

clean:          ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e . && touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(PIP) -e '.[test]' && touch $@

$(VENV)/.ready-lint: $(VENV)/.ready-test
	$(PIP) -e '.[test,lint]' && touch $@
