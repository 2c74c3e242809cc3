# Rouse. `make` lists what there is; every tool comes from a pinned module (go.mod, tools/, e2e/cluster/components).
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO        ?= go
CLUSTER   := $(GO) run -C e2e/cluster .
CONTROLLER_GEN := $(GO) tool -modfile=tools/go.mod controller-gen
MODULES   := . e2e/cluster
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS   := -s -w -X github.com/rouse-run/rouse/internal/daemon.version=$(VERSION)

##@ See it work
.PHONY: demo
demo: cluster ## Play the order chain from zero on the local cluster and print its timeline
	@eval "$$($(CLUSTER) env)" && $(GO) run ./e2e/demo

.PHONY: cluster
cluster: ## Bring up a real Kubernetes with KEDA, NATS and Rouse on this machine (root; first time: a quarter of an hour)
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: ## Take the local cluster away and leave nothing behind
	@$(CLUSTER) down

##@ Test it
.PHONY: test
test: lint verify test-unit test-runtimes test-samples test-e2e ## Run everything: lint, unit, integration, runtimes, chart and e2e

.PHONY: lint
lint: ## Lint the Go code
	@for module in $(MODULES); do echo "lint $$module"; \
	  (cd $$module && $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: verify
verify: ## Fail when generated files are stale
	@hack=$$(mktemp -d) && trap 'rm -rf "$$hack"' EXIT && cp -r api charts "$$hack/" && $(MAKE) generate >/dev/null && \
	  { diff -r api "$$hack/api" && diff -r charts "$$hack/charts" && echo "verify: generated files are up to date"; } || \
	  { echo "verify: generated files were stale; commit what 'make generate' wrote"; exit 1; }

.PHONY: test-unit
test-unit: ## Unit and integration tests with the race detector (real kube-apiserver, etcd and nats-server)
	@assets=$$($(CLUSTER) assets) && export KUBEBUILDER_ASSETS=$$assets PATH="$$assets:$$PATH" && \
	  $(GO) test -race -shuffle=on ./... && $(GO) test -C e2e/cluster ./...

.PHONY: test-runtimes
test-runtimes: ## Tests of the Node.js and Python runtimes over real HTTP
	@runtimes/test.sh

.PHONY: test-samples
test-samples: ## Tests of the sample Functions
	@samples/test.sh

.PHONY: test-e2e
test-e2e: ## End-to-end tests on the local cluster, which is taken down again
	@e2e/run.sh

##@ Measure it
.PHONY: bench-wake
bench-wake: cluster ## 20 wakes beside 20 bare scale-ups of the same pod, on the local cluster
	@eval "$$($(CLUSTER) env)" && $(GO) run ./e2e/bench/wake

##@ Work on it
.PHONY: build
build: ## Build the binaries into bin/
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: generate
generate: ## Generate deepcopy functions and CRDs
	@$(CONTROLLER_GEN) object crd paths=./api/... output:crd:dir=charts/rouse/files/crds

.PHONY: fmt
fmt: ## Format the Go code
	@for module in $(MODULES); do (cd $$module && $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: image
image: ## Build the image with all Go binaries (needs Docker)
	docker build --build-arg VERSION=$(VERSION) -t rouse:$(VERSION) .

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
