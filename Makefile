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
GOLANGCI            := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK         := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)

.PHONY: all build demo test lint fmt fuzz bench accuracy burst chaos vuln tools deps clean

all: build

build:
	$(GO) build -o bin/ ./cmd/...

# make demo [SCENARIO=hot-name] [REAL=1]
demo: build
	bin/diagnose demo --scenario $(SCENARIO) $(if $(REAL),--real)

# The servers that the tests run for real: installed when missing and allowed.
deps:
	@.ci/deps

# go test vets too, as far as it is quick; all of it is among what lint does.
test: deps
	$(GO) test $(RACE) -shuffle=on $(PACKAGES)

# The code, the module file, and the playbooks, every cause and rule of which must be reached by a test.
lint: build $(GOLANGCI)
	$(GOLANGCI) config verify
	$(GOLANGCI) run ./...
	$(GO) mod tidy -diff
	bin/diagnose lint
	bin/diagnose test --strict

fmt: $(GOLANGCI)
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

accuracy: build deps
	bin/proof accuracy

vuln: $(GOVULNCHECK)
	@.ci/vuln $(GOVULNCHECK)

tools: $(GOLANGCI) $(GOVULNCHECK)

$(GOLANGCI):
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

$(GOVULNCHECK):
	GOBIN=$(TOOLS) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	mv $(TOOLS)/govulncheck $@

clean:
	rm -rf bin
