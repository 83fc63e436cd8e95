# The few commands of the README. `make test` needs Python 3.11 or newer and sets up the rest itself.

usable = $(shell $(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(1))
ifndef PYTHON
PYTHON := $(or $(call usable,python3),$(call usable,python3.13),$(call usable,python3.12),$(call usable,python3.11))
endif
BIN := .venv/bin
# Another pyproject.toml, or another Python, is another environment.
STATE := $(shell { cat pyproject.toml; $(PYTHON) --version; } | cksum | cut -d' ' -f1)
# What the program needs (25 MB), what `make test` needs (85 MB), and all (330 MB).
LIGHT := .venv/light-$(STATE)
TESTING := .venv/testing-$(STATE)
INSTALLED := .venv/installed-$(STATE)
# Another one that has it, too, serves as well.
testing = $(or $(wildcard $(INSTALLED)),$(TESTING))
# Where `dist` and `packages` write.
DIST := dist
# What `image` builds: by default the one that the manifests of --install name.
IMAGE = $(shell sed -n 's/^REPOSITORY = "\(.*\)"/\1/p' kubectl_sky/install/model.py):$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' kubectl_sky/__init__.py)
# Many tests wait most of the time.
WORKERS := --numprocesses 3 --dist worksteal
# shellcheck: parts share variables and functions with entry.sh, some files exist only in pods, messages have ~,
# and A && B || C is used on purpose.
SHARED := SC1091,SC2015,SC2034,SC2088,SC2148,SC2154,SC2329
BEYOND = 'real Kubernetes and controllers, kubectl, browser, krew, packages, site, workflows: make test-all'
HEADING = printf '\n==== %s ====\n'

.DEFAULT_GOAL := help
.PHONY: lock web help demo test test-all test-ray lint style types layers workflows unit practice prepare without-cluster tools cluster bench bench-cluster bench-scale site venv cluster-up cluster-env cluster-down dist image packages man picture clean

help: ## list targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# The time of the demo includes that of the installation.
demo: export DEMO_STARTED := $(shell date +%s)
demo: $(or $(wildcard $(INSTALLED)),$(LIGHT)) ## run the demo on a practice cluster: needs only Python, downloads 25 MB the first time
	@.ci/demo.sh $(BIN)

test: lint ## check style and types, run the unit tests and those on the practice cluster; needs only Python
	@$(HEADING) 'tests without a Kubernetes, and with the practice cluster'
	NOT_RUN=$(BEYOND) $(BIN)/pytest $(WORKERS) -m 'not cluster and not tools'

test-all: ## run `make test`, then with a real Kubernetes and its controllers, a browser, krew, packages
	@$(MAKE) --no-print-directory $(testing)
	@$(MAKE) --no-print-directory --jobs=2 prepare without-cluster
	@$(MAKE) --no-print-directory cluster

# What takes long only the first time is built beside the tests that do not need it.
prepare: $(testing)
	@nice $(BIN)/python -m tests.cluster prepare

# One after the other, whatever --jobs says.
without-cluster:
	@$(MAKE) --no-print-directory --jobs=1 test
	@$(MAKE) --no-print-directory --jobs=1 venv workflows tools

tools: venv
	@$(HEADING) 'tests with kubectl, a browser, krew, packages'
	$(BIN)/mypy
	$(BIN)/pytest $(WORKERS) -m 'tools and not cluster'

cluster: venv
	@$(HEADING) 'tests with a real Kubernetes'
	$(BIN)/pytest $(WORKERS) -m 'cluster and not ray'

test-ray: venv ## run a graph on a real Ray in a real Kubernetes; makes an image of half a gigabyte
	$(BIN)/pytest --numprocesses 0 -m ray

lint: style types layers ## check style, types and the layers

style: $(testing)
	@$(HEADING) 'style'
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/shellcheck --norc --shell sh --exclude $(SHARED) runtime/*.sh

types: $(testing)
	@$(HEADING) 'types'
	$(BIN)/mypy
	$(BIN)/mypy .ci/dist.py .ci/install.py .ci/pages.py .ci/picture.py .ci/release_notes.py

layers: $(testing)
	@$(HEADING) 'layers'
	$(BIN)/lint-imports

workflows: venv
	@$(HEADING) 'GitHub Actions'
	$(BIN)/zizmor --quiet --offline .
	$(BIN)/python -m tests.cluster.actionlint

unit: $(testing) ## run the tests that need no Kubernetes
	@$(HEADING) 'tests without a Kubernetes'
	$(BIN)/pytest $(WORKERS) -m 'not cluster and not practice and not tools'

practice: $(testing) ## run the tests that need a Kubernetes on the practice cluster
	@$(HEADING) 'tests with the practice cluster'
	$(BIN)/pytest $(WORKERS) -m 'practice and not cluster and not tools'

venv: $(INSTALLED) ## create .venv with the project and its tools

$(INSTALLED):
	$(if $(wildcard .venv/*-$(STATE)),,$(new_venv))
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' # knows --group
	@$(BIN)/python .ci/install.py $(BIN)/python 330 '.[practice]' --group dev
	@touch $@

$(TESTING):
	$(if $(wildcard .venv/*-$(STATE)),,$(new_venv))
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python .ci/install.py $(BIN)/python 85 '.[practice]' --group test
	@touch $@

$(LIGHT):
	$(if $(call usable,$(BIN)/python),,$(new_venv))
	@$(BIN)/python .ci/install.py $(BIN)/python 25 '.[practice]'
	@touch $@

define new_venv
@$(if $(PYTHON),:,echo 'Python 3.11 or newer is needed, and none is on PATH' >&2; exit 1)
@$(HEADING) 'install into .venv'
@rm -rf .venv
@$(PYTHON) -m venv .venv || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv .venv; }
endef

bench: venv ## time commands and files beside kubectl, and reading files beside SkyPilot, which it installs
	$(BIN)/python -m tests.bench

bench-cluster: venv ## time the start of list, and logs beside stern, on a real Kubernetes
	$(BIN)/python -m tests.bench.cluster

bench-scale: venv ## time commands on 1,000 pretended cluster nodes with up to 10,000 tasks; takes 20 minutes
	$(BIN)/python -m tests.bench.scale

cluster-up: venv ## start a Kubernetes that runs until cluster-down
	@$(BIN)/python -m tests.cluster up

cluster-env: ## print its environment variables for a shell
	@$(BIN)/python -m tests.cluster env

cluster-down: ## stop it
	@$(BIN)/python -m tests.cluster down

dist: ## build the plugin's archive for this platform, and its krew manifest
	@.ci/isolated.sh "$(PYTHON)" archive python .ci/dist.py "$(DIST)"

image: ## build the image of server and controllers with docker, podman or buildah; IMAGE=NAME names it
	@.ci/image.sh "$(IMAGE)"

packages: ## build and check wheel and sdist, and list what the wheel installs (SBOM)
	@.ci/isolated.sh "$(PYTHON)" packages .ci/packages.sh "$(DIST)"

lock: venv ## choose the newest versions of the packages that a release and the Action install
	PATH="$(BIN):$$PATH" .ci/lock.sh

site: venv ## build the documentation as a site, into dist/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

man: venv ## write the man pages of all commands into dist/man
	$(BIN)/python .ci/man.py $(DIST)/man

picture: venv ## make the picture of a terminal in README.md, on a practice cluster
	$(BIN)/python .ci/picture.py

web: ## build the dashboard from web/ into kubectl_sky/server/static; the only command that needs Node
	cd web && npm ci --no-fund --no-audit && npm run check && npm run build

clean: ## remove build output of this checkout; shared builds stay in the XDG cache
	rm -rf .venv dist web/node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
