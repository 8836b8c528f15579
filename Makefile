# SPDX-License-Identifier: Apache-2.0

CACHE := $(or $(LASTGOOD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lastgood)
TOOLS := $(CACHE)/venv/tools/bin
export PATH := $(CACHE)/go/bin:$(CACHE)/bin:$(CACHE)/venv/ansible/bin:$(PATH)
# The toolchain is chosen by hack/setup, not fetched behind its back.
export GOTOOLCHAIN := local

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Ansible sends the binary to every host, so its size is a feature.
MAX_SIZE := 4200000

# Without inlining the binary is a tenth smaller; hashing and copying stay as fast.
GO_BUILD := CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -gcflags=all=-l -ldflags "-s -w -buildid= -X main.version=$(VERSION)"
ARCHITECTURES := amd64 arm64 arm 386 ppc64le s390x riscv64
# The architectures that the collection has binaries for, or none.
BINARIES ?= $(ARCHITECTURES)
GOTESTSUM := gotestsum --format pkgname --format-hide-empty-pkg

.PHONY: help setup build collection size reproducible lint lint-collection test test-unit test-e2e demo bench clean

help:
	@echo "make demo          adopt, upgrade and roll back a host of its own through Ansible, as root"
	@echo "make setup         install what building and testing need"
	@echo "make build         bin/lastgood"
	@echo "make collection    dist/lastgood-activation-VERSION.tar.gz, for ansible-galaxy; BINARIES='amd64 arm64' or none for fewer"
	@echo "make test          everything that must pass, as root: build, lint, size, unit tests, tests on systemd hosts"
	@echo "make test-unit     unit and property tests only"
	@echo "make test-e2e      tests on systemd hosts only, as root"
	@echo "make bench         compare the collection's speed with built-in modules on a host of its own, as root, in some ten minutes"
	@echo "make lint lint-collection size reproducible clean"

setup:
	@hack/setup

build:
	$(GO_BUILD) -o bin/lastgood ./module

bin/lastgood-linux-%: FORCE
	@GOARCH=$* GOARM=7 $(GO_BUILD) -o $@ ./module

FORCE:

collection: $(patsubst %,bin/lastgood-linux-%,$(filter-out none,$(BINARIES)))
	@hack/collection pack $(filter-out none,$(BINARIES))

size: bin/lastgood-linux-amd64
	@size=$$(stat -c %s bin/lastgood-linux-amd64); \
	echo "size of lastgood for linux/amd64: $$size bytes of $(MAX_SIZE)"; \
	[ "$$size" -le $(MAX_SIZE) ] || { echo "too large: Ansible sends it to every host"; exit 1; }

# The copy has another path and another build cache, so nothing is shared.
reproducible: build
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && \
	cp -R go.mod go.sum activation systemd module "$$copy" && \
	(cd "$$copy" && GOCACHE="$$copy/cache" $(GO_BUILD) -o lastgood ./module) && \
	cmp bin/lastgood "$$copy/lastgood" && echo "reproducible: $$(sha256sum < bin/lastgood | cut -d' ' -f1)"

lint:
	go mod tidy -diff
	golangci-lint run --allow-parallel-runners
	shellcheck hack/testhost hack/setup hack/mkdaemon hack/collection hack/sanity hack/demo .ci/run plugins/plugin_utils/transport.sh
	$(TOOLS)/antsibull-changelog lint
	$(TOOLS)/antsibull-changelog generate --output /dev/stdout | diff -u CHANGELOG.md -

# What is linted calls what is built.
lint-collection: build
	hack/collection
	PATH="$(TOOLS):$$PATH" ANSIBLE_COLLECTIONS_PATH=dist ansible-lint -q
	hack/sanity

test: setup
	$(MAKE) --no-print-directory build lint lint-collection size reproducible
	$(MAKE) --no-print-directory test-unit
	$(MAKE) --no-print-directory test-e2e

# The race detector is the one part that needs a C compiler.
test-unit:
	CGO_ENABLED=1 $(GOTESTSUM) -- -race $$(go list ./... | grep -v /e2e)

test-e2e: build
	hack/testhost build
	$(GOTESTSUM) -- -count=1 -timeout 40m ./e2e/...

# What is made on the way is not what the demo is to show.
demo: setup
	@$(MAKE) --no-print-directory --silent build
	@hack/collection
	@hack/testhost build >/dev/null
	@hack/demo

# Standard output is the tables alone.
bench: setup
	@$(MAKE) --no-print-directory --silent build
	@hack/collection
	@hack/testhost build 257+python >/dev/null
	@python3 hack/bench/bench.py

clean:
	rm -rf bin dist
