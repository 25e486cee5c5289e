# The two commands of this project are `make serve` and `make test`; both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help serve demo extras test slow check lint types imports docs bench large soak tools servers format lock clean release

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: $(VENV)/.autopush ## start autopush on the embedded store (options: AUTOPUSH_<NAME>, see `autopush serve --help`)
	@exec $(BIN)/autopush serve

extras: $(VENV)/.extras ## add what DynamoDB, PostgreSQL, the bridges, Sentry, Firehose and client certificates need

demo: $(VENV)/.channelstats ## make up a Slack workspace and open its dashboard in the browser
	@exec $(BIN)/channelstats demo

# conftest.py says how many processes; one that has nothing left takes tests from another.
SPREAD := -n auto --dist worksteal

test: $(VENV)/.dev ## run the tests; what a missing browser or server keeps from running is named
	@$(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS)

slow: $(VENV)/.dev servers ## the tests that take long, in full: other engines, storms, many kills
	@$(BIN)/python -m pytest $(SPREAD) -m slow $(PYTEST_ARGS)

check: lint types imports docs ## lint, types, import contract, documentation

lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.dev
	@$(BIN)/mypy

imports: $(VENV)/.dev
	@$(BIN)/lint-imports

docs: $(VENV)/.dev ## build the documentation into docs/_build/html
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.dev ## measure, as ratios to a floor taken in the same run
	@$(BIN)/python -m bench

large: $(VENV)/.dev ## channelstats with 2,000,000 messages: what import and report cost, as ratios
	@$(BIN)/python -m bench.channelstats
	@$(BIN)/python -m bench.channelstats.long_cost
	@$(BIN)/python -m bench.channelstats.import_cost --messages 2000000 --people 20000 --channels 500 --days 365

soak: $(VENV)/.dev servers ## the fault, fuzz and model suites in their long form; takes hours
	@AUTOPUSH_SOAK=1 $(BIN)/python -m pytest packages/autopush/tests/faults packages/autopush/tests/net packages/autopush/tests/protocol packages/autopush/tests/delivery packages/autopush/tests/simulation packages/keytables tests/deploy/test_systemd_manager.py -m "" --timeout 1800 $(PYTEST_ARGS)

servers: .tools/.ministack $(if $(shell command -v npm 2>/dev/null),.tools/.dynalite) ## the servers with DynamoDB's API that tests start (npm for one of the two)

SENDERS := .tools/senders/node/send.js $(if $(shell command -v go 2>/dev/null),.tools/senders/go)

PEBBLE := $(if $(shell command -v go 2>/dev/null),.tools/pebble/pebble)

tools: .tools/.ministack .tools/.dynalite .tools/.synapse .tools/.postgres $(SENDERS) $(PEBBLE) ## the servers that tests start, and senders (needs npm too, go for two of them)

format: $(VENV)/.dev ## let ruff format and fix
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-emit-find-links --no-header --no-annotate \
  --no-emit-package keytables --no-emit-package autopush-server
PROJECTS = $(wildcard packages/*/pyproject.toml)

lock: ## pin requirements/ to the newest versions (needs uv and npm)
	@$(COMPILE) $(PROJECTS) requirements/build.in --group dev --all-extras -o requirements/dev.txt
	@$(COMPILE) packages/keytables/pyproject.toml requirements/build.in --constraint requirements/dev.txt -o requirements/keytables.txt
	@$(COMPILE) packages/autopush/pyproject.toml requirements/build.in --constraint requirements/dev.txt -o requirements/autopush.txt
	@$(COMPILE) packages/autopush/pyproject.toml requirements/build.in --all-extras --constraint requirements/dev.txt \
	  -o requirements/autopush-all.txt
	@$(COMPILE) packages/channelstats/pyproject.toml requirements/build.in --constraint requirements/dev.txt \
	  -o requirements/channelstats.txt
	@$(COMPILE) packages/pytest-autopush/pyproject.toml requirements/build.in --constraint requirements/dev.txt \
	  -o requirements/pytest-autopush.txt
	@$(COMPILE) requirements/pip.in -o requirements/pip.txt
	@$(COMPILE) requirements/tools/ministack.in -o requirements/tools/ministack.txt
	@$(COMPILE) requirements/tools/synapse.in -o requirements/tools/synapse.txt
	@$(COMPILE) requirements/release.in --constraint requirements/dev.txt -o requirements/release.txt
	@for folder in requirements/tools requirements/tools/postgres; do \
	  (cd $$folder && npm install --package-lock-only --omit-lockfile-registry-resolved --silent); done

release: $(VENV)/.release ## build what a release has into dist/, and install and use each (root, on Debian 12, x86-64)
	@$(BIN)/python packaging/release.py all dist
	@AUTOPUSH_RELEASE=dist $(BIN)/python -m pytest tests/release -n 2 -m "" $(PYTEST_ARGS)

clean: ## remove what was built
	@rm -rf $(VENV) .tools dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "autopush needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 3; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "on Debian and Ubuntu: apt install python3-venv" >&2; exit 3; }
	@# That of Python 3.11 takes twice as long, most of it over what the index lists.
	@$(PIP) install --require-hashes -r requirements/pip.txt

.tools/.ministack: requirements/tools/ministack.txt | $(VENV)/bin/python
	@echo "Setting up ministack in .tools (once) …"
	@$(PYTHON) -m venv --without-pip .tools/ministack
	@$(PIP) --python .tools/ministack install --no-compile --require-hashes -r $<
	@touch $@

.tools/.synapse: requirements/tools/synapse.txt | $(VENV)/bin/python
	@echo "Setting up Synapse in .tools (once) …"
	@$(PYTHON) -m venv --without-pip .tools/synapse
	@$(PIP) --python .tools/synapse install --no-compile --require-hashes -r $<
	@touch $@

.tools/senders/node/send.js: tests/senders/node/send.js tests/senders/node/package-lock.json
	@echo "Setting up web-push in .tools (once) …"
	@mkdir -p $(@D) && cp tests/senders/node/package*.json $(@D)/
	@cd $(@D) && npm ci --silent --ignore-scripts --no-audit --no-fund
	@cp $< $@

.tools/senders/go: tests/senders/go/main.go tests/senders/go/go.sum
	@echo "Building webpush-go in .tools (once) …"
	@cd tests/senders/go && go build -o $(CURDIR)/$@ .

.tools/pebble/pebble: tests/pebble/go.mod tests/pebble/go.sum
	@echo "Building Pebble, a directory of ACME, in .tools (once) …"
	@cd tests/pebble && go build -o $(CURDIR)/$(@D)/ \
	  github.com/letsencrypt/pebble/v2/cmd/pebble github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv

.tools/senders/rust: tests/senders/rust/src/main.rs tests/senders/rust/Cargo.toml
	@echo "Building web-push of Rust in .tools (once; some minutes) …"
	@mkdir -p $(@D)/build && cp -r tests/senders/rust $(@D)/build/
	@cd $(@D)/build/rust && cargo build --quiet --release && cp target/release/sender $(CURDIR)/$@

.tools/.dynalite: requirements/tools/package-lock.json
	@echo "Setting up dynalite in .tools (once) …"
	@mkdir -p .tools/dynalite && cp requirements/tools/package*.json .tools/dynalite/
	@cd .tools/dynalite && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

.tools/.postgres: requirements/tools/postgres/package-lock.json
	@echo "Setting up the oldest and the newest PostgreSQL in .tools (once) …"
	@mkdir -p .tools/postgres && cp requirements/tools/postgres/package*.json .tools/postgres/
	@cd .tools/postgres && npm ci --silent --ignore-scripts --no-audit --no-fund
	@for folder in .tools/postgres/node_modules/postgres-*/; do \
	  [ ! -d "$$folder" ] || (cd "$$folder" && node scripts/hydrate-symlinks.js >/dev/null 2>&1); done
	@touch $@

.tools/.packages: $(wildcard packaging/*.py packaging/*.sh packages/*/pyproject.toml) $(shell find packages/keytables/src packages/autopush/src -name '*.py') | $(VENV)/.dev
	@echo "Building packages in .tools …"
	@$(BIN)/python packaging/release.py bundle .tools/packages/bundle
	@for what in file image; do $(BIN)/python packaging/release.py $$what .tools/packages/$$what --bundle .tools/packages/bundle; done
	@touch $@

$(VENV)/.release: requirements/release.txt $(VENV)/.dev
	@$(PIP) install --no-compile --require-hashes -r $<
	@touch $@

INSTALL_EDITABLE = $(PIP) install --no-build-isolation --no-deps $(patsubst %,--editable packages/%,$(1))

$(VENV)/.autopush: requirements/autopush.txt packages/keytables/pyproject.toml packages/autopush/pyproject.toml | $(VENV)/bin/python
	@echo "Setting up $(VENV) (once) …"
	@$(PIP) install --require-hashes -r $<
	@$(call INSTALL_EDITABLE,keytables autopush)
	@touch $@

$(VENV)/.extras: requirements/autopush-all.txt | $(VENV)/bin/python
	@echo "Adding the extras to $(VENV) (once) …"
	@$(PIP) install --require-hashes -r $<
	@touch $@

$(VENV)/.channelstats: requirements/channelstats.txt packages/keytables/pyproject.toml packages/channelstats/pyproject.toml | $(VENV)/bin/python
	@echo "Setting up $(VENV) for channelstats (once) …"
	@$(PIP) install --require-hashes -r $<
	@$(call INSTALL_EDITABLE,keytables channelstats)
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(PROJECTS) | $(VENV)/bin/python
	@echo "Setting up $(VENV) for development (once) …"
	@# Most of it is never imported; Python compiles the rest when it is.
	@$(PIP) install --no-compile --require-hashes -r $<
	@$(call INSTALL_EDITABLE,keytables autopush channelstats pytest-autopush)
	@touch $@
