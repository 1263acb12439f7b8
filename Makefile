# `make run` starts Tailrace and `make test` runs all tests; both install the tools that they need.

GO            ?= go
GOLANGCI_LINT ?= v2.15.0
GOVULNCHECK   ?= v1.8.0
GORELEASER    ?= v2.15.1
SOAK          ?= 10m
CHAOS         ?= 10m
OIDC          ?= 2m
FAULTS        ?= 5m
# Tests of large values and of many cursors and logs, which the race detector makes five to forty times slower, and their packages: they run without it.
UNIT_NO_RACE  := ^(TestArgumentsOverTheLimit|TestLargeResults|TestLargeValuesReachEachAgent|TestLargestLines|TestLawsWithPacks|TestLawsWithSegments|TestMemoryOfALongTurn|TestPagesOfLargeOpenMessage|TestResumeInAnotherDialect|TestSearchReadsFewBytes)$$
UNIT_NO_RACE_IN := ./agents/httpagent ./internal/chat ./internal/httpedge ./internal/ingest ./internal/jssnapshots ./projector/fold ./workers
E2E_NO_RACE   := ^(TestPods|TestFaults|TestWorkersAreKilled)$$
SEED          ?= 0
SLOW          ?= # -update writes the table of slow tests
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
CREATED       ?= $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || echo 1970-01-01T00:00:00Z)
PUSH          ?=
TOOLS         := $(CURDIR)/.tools
LINT          := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT)
RELEASER      := $(TOOLS)/goreleaser-$(GORELEASER)

TAGS          := e2e,soak,chaos,record,grpcnotrace

# The property tests have the same inputs in each run; make nightly draws others (0 is a random seed).
export RAPID_SEED ?= 1

# grpcnotrace: gRPC, of which the OTLP exporter takes a type, would add 5 MB with its trace pages. trimpath: all targets use the same build cache. vet: the linter
# has all its checks.
export GOFLAGS := -buildvcs=false -trimpath -tags=grpcnotrace -vet=off

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: go-present ## Start a server, an edge and the demo in one process on loopback, and print the URL.
	@echo "building tailrace; the first build downloads modules and takes one to two minutes"
	@CGO_ENABLED=0 $(GO) run ./cmd/tailrace up

.PHONY: build
build: go-present ## Build bin/tailrace (VERSION=v1.2.3; the default is from git describe).
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/tailrace ./cmd/tailrace

.PHONY: picture
picture: go-present chromium build ## Film the pictures of README: two tabs of a real page, a reload, and kill -9.
	$(GO) test -tags e2e,record,grpcnotrace -count=1 -timeout 5m -run '^TestRecordPicture$$' -v ./e2e

.PHONY: sink
sink: go-present ## Build bin/tailrace-sink, which copies the log into tables (docs/guides/analytics.md).
	cd sink && $(GO) build -trimpath -ldflags "-s -w" -o ../bin/tailrace-sink ./cmd/tailrace-sink

.PHONY: image
image: go-present ## Write dist/image and dist/image-sink, OCI images for two platforms, and SBOMs; PUSH=repository:tag pushes them, the second as repository-sink:tag.
	@for arch in amd64 arm64; do \
		echo "building linux/$$arch"; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o dist/tailrace-linux-$$arch ./cmd/tailrace || exit 1; \
		(cd sink && CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags "-s -w" -o ../dist/tailrace-sink-linux-$$arch ./cmd/tailrace-sink) || exit 1; \
	done
	cd deploy && $(GO) run ./image -version "$(VERSION)" -created "$(CREATED)" -out ../dist/image -push "$(PUSH)" \
		linux/amd64=../dist/tailrace-linux-amd64 linux/arm64=../dist/tailrace-linux-arm64
	@push="$(PUSH)"; cd deploy && $(GO) run ./image -program tailrace-sink -version "$(VERSION)" -created "$(CREATED)" -out ../dist/image-sink \
		-push "$${push:+$${push%:*}-sink:$${push##*:}}" linux/amd64=../dist/tailrace-sink-linux-amd64 linux/arm64=../dist/tailrace-sink-linux-arm64

.PHONY: release-check
release-check: go-present $(RELEASER) ## Write dist/release, the archives, packages and bills of materials of a release, and publish nothing.
	$(RELEASER) check
	$(RELEASER) release --snapshot --clean --skip=publish

.PHONY: quick
quick: check ## Format, lint, and the tests that need no server and no browser: under 3 minutes on two cores.
	$(GO) test -timeout 3m $$(scripts/packages.sh quick)

.PHONY: test
test: check unit manifests sink-test e2e vuln ## All tests: check, unit, manifests, sink-test, e2e and vuln, 45 to 50 minutes on two cores.

.PHONY: check
check: gofmt $(LINT) ## Format and lint, also of the tests with build tags; the linter govet has all checks of go vet.
	$(LINT) run --allow-parallel-runners --build-tags $(TAGS) ./...

.PHONY: unit
unit: go-present ## Unit, property and server tests with the race detector; large values, sizes of the heap, 10,000 logs for each dialect, 100,000 for the fold and 10,000 deletions without it.
	CGO_ENABLED=1 $(GO) run ./scripts/slowtests $(SLOW) -race -timeout 25m -skip '$(UNIT_NO_RACE)' $$(scripts/packages.sh timed) $$(scripts/packages.sh quick)
	CGO_ENABLED=1 $(GO) run ./scripts/slowtests $(SLOW) -race -timeout 25m -skip '$(UNIT_NO_RACE)' -p 4 $$(scripts/packages.sh servers)
	$(GO) test -timeout 10m -run '$(UNIT_NO_RACE)' $(UNIT_NO_RACE_IN)
	$(GO) test -timeout 5m ./codec/aisdk ./internal/dialects
	$(GO) test -timeout 10m ./internal/dialects -run '^TestWide' -rapid.checks=10000
	$(MAKE) -j2 trees laws

.PHONY: trees
trees: go-present # beside laws: it waits for its server
	$(GO) test -timeout 25m ./workers -run '^TestDeletionReachesEverything$$' -trees 10000

.PHONY: laws
laws: go-present
	$(GO) test -timeout 15m ./projector/fold -run '^TestLaws$$' -rapid.checks=100000

.PHONY: layers
layers: go-present ## Layers, documents, API, citations, style and words, which unit checks too: go test runs them again after any change of a file.
	$(GO) test ./internal/archtest

.PHONY: nightly
nightly: go-present ## The property tests with other inputs, the tests of the benchmark and of the configurations of Redpanda Connect, release-check, and each benchmark once.
	RAPID_SEED=0 $(GO) test -count=1 -timeout 20m $$(scripts/packages.sh quick)
	RAPID_SEED=0 $(GO) test -count=1 -timeout 60m ./internal/dialects -run '^TestWide' -rapid.checks=100000
	$(GO) test -count=1 -timeout 10m ./internal/bench
	cd deploy/connect && $(GO) test -count=1 -timeout 10m .
	$(MAKE) release-check
	@echo "each benchmark once"; out=$$($(GO) test -run '^$$' -bench . -benchtime 1x ./... 2>&1) || { echo "$$out"; exit 1; }

.PHONY: manifests
manifests: gofmt $(LINT) ## Render the manifests of Kubernetes and check them; a module of its own.
	cd deploy && $(LINT) run --allow-parallel-runners --config ../.golangci.yml ./... && $(GO) test -timeout 5m ./...

.PHONY: sink-test
sink-test: gofmt $(LINT) node postgres ## Format, lint and test the sink, a module of its own, with Postgres, an S3 server and DuckDB.
	cd sink && $(LINT) run --allow-parallel-runners --config ../.golangci.yml ./... && CGO_ENABLED=1 $(GO) test -race -timeout 15m $$($(GO) list ./... | grep -v -e /parquet$$ -e /e2e$$)
	@echo "the files of the lake, and whole sinks with 1,000 random logs, without the race detector, with which the encoding of files takes ten times as long"
	cd sink && $(GO) test -timeout 10m ./parquet ./e2e

.PHONY: k8s
k8s: go-present ## Apply the manifests to a kube-apiserver with etcd, built from their modules; the first build takes up to 30 minutes.
	cd deploy && $(GO) run ./manifests $(TOOLS)/manifests
	cd deploy/apiserver && MANIFESTS=$(TOOLS)/manifests $(GO) test -count=1 -timeout 10m -run '^TestApply$$' -v .

.PHONY: dashboard
dashboard: go-present postgres ## Write the lists of metrics and the dashboards of Grafana from what the code registers.
	$(GO) test -count=1 -timeout 5m ./cmd/tailrace -run '^TestMetric(List|sPage)$$' -update
	cd sink && $(GO) test -count=1 -timeout 5m ./cmd/tailrace-sink -run '^TestMetricList$$' -update
	cd sink && $(GO) test -count=1 -timeout 5m ./internal/board -run '^TestBoard$$' -update
	cd deploy && $(GO) run ./dashboard metrics.json sink-metrics.json >k8s/components/monitoring/dashboard.json.new && mv k8s/components/monitoring/dashboard.json.new k8s/components/monitoring/dashboard.json

.PHONY: e2e
e2e: go-present chromium node python build ## Tests of the binary: kill -9, a cluster, Chromium, the AI SDK, clients of other languages.
	CGO_ENABLED=1 $(GO) test -race -tags e2e -count=1 -timeout 20m -skip '$(E2E_NO_RACE)' ./e2e
	CGO_ENABLED=1 $(GO) test -race -tags e2e -count=1 -timeout 20m -p 2 $$($(GO) list -tags e2e ./e2e/... | grep -v /e2e$$)
	@echo "pods and faults, which compare pauses of clients with bounds of seconds, and 1,000 runs of killed workers, without the race detector"
	$(GO) test -tags e2e -count=1 -timeout 10m -run '$(E2E_NO_RACE)' ./e2e

.PHONY: inspector
inspector: node ## Build the files of the web page that the binary embeds, from internal/inspector/web/src.
	cd internal/inspector/web && export PATH="$$(dirname "$$(../../../scripts/node.sh)"):$$PATH" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run build

.PHONY: soak
soak: go-present build ## 10,000 open streams on one edge for ten minutes (SOAK=2m for two).
	$(GO) test -tags e2e,soak -count=1 -timeout 60m -run '^TestSoak$$' -v ./e2e -soak $(SOAK)

.PHONY: chaos
chaos: go-present build ## A random fault every ten seconds while 500 clients follow, for ten minutes (CHAOS=1m for one).
	$(GO) test -tags e2e,chaos -count=1 -timeout 60m -run '^TestChaos$$' -v ./e2e -chaos $(CHAOS) -seed $(SEED)

.PHONY: oidc
oidc: go-present build ## 500 clients with tokens of seven seconds for two minutes (OIDC=2m), and a provider that is away for one.
	$(GO) test -tags e2e -count=1 -timeout 60m -run '^TestOIDC$$' -v ./e2e -oidc-load $(OIDC) -oidc-away 1m

.PHONY: pods
pods: go-present build ## Update, drain and scale the pods of the production manifests, as processes with their real delays, five minutes.
	$(GO) test -tags e2e -count=1 -timeout 30m -run '^TestPods$$' -v ./e2e -pods-speed 1

.PHONY: faults
faults: go-present build ## Kill leaders of three servers every ten seconds for five minutes (FAULTS=1m for one), then a zone, with both feeds.
	$(GO) test -tags e2e -count=1 -timeout 60m -run '^TestFaults$$' -v ./e2e -faults-feeds partition,interest -faults-for $(FAULTS) -faults-zone 30s

.PHONY: vuln
vuln: go-present ## Search known vulnerabilities of the dependencies of both modules, if the database is reachable.
	@scripts/vuln.sh $(GOVULNCHECK)

.PHONY: fuzz
fuzz: go-present ## Run each fuzz target for a minute.
	@scripts/fuzz.sh 60s

.PHONY: bench
bench: go-present ## Compare Tailrace with bare NATS and net/http, several minutes.
	$(GO) build -trimpath -o bin/tailrace-bench ./cmd/tailrace-bench
	bin/tailrace-bench all

.PHONY: bench-compare
bench-compare: go-present ## Run the benchmarks of BASE=revision and of this tree alternately.
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

.PHONY: postgres
postgres:
	@scripts/postgres.sh

.PHONY: python
python:
	@scripts/python.sh >/dev/null

$(LINT):
	@echo "installing golangci-lint $(GOLANGCI_LINT) into .tools (once, a minute or two)"
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv $(TOOLS)/golangci-lint $(LINT)

$(RELEASER):
	@echo "installing goreleaser $(GORELEASER) into .tools (once, ten minutes)"
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER)
	@mv $(TOOLS)/goreleaser $(RELEASER)
