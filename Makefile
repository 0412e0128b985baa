# `make help` lists what there is. Each target sets up what it needs.

# The broker of `make demo` and `make test`: container or jvm; for `make test` also host:port. Unset: a container where
# Docker runs, else a JVM.
KAFKA_BROKER ?=
export KAFKA_BROKER

# Where `make setup` puts uv when there is none; last, so that the rest of its folder hides nothing.
export PATH := $(PATH):$(CURDIR)/.tools/bin

BIN = .venv/bin
DEMO = .demo/orders-pipeline
# A file keeps to one process, but for tests that are marked to be spread (tests/conftest.py). One process more than
# two cores: each waits for its broker now and then.
PYTEST = $(BIN)/python -m pytest -n 3 --dist loadgroup
# The files that run a product against a broker; they take longest, so they begin. The others need none.
PRODUCTS = $(shell grep -lE '^(from|import) running' tests/test_*.py)
QUICK = $(filter-out $(PRODUCTS),$(wildcard tests/test_*.py))
pinned = $(shell sed -n 's/^$(1): "\{0,1\}\([^"]*\)"\{0,1\}$$/\1/p' hooks/matrix.yml)
# The newest that all Spark lines take, since variants of each run here.
newest_java = $(shell sed -n 's/^ *newest_java: //p' hooks/matrix.yml | sort -n | head -n 1)

.DEFAULT_GOAL := help
.PHONY: help tools setup demo test test-quick lint check bench variants matrix whole golden lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' Makefile

# What a new repository sets up uv and Java with; the packages here are others.
.tools/setup.sh: template/scripts/setup.sh.jinja hooks/matrix.yml
	@mkdir -p .tools
	@sed -e 's/{{ matrix.uv }}/$(call pinned,uv)/' -e 's/{{ matrix.java }}/$(call pinned,java)/' \
		-e 's/{{ .*newest_java }}/$(newest_java)/' -e '/^set_up_packages$$/d' $< > $@

tools: .tools/setup.sh
	@sh .tools/setup.sh

.venv/.complete: requirements.txt | tools
	@echo "Installing the packages of requirements.txt into .venv/"
	@uv venv --quiet --allow-existing .venv
	@uv pip sync --quiet --python .venv --require-hashes requirements.txt
	@touch $@

setup: tools .venv/.complete ## uv, a Java runtime and the packages, where they are missing

demo: setup ## the default pipeline: rendered, a real broker, good and bad records, the table
	@mkdir -p $(DEMO)
	@find $(DEMO) -mindepth 1 -maxdepth 1 ! -name .venv ! -name uv.lock ! -name jars -exec rm -rf {} +
	@echo "Rendering the default pipeline into $(DEMO)/"
	@PYTHONWARNINGS=ignore $(BIN)/copier copy --quiet --defaults --overwrite --vcs-ref HEAD . $(DEMO)
	@$(MAKE) --no-print-directory -C $(DEMO) demo

test: setup ## every test; those of the products start a broker
	@$(PYTEST) $(PRODUCTS) $(QUICK)

test-quick: setup ## the tests that need no broker
	@$(PYTEST) $(QUICK)

lint: setup ## lint, format, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

check: lint test ## what CI runs: lint, format, types, every test

bench: setup ## rows a second beside the same work in plain Spark, as ratios
	@$(BIN)/python tests/bench.py

variants: setup ## the variants: every valid combination of answers
	@$(BIN)/python tests/rendering.py

matrix: setup ## every variant run against the broker, with its crashes: a table, a line each
	@$(PYTEST) tests/test_products.py -k "guarantee or as_a_user"

whole: setup ## all that variants test of themselves, for each sink and guarantee; takes hours
	@$(PYTEST) tests/test_products.py -m whole

golden: setup ## write the golden trees anew; then look at git diff
	@$(BIN)/python -m pytest tests/test_render.py -k golden --update-golden

lock: tools ## write requirements.txt after a change to pyproject.toml; commit it
	@uv pip compile --quiet --universal --generate-hashes --no-annotate --group dev \
		--custom-compile-command "make lock" --output-file requirements.txt

clean: ## remove what the other targets can make again
	rm -rf .venv .tools .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
