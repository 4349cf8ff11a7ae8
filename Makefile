# make demo       set up, then train a translator on the toy pair and show what it says
# make test       set up, then lint, types, import layers and all tests but the longer ones: ten minutes on two cores
# make test-slow  the longer tests
# make test-versions  of those, the installed wheel beside the oldest and the newest versions, with each Python that is found
# make test-gpu   the tests of tests/gpu, which need a CUDA GPU; make test has them too, and skips them without one
# make bench      training and translating speed of this machine, as a Markdown table: ten minutes at most
# make docs       the documentation as a site, in build/site: open build/site/index.html
# make lint       ruff, mypy and import-linter alone
# make audit      known vulnerabilities of the tested versions; skipped with a line that says so where offline
# make format     rewrite the code in the project's format
#
# TORCH_INDEX=URL adds a package index: on Linux without a GPU, the CPU index of PyTorch saves gigabytes.

VENV   := .venv
STAMP  := $(VENV)/.installed
BIN    := $(VENV)/bin
# A stub that a version manager leaves on the PATH may exist and yet not run, hence the trial.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)
INDEX  := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: demo test test-slow test-versions test-gpu bench docs lint style types collected audit format clean

demo: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/quickstart/run.sh

# Commands are started hundreds of times: each module is compiled once, not by each of them, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

# Workers of one thread each: on small tensors, threads that wait for each other are slower than none. More than two
# cores, since tests also wait for disks and other processes; a worker without tests takes half of another's.
test: $(STAMP)
	$(MAKE) -j 2 types style collected
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 4 --dist worksteal -m "not slow"

test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal -m slow

test-versions: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow -rs tests/system/test_installing.py

test-gpu: $(STAMP)
	$(BIN)/pytest -rs --durations 10 tests/gpu tests/kernels/test_logits.py tests/kernels/test_step_attention.py \
		tests/kernels/test_recording.py

bench: $(STAMP)
	$(BIN)/python examples/benchmarks table

# Material for MkDocs prints news about other generators at each build.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f docs/site/mkdocs.yml

lint: style types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

# The tests' modules are compiled here once, beside mypy, not by each worker.
collected: $(STAMP)
	$(BIN)/pytest --collect-only > $(VENV)/collected 2>&1 || { cat $(VENV)/collected; exit 1; }

audit: $(STAMP)
	$(BIN)/python .ci/audit

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Written only when everything before it succeeded, so that a broken set-up is tried again, not trusted.
# A module is compiled when it is first imported: most modules of torch never are, and compiling all takes half a minute.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "nmt needs Python 3.11 or newer with venv: install it (Debian: apt install python3 python3-venv), or name one: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(INDEX) -c constraints.txt hatchling editables setuptools
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile $(INDEX) -c constraints.txt \
		--no-build-isolation -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .venv-audit
