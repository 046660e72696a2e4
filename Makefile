# make help lists the targets.

GO      ?= go
TESTFLAGS ?=
# The linter is pinned, and built by the Go tool from its own module.
LINTER  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# A race binary waits for a second at its end, for races of goroutines that still run. Ours leave none behind.
export GORACE := atexit_sleep_ms=50

# Nobody debugs what these build. What a debugger reads would take a sixth of the time that compiling takes, and with
# the symbols a third of the time that linking does.
lint quick test-servers: export GOFLAGS += -gcflags=all=-dwarf=false -ldflags=-s

.PHONY: help demo test quick test-servers failovers campaign campaign-proof campaign-page bench bench-peers lint fmt compiler redis java python databases

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Several processes share locks and permits while some are killed and one is stopped; needs only Go
	@$(GO) run ./cmd/holdfast demo

test: compiler redis java python databases ## All tests; installs a C compiler, redis-server, and a JDK, Maven, redis-py, PostgreSQL and MariaDB if it can
	@$(MAKE) --no-print-directory quick BESIDE=
	@$(MAKE) --no-print-directory test-servers

# The model waits for nothing, and its rules are pure, so there is nothing to race: it runs beside other tests, with what
# they leave of the processors.
MODEL := -- -vet=off -timeout 30m $(TESTFLAGS) ./tests/model

# make lint vets everything, so that go test need not. The demo takes longest and mostly waits: it comes first, with one
# package more at a time than there are cores.
quick: BESIDE ?= $(MODEL)
quick: ## The tests that need no Redis, in less than a minute
	@$(GO) run ./tests/progress -race -vet=off -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) $(TESTFLAGS) \
		./cmd/holdfast/... ./otel/example/... ./... ./otel/... ./goredis/... ./gocron/... ./tests/progress ./tests/docs \
		$(BESIDE)

# Most tests wait, for servers and leases, so some two dozen run at once. The package that takes longest runs beside the
# others. Of these, those that take longest come first, then those that wait, so that the last ones leave no processor
# idle. What make quick has run does not come again, but for the model if it was called by itself. With it runs that of
# a fair lock's queue: nothing there can race, and the detector would take most of the time. The costs are allocations,
# to which the race detector adds, and so does what a session does of its own accord while a busy machine lets its calls
# wait: they come last, alone. With garbage collected less often, the longest packages need a fifth less of the
# processors, and a GiB more of memory. Tests that do something at random, or for a while, do more of it if
# HOLDFAST_STRESS is set, as in CI.
FIRST := $(addprefix ./tests/,faults interop history command failovers several fleet scripts \
	setlockinterop campaign hub redistest pauses goredis upstream)
test-servers: ## The tests against real servers, and against Java and redis-py if they are there
	@GOGC=400 $(GO) run ./tests/progress -race -vet=off -p 4 -parallel 4 -timeout 30m $(TESTFLAGS) $(FIRST) \
		$$($(GO) list ./tests/... | \
			grep -v -e model -e fairqueue -e /progress -e tests/docs -e tests/bench -e /locks $(FIRST:./%=-e %$$)) \
		-- -race -vet=off -parallel 6 -timeout 30m $(TESTFLAGS) ./tests/locks $(MODEL) ./tests/fairqueue
	@$(GO) run ./tests/progress -vet=off $(TESTFLAGS) ./tests/bench

failovers: export HOLDFAST_FAILOVERS ?= 300
failovers: redis ## 300 masters killed under load (HOLDFAST_FAILOVERS): nobody else may get what all replicas have
	cd tests && $(GO) test -race -vet=off -v -count=1 -timeout 2h -parallel 4 ./failovers

# The same seed plays the same again: make campaign SEED=7 KINDS='rlock,rlock fenced' MINUTES=5. What fails keeps what
# everybody told, in bin/.
MINUTES ?= 60
SEED    ?= $(shell date +%s)
RECORD  := $(CURDIR)/bin/campaign.jsonl
campaign: redis java ## An hour of everything at random, in Go and Java, under everything that can fail (MINUTES, SEED, KINDS)
	@mkdir -p bin
	cd tests && $(GO) test -race -vet=off -v -count=1 -timeout 0 -run '^TestCampaign$$' -artifacts -outputdir $(CURDIR)/bin \
		./campaign -args -minutes $(MINUTES) -seed $(SEED) -kinds '$(KINDS)' -record $(RECORD)

campaign-proof: redis ## The campaign with bugs, one after the other: each must be caught (BUGS, by their numbers)
	cd tests && $(GO) test -race -vet=off -v -count=1 -timeout 0 -run '^TestEachSeededBugIsCaught$$' ./campaign \
		-args -proof $(or $(BUGS),all)

campaign-page: ## The tables of docs/evidence.md, from the record that campaigns have left in bin/
	cd tests && $(GO) test -count=1 -run '^TestPage$$' ./campaign -args -record $(RECORD) -page $(CURDIR)/docs/evidence.md

bench: redis ## What it costs, beside the bare commands
	cd tests && $(GO) test -run "^$$" -bench . -benchtime 1x ./bench

# A module of its own, outside go.work: what the other libraries need decides no version here, and is downloaded by
# nobody who does not measure them. PEERS are flags: make bench-peers PEERS="-rows Waiters -rounds 1"; PEERS=-help.
bench-peers: redis java ## Beside other libraries, and Redisson if there is Java: tables and plots in bin/
	cd tests/peers && GOWORK=off $(GO) test -run "^$$" -bench . -benchtime 1x -timeout 2h -args $(PEERS)

lint: ## Formatting, vet, modernizers and linters, in all modules
	.ci/lint $(LINTER)

fmt: ## Format everything
	gofmt -w $$(git ls-files '*.go')

compiler: # of C, for the race detector, if it is not there
	@.ci/install compiler

redis: # redis-server, if it is not there
	@.ci/install redis

java: # a JDK and Maven for the interoperation tests, if they can be had
	@.ci/install java

python: # redis-py for the interoperation tests, if it can be had
	@.ci/install python

databases: # PostgreSQL and MariaDB for the tests of package fence, if they can be had
	@.ci/install databases
