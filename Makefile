# Thin on purpose: the work is in infra/running/provision.py, the hooklake command and pytest.
PYTHON ?= python3

.PHONY: help setup up test faults bench

help:
	@echo "make up      set up (once) and run everything until Ctrl-C"
	@echo "make test    set up (once) and run all checks and tests"
	@echo "make faults  run every fault at full size, with its control (ONLY=D5 for one, ONLY=C,D for groups)"
	@echo "make setup   set up only"
	@echo "make bench   measure beside others [ONLY=processing|ingest|archive] [REPETITIONS=3] [SCALE=1] [ENTRIES=200000]"

setup:
	@$(PYTHON) -I infra/running/provision.py

# exec, so that SIGTERM to the recipe reaches `up`. After Ctrl-C `up` itself ends with 0, but make got the signal too, waits for it, and
# ends by it: the shell shows 130. `.venv/bin/hooklake up` shows 0.
up: setup
	@exec .venv/bin/hooklake up

test:
	@$(PYTHON) -I infra/running/provision.py --for-tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/pytest -n 3

faults:
	@$(PYTHON) -I infra/running/provision.py --for-tests
	.venv/bin/python -m tests.faults $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED))

bench:
	@$(PYTHON) -I infra/running/provision.py --for-benchmarks
	@.venv/bin/python -m tests.benchmarks $(if $(ONLY),--only $(ONLY)) $(if $(REPETITIONS),--repetitions $(REPETITIONS)) \
		$(if $(SCALE),--scale $(SCALE)) $(if $(ENTRIES),--entries $(ENTRIES))
