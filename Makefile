# Every target works on a fresh machine with Python 3.11+, pip, make and git: .venv is made when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported, most never: half a minute less.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Workers have one thread of their own; JAX would otherwise start one for each core.
export XLA_FLAGS ?=
# Hundreds of processes are started by tests; without bytecode each would parse the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all serve test paper style check slow bench outputs docs matrix clean

# Types are checked beside the tests: they take a core for a minute. Three workers on two cores, because some tests wait for processes.
test: style
	@mkdir -p .pytest_cache; $(BIN)/pyright >.pytest_cache/types 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n 3 --dist loadfile --durations=10; tests=$$?; \
	wait $$types || { cat .pytest_cache/types; exit 1; }; exit $$tests

# Everything that must be green before a merge or a release.
all: test slow

paper: $(VENV)/installed
	$(BIN)/blts paper

# The service with three example experiments and simulated visitors; `make serve PORT=8001` where 8000 is taken.
PORT ?= 8000
serve: $(VENV)/serve
	$(BIN)/blts demo --port $(PORT)

style: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check: style
	$(BIN)/pyright

slow: $(VENV)/dev
	BLTS_SLOW=1 $(BIN)/python -m pytest -m slow -n 2 --dist loadfile

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

# What README.md and docs/ show, as the code prints it now.
outputs: $(VENV)/dev
	$(BIN)/python tests/documents.py

# The wheel in clean environments with the lowest and the highest versions that it allows.
matrix:
	$(PYTHON) .ci/matrix.py

# The documentation site, in site/index.html: opens without a server or a network. A warning, as of a broken link, is an error.
docs: $(VENV)/docs
	$(BIN)/python -m sphinx --builder html --fail-on-warning --nitpicky --quiet --doctree-dir .pytest_cache/doctrees docs site

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache results site

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[report]'
	touch $@

$(VENV)/serve: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[serve]'
	touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/installed $(VENV)/serve $(VENV)/docs

$(VENV)/docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[all,docs]'
	touch $@ $(VENV)/installed $(VENV)/serve
