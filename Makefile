# The few commands of the README. `make test` needs Python 3.11 or newer and sets up the rest itself.

usable = $(shell $(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(1))
ifndef PYTHON
PYTHON := $(or $(call usable,python3),$(call usable,python3.13),$(call usable,python3.12),$(call usable,python3.11))
endif
BIN := .venv/bin
# What the program needs (25 MB), what `make test` needs (85 MB), and all (330 MB).
LIGHT := .venv/light
TESTING := .venv/testing
ALL := .venv/all
# The larger one serves as well.
testing = $(or $(wildcard $(ALL)),$(TESTING))
# The packages beside the core, each with a Makefile of its own.
PACKAGES := $(wildcard packages/*)
# Where `dist` and `packages` write.
DIST := dist
# What `image` builds: by default the one that the manifests of --install name.
IMAGE = $(shell sed -n 's/^REPOSITORY = "\(.*\)"/\1/p' packages/server/kubectl_sky_server/install/model.py):$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' kubectl_sky/__init__.py)
# Many tests wait most of the time.
PYTEST := $(BIN)/pytest --numprocesses 3 --dist worksteal
# Says how long a part took, and runs tests that fail once more, alone.
PART := $(BIN)/python .ci/part.py
# shellcheck: parts share variables and functions with entry.sh, some files exist only in pods, messages have ~,
# and A && B || C is used on purpose.
SHARED := SC1091,SC2015,SC2034,SC2088,SC2148,SC2154,SC2329
BEYOND = 'real Kubernetes and controllers, kubectl, browser, krew, packages, site, workflows: make test-all'
HEADING = printf '\n==== %s ====\n'
MAKE_AGAIN = @$(MAKE) --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint unit venv bench bench-cluster bench-scale bench-server site web image dist packages _lint _prepare _without-cluster _tools _alone _cluster

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# The time of the demo includes that of the installation.
demo: export DEMO_STARTED := $(shell date +%s)
demo: $(or $(wildcard $(ALL)),$(LIGHT)) ## run the demo on a practice cluster: needs only Python, downloads 25 MB the first time
	@.ci/demo.sh $(BIN)

test: lint ## check style and types, run the unit tests and those on the practice cluster; needs only Python
	@$(HEADING) 'tests without a Kubernetes, and with the practice cluster'
	@NOT_RUN=$(BEYOND) $(PART) 'tests on the practice cluster' $(PYTEST) -m 'not cluster and not tools'

test-all: export PARTS := .venv/parts.txt
test-all: ## run `make test`, then with a real Kubernetes and its controllers, a browser, krew, packages
	$(MAKE_AGAIN) $(testing)
	@rm -f $(PARTS)
	$(MAKE_AGAIN) --jobs=2 _prepare _without-cluster
	$(MAKE_AGAIN) _cluster
	@$(HEADING) 'all parts'
	@cat $(PARTS)

lint: $(testing) ## check style, types and the layers
	@$(PART) 'style, types, layers' $(MAKE) --no-print-directory _lint

_lint:
	@$(HEADING) 'style, types, layers'
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python .ci/packed.py
	$(BIN)/shellcheck --norc --shell sh --exclude $(SHARED) runtime/*.sh
	$(BIN)/mypy
	$(BIN)/mypy $(filter-out .ci/man.py,$(wildcard .ci/*.py)) docs/pages.py # click-man has no types
	$(BIN)/lint-imports
	for package in $(PACKAGES); do (cd $$package && ../../$(BIN)/lint-imports) || exit; done

unit: $(testing) ## run the tests that need no Kubernetes
	@$(HEADING) 'tests without a Kubernetes'
	@$(PART) 'tests without a Kubernetes' $(PYTEST) -m 'not cluster and not practice and not tools'

venv: $(ALL) ## create .venv with the project and its tools

# What takes long only the first time is built beside the tests that do not need it.
_prepare: $(testing)
	@nice $(PART) 'programs and images' $(BIN)/python -m tests.cluster prepare

# One after the other, whatever --jobs says. `make test` has to do with Python alone.
_without-cluster:
	@.ci/bare.sh $(MAKE) --no-print-directory --jobs=1 test
	$(MAKE_AGAIN) --jobs=1 _tools

_tools: venv
	@$(HEADING) 'workflows, and tests with kubectl, a browser, krew, packages'
	$(BIN)/zizmor --quiet --offline .
	$(BIN)/python -m tests.cluster.actionlint
	$(BIN)/mypy
	@$(PART) 'tests with kubectl, a browser, krew, packages' $(PYTEST) -m 'tools and not cluster and not alone'
	@$(PART) 'tests of each package alone' $(MAKE) --no-print-directory _alone
	@$(PART) 'tests of Ray' $(BIN)/pytest -m alone

_alone:
	for package in $(PACKAGES); do $(MAKE) --no-print-directory --directory $$package test PYTHON="$(PYTHON)" || exit; done

_cluster: venv
	@$(HEADING) 'tests with a real Kubernetes'
	@$(PART) 'tests with a real Kubernetes' $(PYTEST) -m 'cluster and not nodes'
	@$(PART) 'tests on three cluster nodes' $(BIN)/pytest -m 'nodes and not faults'

# Each is made again after a change of a pyproject.toml.
$(ALL): pyproject.toml $(PACKAGES:=/pyproject.toml)
	$(call install,330,$(PACKAGES:%=--editable %) --editable . --group dev)

$(TESTING): pyproject.toml $(PACKAGES:=/pyproject.toml)
	$(call install,85,$(PACKAGES:%=--editable %) --editable . --group test)

$(LIGHT): pyproject.toml packages/practice/pyproject.toml
	$(call install,25,--editable packages/practice --editable .)

define install
@$(if $(PYTHON),:,echo 'Python 3.11 or newer is needed, and none is on PATH' >&2; exit 1)
@$(HEADING) 'install into .venv: about $(1) MB of packages, unless pip has them in its cache'
@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv .venv; }
@$(BIN)/python -m pip install --upgrade 'pip>=25.1' # knows --group
@$(BIN)/python -m pip install --no-compile $(2)
@touch $@
endef

.PHONY: test-faults
test-faults: venv ## run all tests on three cluster nodes, which lose their links and programs; takes half an hour
	@$(PART) 'tests on three cluster nodes' $(BIN)/pytest -m nodes

.PHONY: test-gpu
test-gpu: $(testing) ## run small forms of five examples on this machine's GPUs
	@$(BIN)/python -m programs.gpu

bench: venv ## time commands beside kubectl, and reading files beside SkyPilot, which it installs
	$(BIN)/python -m programs.bench commands

bench-cluster: venv ## time the start of list, logs beside stern and files beside kubectl, on a real Kubernetes
	$(BIN)/python -m programs.bench cluster

bench-scale: venv ## time commands on 1,000 pretended cluster nodes with up to 10,000 tasks; takes half an hour
	$(BIN)/python -m programs.bench scale

bench-server: venv ## time the REST server beside the API server, and measure the pages of 200 users with up to 10,000 tasks
	$(BIN)/python -m programs.bench server

dist: ## build the plugin's archive for this platform, and its krew manifest
	@.ci/isolated.sh "$(PYTHON)" archive python .ci/dist.py "$(DIST)"

image: ## build the image of server and controllers with docker, podman or buildah; IMAGE=NAME names it
	@.ci/image.sh "$(IMAGE)"

packages: ## build and check wheel and sdist, and list what the wheel installs (SBOM)
	@.ci/isolated.sh "$(PYTHON)" packages .ci/packages.sh "$(DIST)"

site: venv ## build the documentation as a site, into dist/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

web: ## build the dashboard from packages/server/web; the only command that needs Node
	cd packages/server/web && npm ci --no-fund --no-audit && npm run check && npm run build
