# make demo    clean a sample photograph (IMAGE=my.png for your own, SIGMA=20 if you know its noise)
# make test    all checks: format, lint, types, tests
# make bench   the paper's tables and figures, and speed (DATA=folder of test images)
# make paper   the paper's table alone, in minutes (DATA=folder with set12, bsd68 and urban100)
# make faults  kill a run, and fill the disk, at every operation on files
# make docs    the documentation, in site/
# make napari  the plug-in for napari in a real viewer, in an environment of its own
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

.PHONY: demo test lint format bench paper faults docs napari fuzz clean

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

# Sets of other names in DATA have no published values; a set that is missing there is left out.
paper: $(VENV)/bench
	@$(BIN)/python -m benchmarks --only quality --methods nl-ridge nl-bayes bm3d \
		$(if $(DATA),--data "$(DATA)" --sets set12 bsd68 urban100) $(ARGS)

faults: $(VENV)/test
	@$(BIN)/python -m fuzz.faults $(ARGS)

docs: $(VENV)/docs
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs site && echo site/index.html

# A screen that nobody sees, unless there is one; warnings of napari and Qt are not errors of ours.
napari: .venv-napari/test-napari
	@$(if $(DISPLAY),,$(shell command -v xvfb-run) $(if $(shell command -v xvfb-run),--auto-servernum)) \
		.venv-napari/bin/python -m pytest -W default tests/test_napari.py $(ARGS)

fuzz: export OMP_NUM_THREADS := 1
fuzz: $(VENV)/test
	@$(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

# An environment for each purpose in one place: its stamp is renewed when the requirements change. The demonstration needs
# no extra.
$(VENV)/%: pyproject.toml
	$(environment)

# napari's plug-in for pytest has no place in the other tests.
.venv-napari/%: pyproject.toml
	$(environment)

define environment
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$(filter-out [demo],[$*])"
	@touch $@
endef

clean:
	rm -rf $(VENV) .venv-napari .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis site demo.png
