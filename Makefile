# Perdure's targets. "make" alone prints them. Nothing but Go, make and a POSIX
# shell is needed for build, run and test; what check needs besides, it builds.
#
# Written for GNU make 3.81, which macOS ships, as well as for later ones.

.DEFAULT_GOAL := help

GO ?= go

# Tools are pinned in tools/go.mod, a module of its own, so that their
# dependencies are not ours. Each is built once for a version of it and of Go.
GO_VERSION := $(shell $(GO) env GOVERSION 2>/dev/null)
tool_version = $(shell awk '$$1 == "$(1)" { print $$2 }' tools/go.mod)
LINT := .cache/bin/golangci-lint-$(call tool_version,github.com/golangci/golangci-lint/v2)-$(GO_VERSION)
VULN := .cache/bin/govulncheck-$(call tool_version,golang.org/x/vuln)-$(GO_VERSION)

# What infra needs of Node is pinned in infra/node and installed from its lock file.
NODE := .cache/node/node_modules/.package-lock.json
CDK := .cache/node/node_modules/.bin/cdk

# Arguments that a caller may give.
PKG ?= ./...
ARCH ?= arm64
BENCH ?= .
FUZZTIME ?= 2s
ARGS ?=
LOG ?=

.PHONY: help
help: ## print this
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z\/]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Every day

.PHONY: run
run: build ## serve on this machine until Ctrl-C (ARGS="--flag …")
	@bin/perdure serve $(ARGS)

.PHONY: build
build: ## build bin/perdure
	@$(GO) build -trimpath -o bin/perdure ./cmd/perdure

.PHONY: test
test: test/go test/aws test/fuzz ## run all tests, the end-to-end suite on the deployed stack too, then each fuzz target for a moment

.PHONY: check
check: verify/fmt vet lint verify/tidy verify/generate verify/lint ## look at everything that can be seen without running it

.PHONY: fmt
fmt: $(LINT) ## lay out every Go file
	@$(LINT) fmt

.PHONY: replay
replay: ## replay the recorded histories, or one log (LOG=file.jsonl)
ifeq ($(LOG),)
	@$(GO) test -count=1 ./core/replay/...
else
	@$(GO) run ./cmd/perdure replay $(LOG)
endif

##@ Tests

# What a machine lacks skips tests, and go test keeps to itself why.
.PHONY: test/lacks
test/lacks:
	@for tool in $(PYTHON) node npm; do command -v $$tool >/dev/null || \
		echo "$$tool is missing: tests of the AWS side that need it are skipped, or fail where CI is true"; done

.PHONY: test/go
test/go: test/lacks ## run all tests (PKG=./core/…)
	@$(GO) test -timeout 25m $(PKG)

.PHONY: test/aws
test/aws: test/lacks ## run the end-to-end suite against the stack on an emulator, or on PERDURE_AWS_ENDPOINT
	@$(GO) test -timeout 25m ./e2e -args -deployed

.PHONY: test/fuzz
test/fuzz: ## run each fuzz target for FUZZTIME (2s)
	@GO="$(GO)" .ci/fuzz $(FUZZTIME)

# The model of the wake protocol is one goroutine that counts states.
.PHONY: test/race
test/race: ## run core, host and adapters under the race detector (needs a C compiler)
	@CGO_ENABLED=1 $(GO) test -race $$($(GO) list ./core/... ./internal/host/... ./internal/adapter/... | grep -v /wakemodel$$)

.PHONY: test/readme
test/readme: ## run what the README tells a reader to run
	@out=$$($(GO) test -count=1 -run README ./cmd/perdure 2>&1); status=$$?; echo "$$out"; \
	case "$$out" in *"no test"*) echo "no test runs the README"; exit 1;; esac; exit $$status

.PHONY: bench
bench: ## run the benchmarks (PKG=./core/… BENCH=Apply)
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

.PHONY: bench/aws
bench/aws: python ## how long functions take to come up, and what the deployed stack takes under load (TARGET=localstack)
	@$(GO) test -run '^$$' -bench Init -benchtime 10x -v ./functions/internal/stub
	@$(HERE) $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 25m -v ./localstack/load

##@ Checks

.PHONY: vet
vet: ## go vet
	@$(GO) vet ./...

.PHONY: lint
lint: $(LINT) ## golangci-lint, by .golangci.yaml
	@$(LINT) run ./...

.PHONY: vuln
vuln: $(VULN) ## known vulnerabilities in what we call (asks the network, so not in check)
	@$(VULN) ./...

.PHONY: verify/fmt
verify/fmt: $(LINT) ## the layout is what fmt would make
	@$(LINT) fmt --diff

.PHONY: verify/tidy
verify/tidy: ## go.mod and go.sum are what go mod tidy would make
	@$(GO) mod tidy -diff
	@cd tools && $(GO) mod tidy -diff

# There are two kinds of generator, and each has its twin. A go:generate line is
# run in a copy of the tree, all of them at once, so that a new one is covered the
# day it is written. A test that writes with -update compares without it; its
# packages are listed here, in the order in which they feed one another.
GOLDEN := ./core/wire/internal/gen ./core/wire ./infra

.PHONY: generate
generate: generate/go generate/golden ## write every generated file anew

.PHONY: generate/go
generate/go:
	@$(GO) generate ./...

.PHONY: generate/golden
generate/golden:
	@for package in $(GOLDEN); do $(GO) test -count=1 "$$package" -update || exit 1; done
	@$(GO) test -count=1 -run '^TestThePageOfTargets$$' ./localstack -update

.PHONY: verify/generate
verify/generate: ## what go:generate lines write is what is there
	@MAKE="$(MAKE)" .ci/verify generate/go

.PHONY: verify/golden
verify/golden: ## what tests with -update write is what is there (test runs it too)
	@$(GO) test $(GOLDEN)

.PHONY: verify/lint
verify/lint: $(LINT) ## the lint rules find what they are there for
	@LINT="$(CURDIR)/$(LINT)" .ci/verify-lint

##@ AWS

# The CDK runs on Node 20, and complains of its age in twenty lines each time.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
export AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED := true

# The architecture of functions, in the words of Lambda and of Go.
GOARCH_arm64 := arm64
GOARCH_x86_64 := amd64

# Context for the CDK, as in CONTEXT="-c alarmEmail=me@example.com -c logDays=7".
CONTEXT ?=
CDK_CONTEXT = -c arch=$(ARCH) $(CONTEXT)

# Without a revision in it a function that has not changed has the bytes that it
# had, and is not deployed again.
.PHONY: build/functions
build/functions: ## build all functions into bin/functions (ARCH=arm64|x86_64)
	@mkdir -p .cache/functions-$(ARCH)
	@CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH_$(ARCH)) $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -tags lambda.norpc \
		-o .cache/functions-$(ARCH)/ ./functions/...
	@for main in functions/*/main.go; do \
		name=$$(basename "$$(dirname "$$main")"); mkdir -p "bin/functions/$$name" && \
		cp ".cache/functions-$(ARCH)/$$name" "bin/functions/$$name/bootstrap" || exit 1; \
	done

.PHONY: synth
synth: node build/functions $(NODE) ## write the stack's template to .cache/cdk.out (ARCH=, CONTEXT="-c …")
	@$(CDK) synth --quiet $(CDK_CONTEXT) && echo "the template is in .cache/cdk.out"

.PHONY: bootstrap
bootstrap: node credentials $(NODE) ## prepare an account and region for the CDK: once, before the first deploy
	@test -d bin/functions || $(MAKE) build/functions
	@$(CDK) bootstrap $(CDK_CONTEXT)

.PHONY: deploy
deploy: node credentials build/functions $(NODE) ## deploy the stack, print its outputs and write them to .cache/outputs.json (ARCH=, CONTEXT="-c …")
	@$(CDK) deploy $(CDK_CONTEXT) --outputs-file .cache/outputs.json --require-approval $(if $(CI),never,broadening)

.PHONY: destroy
destroy: node credentials $(NODE) ## remove the stack; its table and bucket stay unless it was deployed with -c keep=0
	@test -d bin/functions || $(MAKE) build/functions
	@$(CDK) destroy $(CDK_CONTEXT) $(if $(CI),--force)

##@ LocalStack

# What stands for AWS: the emulator, or LocalStack itself without Docker. What is
# up is used, or PERDURE_AWS_ENDPOINT; otherwise each suite starts one of its own.
TARGET ?= emulator
SERVER_emulator := localstack/emulator.py
SERVER_localstack := localstack/host/serve.py
SERVER = $(or $(SERVER_$(TARGET)),$(error TARGET is emulator or localstack))
PYTHON ?= python3
OUTPUTS := .cache/localstack/outputs.json
HERE = export PERDURE_AWS_TARGET=$(TARGET); at=$$($(PYTHON) $(SERVER) where); packages=2; \
	if test -z "$$PERDURE_AWS_ENDPOINT" && test -n "$$at"; then \
		export PERDURE_AWS_ENDPOINT="$$at"; \
		test ! -f $(OUTPUTS) || export PERDURE_STACK_OUTPUTS="$${PERDURE_STACK_OUTPUTS:-$$PWD/$(OUTPUTS)}"; \
	fi; \
	test -z "$$PERDURE_AWS_ENDPOINT" || packages=1;

# What is missing is said in a line, and not by a shell.
.PHONY: python node credentials
python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3 is missing, which the emulator is written in. On Debian: apt-get install python3 python3-venv" >&2; exit 1; }

node:
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "Node.js with npm is missing, which the CDK runs on: version 20 or newer, from nodejs.org" >&2; exit 1; }

# On a machine of AWS's own there may be some all the same: so nothing is refused.
credentials:
	@test -n "$$AWS_ACCESS_KEY_ID$$AWS_PROFILE$$AWS_WEB_IDENTITY_TOKEN_FILE$$AWS_CONTAINER_CREDENTIALS_RELATIVE_URI$$AWS_CONTAINER_CREDENTIALS_FULL_URI" || \
		test -f "$$HOME/.aws/credentials" || test -f "$$HOME/.aws/config" || \
		echo "No credentials of AWS are in sight: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Asking the machine itself, which takes a while." >&2

.PHONY: localstack/up
localstack/up: python ## start the emulator in the background, on 127.0.0.1:4566 (TARGET=localstack)
	@$(PYTHON) $(SERVER) where | grep -q . || rm -f $(OUTPUTS)
	@$(PYTHON) $(SERVER) up

.PHONY: localstack/deploy
localstack/deploy: python node ## build the functions and deploy the stack to it (CONTEXT="-c …")
	@$(HERE) $(PYTHON) localstack/deploy.py --endpoint "$${PERDURE_AWS_ENDPOINT:-http://127.0.0.1:4566}" --outputs $(OUTPUTS) $(CONTEXT)

# No suite is deployed to what another has left: each has its own, if none is up,
# and two at a time, for each takes a gigabyte. On one that is up they are run one
# after the other, because they kill what others use.
.PHONY: localstack/test
localstack/test: python ## run the suites of the AWS side against it, or against one of their own (TARGET=localstack)
	@$(HERE) $(GO) test -count=1 -timeout 25m -p $$packages ./localstack/... ./internal/adapter/dynamo/... ./internal/adapter/s3/... \
		./internal/adapter/sfn/... ./internal/adapter/sqs/... ./internal/adapter/lambda/... ./internal/cloud/... \
		./internal/wiring/... ./internal/doctor/...
	@$(HERE) $(GO) test -count=1 -timeout 25m ./e2e -args -deployed

.PHONY: localstack/down
localstack/down: python ## end it, and all that it keeps
	@$(PYTHON) $(SERVER) down
	@rm -f $(OUTPUTS)

##@ House

.PHONY: tools
tools: $(LINT) $(VULN) ## build the pinned tools into .cache/bin

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin dist .cache

$(NODE): infra/node/package.json infra/node/package-lock.json infra/node/.npmrc
	@command -v npm >/dev/null || { echo "infra needs Node 20 or newer, with npm: install it first"; exit 1; }
	@mkdir -p .cache/node
	@cp infra/node/package.json infra/node/package-lock.json infra/node/.npmrc .cache/node/
	@cd .cache/node && npm ci --silent
	@touch $@

$(LINT): tools/go.mod tools/go.sum
	@echo "building $(notdir $@): once, a few minutes"
	@mkdir -p .cache/bin
	@cd tools && $(GO) build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(VULN): tools/go.mod tools/go.sum
	@mkdir -p .cache/bin
	@cd tools && $(GO) build -ldflags '-s -w' -o "$(CURDIR)/$@" golang.org/x/vuln/cmd/govulncheck
