# Tailrace. `make run` starts it, `make test` tests it; both install what they need.

GO            ?= go
GOLANGCI_LINT ?= v2.15.0
GOVULNCHECK   ?= v1.8.0
SOAK          ?= 10m
TOOLS         := $(CURDIR)/.tools
LINT          := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT)

export GOFLAGS := -buildvcs=false

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: go-present ## Start everything in one process on loopback; prints one URL.
	$(GO) run ./cmd/tailrace up

.PHONY: build
build: go-present ## Build bin/tailrace.
	$(GO) build -trimpath -o bin/tailrace ./cmd/tailrace

.PHONY: quick
quick: gofmt $(LINT) ## gofmt, vet, lint, and the tests that need no server and no browser; under 3 minutes on two cores.
	$(GO) vet ./...
	$(LINT) run ./...
	$(GO) test -timeout 3m $$(scripts/quick_packages.sh)

.PHONY: test
test: check unit layers e2e vuln ## All tests: format, lint, unit, race, server-backed, browser, vulnerabilities.

.PHONY: check
check: gofmt $(LINT) ## gofmt, vet, lint, shell scripts.
	$(GO) vet ./...
	$(GO) vet -tags e2e,soak,record,mixed ./e2e/... ./internal/demo/page
	$(LINT) run ./...
	$(LINT) run --build-tags e2e,soak,record,mixed ./e2e/... ./internal/demo/page

.PHONY: unit
unit: go-present ## Unit, property and server-backed tests with the race detector; benchmarks once.
	CGO_ENABLED=1 $(GO) test -race -timeout 15m ./...
	$(GO) test -timeout 15m ./projector/fold -run '^TestLaws$$' -rapid.checks=100000
	$(GO) test -run '^$$' -bench . -benchtime 1x ./... > /dev/null

.PHONY: layers
layers: go-present ## Layers, documents, citations and words against the code, never cached.
	$(GO) test -count=1 ./internal/archtest

.PHONY: e2e
e2e: go-present chromium node build ## The binary under kill -9, a cluster, and a real browser.
	CGO_ENABLED=1 $(GO) test -race -tags e2e -count=1 -p 1 -timeout 20m ./e2e/... ./internal/demo/page

.PHONY: mixed
mixed: go-present chromium node ## Old and new edges, projectors and workers side by side (BASE=revision), some 15 minutes.
	scripts/mixed.sh $(BASE)

.PHONY: soak
soak: go-present build ## 10,000 open streams on one edge for ten minutes (SOAK=2m for less).
	$(GO) test -tags e2e,soak -count=1 -timeout 60m -run '^TestSoak$$' -v ./e2e -soak $(SOAK)

.PHONY: vuln
vuln: go-present ## Known vulnerabilities of the dependencies, if the database is reachable.
	@scripts/vuln.sh $(GOVULNCHECK)

.PHONY: fuzz
fuzz: go-present ## Each fuzz target for a minute.
	@scripts/fuzz.sh 60s

.PHONY: bench
bench: go-present ## Benchmark of Tailrace against bare NATS and net/http, in one run.
	$(GO) build -trimpath -o bin/tailrace-bench ./cmd/tailrace-bench
	bin/tailrace-bench all

.PHONY: bench-compare
bench-compare: go-present ## The benchmark of BASE=revision and of this tree in turn.
	scripts/bench-compare.sh $(BASE)

.PHONY: gofmt
gofmt: go-present
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "not gofmt-ed:"; echo "$$files"; exit 1; fi

.PHONY: go-present
go-present:
	@command -v $(GO) >/dev/null || { echo "Go is missing: install Go 1.26 or later and put it on the PATH."; exit 1; }

.PHONY: chromium
chromium:
	@scripts/chromium.sh

.PHONY: node
node:
	@scripts/node.sh >/dev/null

$(LINT):
	@echo "installing golangci-lint $(GOLANGCI_LINT) into .tools (once, a minute or two)"
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv $(TOOLS)/golangci-lint $(LINT)
