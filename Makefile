# Works on a fresh machine with Python 3.11 or later and make; everything is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMPILED := $(shell grep -rl njit src/spectrem --include='*.py')

# As many processes as processors, at most four; the tests of a file stay together, in order. ARGS="-n 0 ..." uses one.
PYTEST := $(BIN)/pytest -n logical --maxprocesses 4 --dist loadfile

# Python's own compiled code is kept, whatever the environment says: many tests start processes.
export PYTHONDONTWRITEBYTECODE :=

# The first of these that pip finds: a build for processors alone, where the registry has one, takes 1 GB in place of 6.
TORCH ?= torch==2.13.0+cpu torch

.PHONY: help demo test test-all test-torch lint types docs bench reproduce picture wheel release-check clean

help:
	@echo "make demo      align a generated bitext under EM, PR and UEM; table and picture"
	@echo "make test      the test suite"
	@echo "make test-all  the suite with the slow tests (real corpora beside the checkout)"
	@echo "make test-torch the layers for PyTorch, in an environment of their own"
	@echo "make lint      ruff: rules and format"
	@echo "make types     mypy"
	@echo "make docs      the site, into docs/_build/html"
	@echo "make bench     accuracy, time and memory (real corpora beside the checkout)"
	@echo "make reproduce an experiment of a paper: NAME=uem-table2 ARGS=--quick; without NAME, the list of them"
	@echo "make wheel     dist/*.whl with compiled code for this Python; minutes"
	@echo "make release-check  builds, and tries builds in empty environments; PYTHONS=\"python3.11 ...\"; an hour"
	@echo "make picture   the picture of README.md"
	@echo "make clean     remove .venv and caches"

demo: $(VENV)/installed
	@mkdir -p out
	@$(BIN)/spectrem demo --plot out/demo.png

test: $(VENV)/warm
	$(PYTEST) $(ARGS)

test-all: $(VENV)/warm
	$(PYTEST) -m "slow or not slow" $(ARGS)

test-torch: $(VENV)-torch/installed $(VENV)/warm
	$(VENV)-torch/bin/pytest tests/pytorch src/spectrem/torch tests/docs/test_public_names.py $(ARGS)

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/installed
	$(BIN)/mypy

docs: $(VENV)/docs $(VENV)/warm
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html
	$(BIN)/python docs/check_docstrings.py

bench: $(VENV)/warm
	$(BIN)/python benchmarks/hmm.py
	$(BIN)/python benchmarks/series.py --write
	$(BIN)/python benchmarks/homes.py
	$(BIN)/python benchmarks/trigram.py
	$(BIN)/python benchmarks/trees.py --write
	$(BIN)/python benchmarks/projection.py --write
	$(BIN)/python benchmarks/tables.py --write
	$(BIN)/python benchmarks/long_sentences.py
	$(BIN)/python benchmarks/mixture.py
	$(BIN)/python benchmarks/clusters.py --write
	$(BIN)/python benchmarks/start.py --write
	$(BIN)/python benchmarks/cold.py --write
	$(BIN)/python benchmarks/align.py $(ARGS)

reproduce: $(VENV)/warm
	@$(BIN)/python -m reproductions $(NAME) $(ARGS)

picture: $(VENV)/warm
	$(BIN)/spectrem demo --plot docs/posteriors.png

# Other builds, such as that of pip install, take seconds and compile nothing.
wheel: $(VENV)/installed
	$(BIN)/python -m pip install --quiet build
	SPECTREM_PREBUILD=1 $(BIN)/python -m build --wheel

release-check:
	$(PYTHON) .ci/release_check.py $(PYTHONS) $(ARGS)

# The groups of pyproject.toml need pip 25.1 or later, which a fresh environment may lack.
$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Spectrem needs Python 3.11 or later, and $(PYTHON) is older; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[plot,tables,dask,skops,text]" --group dev
	@touch $@

$(VENV)-torch/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@for build in $(TORCH); do $(VENV)-torch/bin/python -m pip install --quiet $$build 2>/dev/null && break; done
	$(VENV)-torch/bin/python -m pip install --quiet --editable ".[torch,tables]" --group dev
	@touch $@

$(VENV)/docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

# Numba keeps what it compiled beside the sources, so this is slow only once.
$(VENV)/warm: $(VENV)/installed $(COMPILED)
	$(BIN)/spectrem warmup
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-torch out docs/_build docs/_generated docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests reproductions -name __pycache__ -type d -prune -exec rm -rf {} +
