# Two commands set everything up: `make demo` runs the main job, `make test` passes the tests.

GO       ?= go
SCENARIO ?= bloom-undersized
FUZZTIME ?= 20s
PACKAGES ?= ./...
TOOLS    := $(CURDIR)/bin/tools
# For every command alike, or the cache would hold each dependency twice.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
# SQLite is C translated to Go, which the race detector would slow down fourfold and can say nothing of. No package
# that shares instances of generic code with ours may be spared: the linker keeps one copy, perhaps the spared one.
RACE     := -race -gcflags='modernc.org/sqlite/lib=-race=false'

GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.9.0

.PHONY: all build demo test lint fmt fuzz bench accuracy burst chaos vuln deps clean

all: build

build:
	$(GO) build -o bin/ ./cmd/...

# make demo [SCENARIO=hot-name] [REAL=1]
demo: build
	bin/diagnose demo --scenario $(SCENARIO) $(if $(REAL),--real)

# The servers that the tests run for real: installed when missing and allowed.
deps:
	@.ci/deps

test: deps
	$(GO) vet ./...
	$(GO) test $(RACE) -shuffle=on $(PACKAGES)

# The code, the module file, and the playbooks, every cause and rule of which must be reached by a test.
lint: build $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
	$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) config verify
	$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) run ./...
	$(GO) mod tidy -diff
	bin/diagnose lint
	bin/diagnose test --strict

fmt: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
	$< fmt ./...

# Every fuzz target, one after another, FUZZTIME each.
fuzz:
	@.ci/fuzz $(FUZZTIME)

# Micro-benchmarks, then the reference path against bare peers as ratios.
bench: build deps
	$(GO) test -run '^$$' -bench . -benchmem ./...
	bin/proof bench

# A storm of notifications: rate, delay, memory, and what a SIGKILL leaves.
burst: build
	bin/proof burst

# Alerts from a pair of Alertmanagers, while agents are killed and Slack fails: to
# one agent with a file, then to two that share a Postgres.
chaos: build deps
	bin/proof chaos --store sqlite
	bin/proof chaos --store postgres

accuracy: build
	bin/proof accuracy

vuln:
	@GOVULNCHECK_VERSION=$(GOVULNCHECK_VERSION) TOOLS=$(TOOLS) .ci/vuln

$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION):
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

clean:
	rm -rf bin
