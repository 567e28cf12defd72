# make demo    clean a sample photograph (IMAGE=my.png for your own, SIGMA=20 if you know its noise)
# make quick   a choice of the tests in a minute, for every save
# make test    all checks: format, lint, types, and all tests but the longest
# make long    the longest tests: kernels for other CPUs, the first run, the site, the wheel, fuzzing
# make bench   the paper's tables and figures, and speed (DATA=folder of test images)
# make paper   the paper's table alone, in minutes (DATA=folder with set12, bsd68 and urban100)
# make faults  kill a run, and fill the disk, at every operation on files
# make docs    the documentation, in site/
# make napari  the plug-in for napari in a real viewer, in an environment of its own
# make vapoursynth  the filter for VapourSynth, in an environment of its own
# make oldest  some tests with the oldest versions of other packages that pyproject.toml admits
# make fuzz    hostile input for SECONDS=60 seconds
# make lint    format, lint and types only; make format fixes what it can

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SECONDS ?= 60
OLDEST := $(addprefix tests/,api/test_argument_errors.py api/test_bad_arguments.py api/test_denoise.py \
	core/test_algorithm.py core/test_numba_internals.py large/test_dask.py planning $(addprefix files/, \
	test_dicom.py test_files.py test_formats.py test_hdf5_mrc_nifti.py test_instruments.py test_raw_files.py))

# Compiled kernels are kept by the sources they come from, so that no stale one is ever run.
SOURCES := $(shell cat $$(find src -name '*.py' | sort) | cksum | cut -d' ' -f1)
export NUMBA_CACHE_DIR := $(CURDIR)/.cache/kernels-$(SOURCES)

.PHONY: demo quick test long lint format bench paper faults docs napari vapoursynth oldest fuzz clean

demo: $(VENV)/demo
	@$(BIN)/nlridge demo $(if $(IMAGE),"$(IMAGE)") $(if $(SIGMA),--sigma $(SIGMA)) $(ARGS)

# PyTorch's threads spin while they wait: on a busy machine, most of the time.
quick test long: export OMP_NUM_THREADS := 1
# Wherever byte code is not kept, every process compiles the tests and the package again.
quick test long: export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(VENV)/test
	@$(PYTEST) --quick -r fE --ignore tests/project tests $(ARGS)

test: lint .cache/node_modules/axe-core
	@$(PYTEST) -m "not long" $(ARGS)

# With it, tests check the accessibility of the studio's pages; without npm, they are skipped.
.cache/node_modules/axe-core:
	@mkdir -p .cache && { ! command -v npm >/dev/null || npm install --silent --prefix .cache axe-core@4.14.0; } || true

long: $(VENV)/test
	@$(PYTEST) -m long $(ARGS)

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
		.venv-napari/bin/python -m pytest -W default tests/apps/test_napari.py $(ARGS)

vapoursynth: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/vapoursynth-kernels-$(SOURCES)
vapoursynth: .venv-vapoursynth/test-vapoursynth
	@.venv-vapoursynth/bin/python -m pytest -W default tests/apps/test_vapoursynth.py src/nlridge/vapoursynth.py $(ARGS)

# Old packages with newer ones below them issue warnings, which are not errors of ours.
oldest: export OMP_NUM_THREADS := 1
oldest: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/oldest-kernels-$(SOURCES)
oldest: .venv-oldest/test-oldest
	@.venv-oldest/bin/python -m pytest -n 2 --dist loadfile -W default $(OLDEST) $(ARGS)

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

# VapourSynth needs Python 3.12: the usual one, or another.
.venv-vapoursynth/% .venv-filters/%: PYTHON = $(or $(shell for python in python3 python3.14 python3.13 python3.12 \
	"$$(pyenv root 2>/dev/null)"/versions/3.1[2-9]*/bin/python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done), \
	$(error VapourSynth needs Python 3.12 or later))
.venv-vapoursynth/%: pyproject.toml
	$(environment)

# What benchmarks of other filters run: python -m benchmarks --only frontier.
.venv-filters/%: pyproject.toml
	$(environment)

# What pip would never choose.
.venv-oldest/%: export PIP_CONSTRAINT := $(CURDIR)/.cache/oldest.txt
.venv-oldest/%: pyproject.toml
	@mkdir -p .cache && $(PYTHON) packaging/oldest.py > .cache/oldest.txt
	$(environment)

define environment
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$(filter-out [demo],[$*])"
	@touch $@
endef

clean:
	rm -rf $(VENV) .venv-napari .venv-vapoursynth .venv-filters .venv-oldest .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis site demo.png
