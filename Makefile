# Rouse. `make` lists what there is; every tool comes from a pinned module (go.mod, tools/, e2e/cluster/components).
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# The steps use all cores themselves, and some of them the same files.
.NOTPARALLEL:

# A service's login has no HOME, where Go and npm keep their caches. The checkout may belong to another user than root.
export HOME ?= $(shell echo ~)
# Without their directory in them, what one clone has compiled the next need not compile.
export GOFLAGS += -buildvcs=false -trimpath

GO        ?= go
# local: a Kubernetes of processes on this machine, needs root. kind: one in Docker.
CLUSTER   ?= local
CLUSTERS  := $(if $(filter kind,$(CLUSTER)),e2e/kind.sh,$(GO) run -C e2e/cluster .)
export ROUSE_CLUSTER = $(CLUSTER)
GENERATOR := $(GO) tool -modfile="$(CURDIR)/tools/go.mod" controller-gen object crd
# Of versions that are served only on request the chart has CRDs apart.
OLD_APIS := api/serverless/v1alpha1
CONTROLLER_GEN := $(GENERATOR) $(addprefix paths=./,$(filter-out $(OLD_APIS),$(wildcard api/*/*))) output:crd:dir=charts/rouse/files/crds && \
  $(GENERATOR) $(addprefix paths=./,$(OLD_APIS)) output:crd:dir=charts/rouse/files/old-crds
GOLANGCI_LINT  := $(GO) tool -modfile="$(CURDIR)/tools/lint/go.mod" golangci-lint
ACTIONLINT     := $(GO) tool -modfile="$(CURDIR)/tools/lint/actions/go.mod" actionlint
SUPPLY    := $(GO) run -C tools/supply
MODULES   := . e2e/cluster e2e/cluster/components/network-policies e2e/bench/own e2e/bindings tools tools/pack tools/release tools/supply
# The modules with tests that run beside the root's; the release tools have a separate target.
TESTED    := e2e/cluster e2e/cluster/components/network-policies tools tools/supply
# kube-apiserver, etcd, nats-server and other programs that tests start, which the cluster's cache keeps.
ASSETS    := assets=$$($(CLUSTERS) assets) && export KUBEBUILDER_ASSETS=$$assets PATH="$$assets:$$PATH"
SUITE     := bin/suite -C "$(CURDIR)"
# A release must name its version: the output of git describe is not a release's version.
RELEASE_VERSION := $(VERSION)
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# What the binaries say of themselves. Their time is the commit's: the same source gives the same binary.
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE      ?= $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
DAEMON    := github.com/rouse-run/rouse/internal/daemon
LDFLAGS    = -s -w -X $(DAEMON).version=$(VERSION) -X $(DAEMON).commit=$(COMMIT) -X $(DAEMON).date=$(DATE)

# The version of Go's FIPS 140-3 module that was validated, as in the Dockerfile.
FIPS      := GOFIPS140=v1.0.0

##@ See it work
.PHONY: run
run: bin/rouse ## Play the order chain on this machine without a cluster; ARGS=--once ends by itself (first time: a minute and a half)
	@bin/rouse dev samples/orders --publish samples/orders/events/order-received.json $(ARGS)

# Its own target, because the other commands need three times as long to compile.
.PHONY: bin/rouse
bin/rouse:
	@[ -x $@ ] || echo "compiling rouse, the first time takes a minute and a half ..."
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/rouse

.PHONY: demo
demo: cluster ## Play the order chain from zero on the local cluster and print its timeline (CLUSTER=kind: in Docker)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/demo

.PHONY: cluster
cluster: ## Bring up a real Kubernetes with KEDA, NATS and Rouse on this machine (root; first time: a quarter of an hour; NODES=3: three nodes; CLUSTER=kind: in Docker)
	@$(CLUSTERS) up

.PHONY: cluster-down
cluster-down: ## Take the local cluster away and leave nothing behind
	@$(CLUSTERS) down

##@ Test it
.PHONY: check
check: bin/suite ## What to run before each commit, without root or cluster: lint, generated files and tests of what changed since main, and of what imports it (BASE)
	@$(CLUSTERS) packages || echo "check: the tests that need these packages fail"
	@ls -d "$${ROUSE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/rouse}"/assets/bin-* >/dev/null 2>&1 || \
	  echo "check: this builds kube-apiserver, etcd, nats-server and others that the tests start, once, which takes some minutes"
	@$(ASSETS) && exec $(SUITE) $(if $(BASE),-base '$(BASE)') check

# The runtimes' tests wait most of the time and the cluster's programs are compiled without waiting: they run beside the unit
# tests, which do both. The end-to-end tests wait for a real cluster and have limits of time, so they run alone.
.PHONY: test
test: preflight packages bin/suite ## Run everything: lint, unit, integration, runtimes, chart, local mode and e2e; the end lists what failed and how to run just that
	@exec $(SUITE) tiers 'lint verify supply | assets' \
	  'test-unit test-release test-samples test-run | test-runtimes cluster-programs' test-e2e

.PHONY: flakes
flakes: packages bin/suite ## Run the unit tests many times on busy cores, and list what ever failed with its seed (N=10, PACKAGES; LAG=1s: with late watches)
	@$(ASSETS) && ROUSE_WATCH_LAG=$(LAG) exec $(SUITE) -runs $(or $(N),10) flakes $(PACKAGES)

.PHONY: bin/suite
bin/suite:
	@$(GO) build -C tools -o "$(CURDIR)/bin/suite" ./suite

# Reports at the start what would fail the run after half an hour.
.PHONY: preflight
preflight: modules
	@$(CLUSTERS) preflight

# go gives up at the first module that a proxy does not send, which should not end the run later.
.PHONY: modules
modules:
	@for module in $(MODULES) tools/lint tools/lint/actions; do for pause in 5 10 0; do \
	  if $(GO) -C $$module mod download; then continue 2; fi; sleep $$pause; done; exit 1; done

.PHONY: packages
packages:
	@$(CLUSTERS) packages

.PHONY: assets
assets:
	@$(CLUSTERS) assets

# actionlint has the inputs of actions by their tags, not by the digests that pin them.
.PHONY: lint
lint: ## Lint the Go code and the workflows
	@failed=0; for module in $(MODULES); do echo "lint $$module"; \
	  (cd $$module && $(GOLANGCI_LINT) run --allow-parallel-runners --config "$(CURDIR)/.golangci.yml" ./...) || failed=1; done; exit $$failed
	@echo "lint .github/workflows"; for workflow in .github/workflows/*.yaml; do \
	  sed -E 's/@[0-9a-f]{40} # (v[0-9]+).*/@\1/' "$$workflow" | $(ACTIONLINT) -shellcheck= -pyflakes= -stdin-filename "$$workflow" -; done

.PHONY: licenses
licenses: ## Write the licences of all that is compiled in to bin/THIRD_PARTY_NOTICES; fails when one is unknown or not allowed
	@$(SUPPLY) ./licenses -C "$(CURDIR)" -o "$(CURDIR)/bin/THIRD_PARTY_NOTICES" ./cmd/...

# VULNDB_REQUIRED=1 makes it a failure that the database of vulnerabilities cannot be asked.
.PHONY: vulncheck
vulncheck: ## Fail when a known vulnerability is reachable; report an unavailable database (VULNDB_REQUIRED, GOVULNDB)
	@tools/supply/vulncheck.sh . ./cmd/... ./runtimes/...

.PHONY: supply
supply: bin/suite ## licenses and vulncheck, unless they succeeded today on this machine with the same modules and imports
	@exec $(SUITE) once licenses vulncheck

.PHONY: verify
verify: ## Fail when generated files are stale
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; mkdir -p "$$fresh/charts/rouse/files"; \
	  cp -r go.mod go.sum api "$$fresh/"; find "$$fresh/api" -name 'zz_generated.*' -delete; (cd "$$fresh" && $(CONTROLLER_GEN)); \
	  $(GO) run ./docs/reference -crds "$$fresh/charts/rouse/files/crds" -out "$$fresh/docs/reference"; \
	  if diff -r api "$$fresh/api" && diff -r charts/rouse/files/crds "$$fresh/charts/rouse/files/crds" && \
     diff -r charts/rouse/files/old-crds "$$fresh/charts/rouse/files/old-crds" && \
     diff -r -x README.md -x '*.go' docs/reference "$$fresh/docs/reference"; \
	  then echo "verify: generated files are up to date"; \
	  else echo "verify: generated files are stale: run 'make generate' and commit what it writes"; exit 1; fi

# Many tests wait for servers, so more than cores go at once. The lint has go vet's checks. A package may take longer
# than the ten minutes that go gives it, on a busy machine.
.PHONY: test-unit
test-unit: packages ## Unit and integration tests with the race detector (real kube-apiserver, etcd and nats-server; PACKAGES, RUN, SHUFFLE)
	@$(ASSETS); failed=0; \
	  $(GO) test -vet=off -race -shuffle=$(or $(SHUFFLE),on) -parallel 4 -timeout 20m $(if $(RUN),-run '$(RUN)') $(or $(PACKAGES),./...) || failed=1; \
	  $(if $(PACKAGES),,for module in $(TESTED); do $(GO) test -C $$module ./... || failed=1; done;) exit $$failed

.PHONY: test-release
test-release: ## Tests of what makes releases, and that go install works from the last commit
	@failed=0; $(GO) test -C tools/pack ./... || failed=1; $(GO) test -C tools/release -timeout 15m ./... || failed=1; exit $$failed

.PHONY: test-fips
test-fips: packages ## Unit tests in FIPS 140-3's strict mode, which docs/fips.md is about (PACKAGES); not part of make test
	@$(ASSETS) && \
	  strict=$$(mktemp -d) && trap 'rm -rf "$$strict"' EXIT && cp go.mod go.sum "$$strict/" && \
	  $(GO) mod edit -godebug=fips140=only -godebug=tlsmlkem=0 "$$strict/go.mod" && \
	  $(FIPS) $(GO) test -modfile="$$strict/go.mod" -parallel 4 -timeout 30m $(or $(PACKAGES),./...)

.PHONY: test-runtimes
test-runtimes: packages ## Tests of the runtimes over real HTTP (RUNTIMES: nodejs, python, golang)
	@assets=$$($(CLUSTERS) assets) && RUNTIME_PYTHONS=$$assets runtimes/test.sh $(RUNTIMES)

.PHONY: test-samples
test-samples: ## Tests of the sample Functions
	@samples/test.sh

.PHONY: test-run
test-run: ## The README's first command, once
	@$(MAKE) run ARGS=--once

.PHONY: cluster-programs
cluster-programs: ## Compile and fetch the local cluster's programs, which make cluster and make test-e2e do otherwise
	@$(CLUSTERS) programs

.PHONY: check-pages
check-pages: ## Check the types and the form of the dashboard's pages, by TypeScript and Biome of npm (FIX=1 formats them)
	@e2e/dashboard/types.sh $(if $(FIX),--write)

# Needs Chromium and its driver, which nothing else does, so make test leaves this module out, of lint too, which is done here.
.PHONY: test-dashboard
test-dashboard: check-pages bin/rouse ## The dashboard of a real rouse dev, and of an API server with an issuer, in Chromium without a window; installs Chromium where it is missing
	@cd e2e/dashboard && $(GOLANGCI_LINT) run --allow-parallel-runners --config "$(CURDIR)/.golangci.yml" ./...
	@$(ASSETS) && e2e/dashboard/run.sh $(if $(RUN),-run '$(RUN)')

.PHONY: e2e-dashboard
e2e-dashboard: bin/rouse cluster ## Users with their own rights in the dashboard of the local cluster, in Chromium: see, change, create, roll back
	@selected=$$($(CLUSTERS) env); eval "$$selected"; e2e/dashboard/run.sh -tags e2e -run TestUsersOfACluster

.PHONY: test-e2e
test-e2e: ## End-to-end tests on the local cluster, which is taken down again (PACKAGES, RUN)
	@e2e/run.sh

.PHONY: e2e-isolation
e2e-isolation: cluster ## Attacks of one tenant, package or repository on others, on the local cluster: all have to be refused
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/isolation

.PHONY: e2e-gateway
e2e-gateway: ## From outside through Envoy Gateway to a sleeping Function, on the local cluster (first time: five minutes more)
	@$(CLUSTERS) up --envoy-gateway; selected=$$($(CLUSTERS) env); eval "$$selected"; \
	  $(GO) test -tags e2e -count=1 -timeout 30m -v ./e2e/gateway

.PHONY: e2e-serverless
e2e-serverless: cluster ## A Serverless that installs, changes, repairs and removes the Function controller while Functions serve, on the local cluster
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) test -tags e2e -count=1 -timeout 15m -v ./e2e/serverless

.PHONY: e2e-migrate
e2e-migrate: cluster ## Functions, Subscriptions, APIRules and publishers that move from Kyma to Rouse and back while they serve, killed after each change, on the local cluster
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) test -tags e2e -count=1 -timeout 30m -v ./e2e/migrate

.PHONY: e2e-tls
e2e-tls: cluster ## KEDA asks the scaler over mutual TLS, nobody else does, and certificates rotate without a broken stream, on the local cluster
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) test -tags e2e -count=1 -timeout 20m -v ./e2e/scalertls

.PHONY: e2e-without-keda
e2e-without-keda: cluster ## Functions sleep and wake by HorizontalPodAutoscalers while the local cluster has no KEDA
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) test -tags e2e -count=1 -timeout 30m -v ./e2e/withoutkeda

.PHONY: e2e-durable
e2e-durable: cluster ## The sample of a workflow with Restate's own server, from npm, on the local cluster: it waits while its Function sleeps
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/durable

.PHONY: e2e-doors
e2e-doors: cluster ## The providers' own libraries, from npm, sign requests to Doors on the local cluster: once each, whatever is repeated or changed
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/doors

.PHONY: e2e-nodes
e2e-nodes: ## On three nodes: NetworkPolicies, and events and wakes while a node is cut off and one is drained, on a local cluster of its own (a quarter of an hour)
	@e2e/nodes/run.sh

.PHONY: e2e-dashboards
e2e-dashboards: cluster ## Every query of the Grafana dashboards by Prometheus' own engine, over scrapes of all processes on the local cluster
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/insight -out bin/scrapes
	@$(GO) run -C e2e/insight/panels . "$(CURDIR)/bin/scrapes" "$(CURDIR)/charts/rouse/files/dashboards"

.PHONY: e2e-release
e2e-release: cluster ## Make a release, push it to the local cluster's registry, install it from there alone and play the order chain
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) test -tags e2e -count=1 -timeout 40m -v ./e2e/release

.PHONY: e2e-fips
e2e-fips: cluster ## Rouse in both modes of FIPS 140-3: builds, wakes, refusals, on the local cluster
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) test -tags e2e -count=1 -timeout 30m -v ./e2e/fips

.PHONY: e2e-upgrade
e2e-upgrade: cluster ## Upgrade the release before to this checkout and roll back, under a load of events and requests, on the local cluster (BEFORE)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/upgrade $(if $(BEFORE),-before $(BEFORE))

.PHONY: soak-http
soak-http: cluster ## Put a Function, or another workload, to sleep and wake it a hundred times under a load over HTTP: no error, nothing twice (ROUNDS, TARGET=function|gateways|pods)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/sleepwake $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(TARGET),-target $(TARGET))

##@ Measure it
.PHONY: bench-wake
bench-wake: cluster ## 20 wakes in Node.js, Python and Go, and with stand-ins, beside 20 bare scale-ups of the same pod, on the local cluster, stage by stage (LANGUAGES, ROUNDS; CPU=1: with the CPU time of each process)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench/cluster wake $(if $(LANGUAGES),-languages $(LANGUAGES)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(CPU),-cpu)

.PHONY: bench-burst
bench-burst: cluster ## 100 sleeping Functions that get an event at the same moment, with KEDA's API limits as shipped and raised, beside 100 bare scale-ups (FUNCTIONS)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench/cluster burst $(if $(FUNCTIONS),-functions $(FUNCTIONS))

.PHONY: bench-profiles
bench-profiles: cluster ## Response times of a Function at the resources of each profile, beside the least server of its language (RATE, CALLERS, FOR)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench/cluster profiles $(if $(RATE),-rate $(RATE)) $(if $(CALLERS),-callers $(CALLERS)) $(if $(FOR),-for $(FOR))

.PHONY: bench-http
bench-http: cluster ## 20 wakes by a request beside 20 bare scale-ups of the same pod, a warm Function with waking on beside off, and bench-gateway
	@$(ASSETS) && selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench/cluster http

.PHONY: bench-doors
bench-doors: ## Events through Doors by an HMAC and by client certificates, beside the ingress of the same bridge (ROUNDS, ROUND_SECONDS)
	@$(ASSETS) && $(GO) run ./e2e/bench doors

.PHONY: bench-gateway
bench-gateway: ## Requests and tokens through the gateway, beside Envoy and net/http's reverse proxy (ROUNDS, ROUND_SECONDS)
	@$(ASSETS) && $(GO) run ./e2e/bench gateway

.PHONY: bench-local
bench-local: bin/rouse ## 20 wakes of a Function of each language in local mode, beside bare servers
	@$(GO) run ./e2e/bench local

.PHONY: bench-dev
bench-dev: bin/rouse cluster ## From a saved file to the answer of its Function, in local mode in each language and on the local cluster, and a deploy of 20 files (ROUNDS)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench dev -cluster $(if $(ROUNDS),-rounds $(ROUNDS))

.PHONY: bench-build
bench-build: cluster ## From apply to Running: inline, first build, same dependencies again, on the local cluster (BUILD_PROFILE, ROUNDS)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench/cluster build $(if $(BUILD_PROFILE),-profile $(BUILD_PROFILE)) $(if $(ROUNDS),-rounds $(ROUNDS))

.PHONY: bench-tenants
bench-tenants: cluster ## What a quiet tenant notices of a hostile one that attacks all that they share, on the local cluster (ROUNDS)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/bench/cluster tenants $(if $(ROUNDS),-rounds $(ROUNDS))

.PHONY: bench-dispatch
bench-dispatch: ## 100,000 stored events to a sink, beside the simplest loop that can do it (EVENTS, ROUNDS)
	@$(GO) run ./e2e/bench dispatch

.PHONY: bench-own
bench-own: ## CPU of our own client, codec and pull client beside the libraries for each (JOB, ROUNDS, ROUND_SECONDS)
	@$(GO) run -C e2e/bench/own .

.PHONY: bench-ingress
bench-ingress: ## Publishing over 32 and 128 connections, beside the simplest handler that can do it (ROUND_SECONDS, ROUNDS)
	@$(GO) run ./e2e/bench ingress

.PHONY: bench-latency
bench-latency: ## 200 and 2,000 events/s from publisher to sink, beside the bare pair (ROUND_SECONDS, ROUNDS)
	@$(GO) run ./e2e/bench latency

.PHONY: bench-subscriptions
bench-subscriptions: ## 10,000 Subscriptions on one bridge, idle and with 1 % active (SUBSCRIPTIONS, ROUND_SECONDS)
	@$(GO) run ./e2e/bench subscriptions

.PHONY: bench-controller
bench-controller: packages ## 10,000 Functions and Subscriptions in a real kube-apiserver without nodes: applied, a restart, and at rest (N, IDLE)
	@$(ASSETS) && \
	  $(GO) run ./e2e/bench/cluster controller $(if $(N),-n $(N)) $(if $(IDLE),-idle $(IDLE))

.PHONY: bench-dashboard
bench-dashboard: ## The dashboard of a cluster with 2,000 Functions and 500 events/s in Chromium for a minute, without nodes (N, RATE, FOR)
	@$(ASSETS) && \
	  $(GO) run ./e2e/bench/cluster dashboard $(if $(N),-n $(N)) $(if $(RATE),-rate $(RATE)) $(if $(FOR),-for $(FOR))

.PHONY: bench-schedules
bench-schedules: ## 1,000 Schedules of a second on three nats-servers while servers and bridges are killed, and 100,000 delayed events (SCHEDULES, ROUND_SECONDS, DELAYED)
	@$(GO) run ./e2e/bench schedules

.PHONY: bench-scaler
bench-scaler: ## 10,000 ScaledObjects polled as KEDA does, and 1,000 wakes in a second, beside a server of constants (SCALED_OBJECTS, WAKES, POLL_SECONDS, ROUND_SECONDS)
	@$(GO) run ./e2e/bench/cluster scaler

.PHONY: bench-memory
bench-memory: ## Hostile loads that could make a bridge take unbounded memory, beside the chart's limit (SHAPE_SECONDS, SCALE_PERCENT)
	@$(GO) run ./e2e/bench memory

.PHONY: bench-retries
bench-retries: ## Retries of one Subscription while 1,000,000 of others wait (RETRIES, ROUND_SECONDS)
	@$(GO) run ./e2e/bench retries

.PHONY: bench-runtime
bench-runtime: packages ## Hello world on one core beside the bare HTTP server of each language
	@$(GO) run ./e2e/bench runtime

.PHONY: powercut
powercut: ## Cut the power of a nats-server's disk under load: confirmed events must be there (CUTS; root)
	@$(GO) run ./e2e/powercut

.PHONY: chaos
chaos: ## Events while bridges are killed, a NATS node of three stops and sinks fail: nothing may be lost (EVENTS)
	@$(GO) run ./e2e/chaos

.PHONY: chaos-standins
chaos-standins: cluster ## Events for Functions that stand-ins serve while they wake, while pods and processes of all kinds are killed: nothing may be lost (ROUNDS)
	@selected=$$($(CLUSTERS) env); eval "$$selected"; $(GO) run ./e2e/standins $(if $(ROUNDS),-rounds $(ROUNDS))

##@ Work on it
.PHONY: recording
recording: bin/rouse ## Make the README's moving picture again (docs/images/dev.svg)
	@env -u NODE_EXTRA_CA_CERTS $(GO) run ./docs/recording

.PHONY: screenshots
screenshots: bin/rouse ## Make the pictures of the dashboard's page again (docs/images)
	@ROUSE_SCREENSHOTS="$(CURDIR)/docs/images" e2e/dashboard/run.sh -run TestScreenshots

.PHONY: build
build: ## Build the binaries into bin/
	@CGO_ENABLED=0 $(FIPS) $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs and the reference of their fields
	@$(CONTROLLER_GEN)
	@$(GO) run ./docs/reference

.PHONY: baseline
baseline: ## Save the CRDs and the settings of streams and consumers of this checkout as the previous release's (at the commit of a release)
	@$(GO) test ./internal/testing/crdcompat -run PreviousRelease -renew && $(GO) test ./internal/broker -run TheOneBefore -renew

.PHONY: fmt
fmt: ## Format the Go code
	@for module in $(MODULES); do (cd $$module && $(GOLANGCI_LINT) fmt --config "$(CURDIR)/.golangci.yml" ./...); done

.PHONY: release
release: ## Make a release: images, chart, archives, manifests, checksums (VERSION, OUT; REGISTRY pushes, and needs IMAGES, KEY signs, BASES names the runtimes' bases)
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; bases='$(BASES)'; \
	  if [ -z "$$bases" ]; then bases=$$work/bases; $(CLUSTERS) bases --out "$$bases"; fi; \
	  $(GO) run -C tools/release . --repository "$(CURDIR)" --version '$(RELEASE_VERSION)' --out '$(if $(OUT),$(abspath $(OUT)))' \
	    --registry '$(REGISTRY)' --images '$(if $(IMAGES),$(abspath $(IMAGES)))' --key '$(if $(KEY),$(abspath $(KEY)))' --bases "$$bases"

.PHONY: image
image: ## Build the image with all Go binaries (needs Docker)
	docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg DATE=$(DATE) -t rouse:$(VERSION) .

# These are for the workflow of releases: they need docker, its identity, cosign and gh.
.PHONY: official-bases
official-bases: ## Write the official images of today that runtimes can stand on, by their digests, into a file for BASES (OUT; needs docker)
	@$(CLUSTERS) officials | { lines=; while read -r runtime image; do \
	  digest=$$(docker buildx imagetools inspect "$$image" --format '{{.Manifest.Digest}}'); \
	  lines+="$${lines:+,}"$$'\n'"  \"$$runtime\": \"$$image@$$digest\""; done; printf '{%s\n}\n' "$$lines"; } >"$(OUT)"

.PHONY: official-images
official-images: ## Write the digests that the tags of the chart's other images have today, into a file for IMAGES (OUT; needs docker)
	@$(GO) run -C tools/release . --repository "$(CURDIR)" --list-images | { lines=; while read -r image; do \
	  digest=$$(docker buildx imagetools inspect "$$image" --format '{{.Manifest.Digest}}'); \
	  lines+="$${lines:+,}"$$'\n'"  \"$$image\": \"$$digest\""; done; printf '{%s\n}\n' "$$lines"; } >"$(OUT)"

.PHONY: sign
sign: ## Sign what make release has made and pushed, without a key, by the identity of the workflow (OUT)
	@while read -r image; do cosign sign --yes "$$image"; done <"$(OUT)/images.txt"
	@cosign sign-blob --yes --bundle "$(OUT)/SHA256SUMS.sigstore.json" "$(OUT)/SHA256SUMS"

.PHONY: publish
publish: ## Make a release on GitHub of a tag that is there, with the files of make release (VERSION, OUT)
	@find "$(OUT)" -maxdepth 1 -type f -print0 | sort -z | \
	  xargs -0 gh release create "$(VERSION)" --verify-tag --title "$(VERSION)" --notes "See CHANGELOG.md at this tag."

.PHONY: dco
dco: ## Fail when a commit since BASE is not signed off by its author
	@tools/supply/signoff.sh . "$(or $(BASE),origin/main)..HEAD"

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
