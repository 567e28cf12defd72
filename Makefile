# make demo    clean a sample photograph (IMAGE=my.png for your own, SIGMA=20 if you know its noise)
# make test    all checks: format, lint, types, tests
# make bench   the paper's tables and figures, and speed (DATA=folder of test images)
# make faults  kill a run, and fill the disk, at every operation on files
# make docs    the documentation, in site/
# make fuzz    hostile input for SECONDS=60 seconds
# make lint    format, lint and types only; make format fixes what it can

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SECONDS ?= 60

# Compiled kernels are kept by the sources they come from, so that no stale one is ever run.
SOURCES := $(shell cat $$(find src -name '*.py' | sort) | cksum | cut -d' ' -f1)
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/kernels-$(SOURCES)

.PHONY: demo test lint format bench faults docs fuzz clean

demo: $(VENV)/demo
	@$(BIN)/nlridge demo $(if $(IMAGE),"$(IMAGE)") $(if $(SIGMA),--sigma $(SIGMA)) $(ARGS)

# PyTorch's threads spin while they wait: on a busy machine, most of the time.
test: export OMP_NUM_THREADS := 1
test: lint
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/test
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

format: $(VENV)/test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/bench
	@$(BIN)/python -m benchmarks $(if $(DATA),--data "$(DATA)") $(ARGS)

faults: $(VENV)/test
	@$(BIN)/python -m fuzz.faults $(ARGS)

docs: $(VENV)/docs
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs site && echo site/index.html

fuzz: export OMP_NUM_THREADS := 1
fuzz: $(VENV)/test
	@$(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

# An environment for each purpose in one place: its stamp is renewed when the requirements change.
$(VENV)/%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis site demo.png
