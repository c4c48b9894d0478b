# `make run` sets everything up and runs the default study; `make test` sets up and passes the quick tests,
# `make test-all` all of them.
# PYTHON=python3.12 picks another interpreter, STUDY=examples/branin/config.yaml another study.

PYTHON ?= python3
STUDY ?= config.yaml
VENV := .venv
# What studies and the examples need, and what else there is: tests, documentation, other formats.
READY := $(VENV)/ready
WHOLE := $(VENV)/whole
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps
# A section of constraints.txt, and nothing else: each file must have one of the digests there.
SECTION = sed -n '/^\# $(1):/,/^$$/p' constraints.txt > $(VENV)/$(1).txt
LOCKED = $(INSTALL) --require-hashes --no-build-isolation --use-pep517 --requirement $(VENV)/$(1).txt
# A PyTorch of this machine (pip's find-links) goes before that of the index, which may need CUDA.
TORCH = sed -n '/^torch==/,/[^\\]$$/p' constraints.txt > $(VENV)/torch.txt
NEEDS_CUDA := $(VENV)/bin/python -c 'import importlib.metadata as m, sys; \
  sys.exit(not any("nvidia-" in needed for needed in m.requires("torch") or ()))'
# Said before a disk is full, unless PyTorch is there already.
ROOM = ls -d $(VENV)/lib/*/site-packages/torch >/dev/null 2>&1 \
  || test $$(df -Pm $(VENV) | awk 'NR == 2 {print $$4}') -gt 8000 \
  || echo 'This disk has less than 8 GB of room, and PyTorch with CUDA takes 5.8; the small one of docs/start.md \
takes 0.8' >&2
# What pip would do on one core. Some packages hold files that do not compile; that does no harm. This
# package too: where PYTHONDONTWRITEBYTECODE is set, each job would compile it anew.
COMPILE := $(VENV)/bin/python -m compileall -qq --workers 0 $(VENV)/lib dngo snakemake_logger_plugin_dngo \
  || true
# One thread for each process: evaluations run side by side, and fits are the same bits everywhere.
export OMP_NUM_THREADS ?= 1
# Where the shell looks that make was typed in: what a run says last is to be typed there.
export DNGO_SHELL_PATH := $(or $(DNGO_SHELL_PATH),$(PATH))
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: run test test-rest test-all fuzz lint docs release setup lock clean

run: $(READY)
	snakemake --configfile $(STUDY)

# A file's tests share what they set up, and some mostly wait: three workers keep two cores busy, and four
# where a real Slurm is waited for.
WORKERS = python -m pytest -n $(1) --dist loadfile --no-loadscope-reorder

# What a change needs, in nine minutes. What this machine lacks is skipped, in a line that says how to get it.
test: $(WHOLE) lint
	$(call WORKERS,3) -m 'not full'

# What `make test` leaves out, and once more what it may have skipped.
test-rest: $(WHOLE)
	$(call WORKERS,4) -m 'full or needs' $(PYTEST)

test-all: test test-rest

# Hours of what `make test` does for seconds: make fuzz SECONDS=3600 SEED=7
fuzz: $(WHOLE)
	python tests/fuzz.py --seconds $(or $(SECONDS),3600) --seed $(or $(SEED),0) --keep fuzz-failures

lint: $(WHOLE)
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile rules benchmarks/Snakefile
	snakemake --lint
	python tests/prose.py

# The site, in docs/_build/html: needs no network; every warning is an error, a broken link included. All
# pages are written: the search forgets the words of a page that is left as it is.
docs: $(WHOLE)
	rm -rf docs/modules
	python -m sphinx --write-all --fail-on-warning --keep-going --quiet docs docs/_build/html

# dist/ with an sdist and a wheel that were installed, run and tested. Nothing is uploaded. It stops where a
# measured table is older than the last release, and benchmarks/results/older.txt does not say so.
release: $(WHOLE) docs
	python benchmarks/tables.py --release
	rm -rf dist
	python -m build --quiet --no-isolation
	twine check --strict dist/*
	python tests/release.py dist

setup: $(WHOLE)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'dngo needs Python 3.11 or newer; try: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo 'Python has no venv module; on Debian: apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(call SECTION,build) && $(call LOCKED,build)
	$(TORCH) && { $(call LOCKED,torch) --no-index 2>/dev/null || true; }
	@$(ROOM)
	$(call SECTION,studies) && $(call LOCKED,studies)
	if $(NEEDS_CUDA); then $(call SECTION,cuda) && $(call LOCKED,cuda); fi
	$(INSTALL) --no-build-isolation --editable .
	$(COMPILE)
	touch $@

$(WHOLE): $(READY)
	$(call SECTION,tests) && $(call LOCKED,tests)
	$(COMPILE)
	touch $@

lock:
	$(PYTHON) tests/lock.py

clean:
	rm -rf $(VENV) .snakemake
