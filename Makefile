# make          generate + build + test + lint
# make demo     build, then show what took the CPU of a training loop on a simulated GPU
# make demo-recordings   as root: the recordings that demo plays where it cannot trace
# make test     the tests; as root, also those on the running kernel
# make measure  the measurements that depend on the machine's speed, compared with a baseline
# Each target installs by apt the packages that it lacks (tools/deps.sh lists them, with reasons).

SHELL  := /bin/bash -o pipefail
PREFIX ?= /usr/local
export CGO_ENABLED = 0

version = $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null || echo v0.0.0)
commit  = $(shell git rev-parse --short=12 HEAD 2>/dev/null)
date    = $(shell TZ=UTC git show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD 2>/dev/null)
ldflags = -s -w -X main.version=$(version) -X main.commit=$(commit) -X main.date=$(date)
judge   = -ldflags '-X ingero/test/scores.commit=$(shell git describe --always --exclude='*' --abbrev=12 --dirty 2>/dev/null)'
gobuild = go build -trimpath -buildvcs=false -ldflags '$(ldflags)'

ifeq ($(shell id -u),0)
root =
else
root = sudo env "PATH=$(PATH)" "GOPATH=$(shell go env GOPATH 2>/dev/null)" "GOCACHE=$(shell go env GOCACHE 2>/dev/null)" "CI=$(CI)"
endif

.PHONY: all build packages test test-root test-interop test-smoke test-real victims guide repeat steady measure mutate lint fmt generate docs pictures verify deps vmlinux \
	demo demo-recordings install flake fuzz nightly incidents tapes test-gpu test-gpu-bundle clean

all: generate build test lint

build:
	@tools/deps.sh build
	$(gobuild) -o bin/ingero ./cmd/ingero

# Builds the release files: archives, deb, rpm, bills of materials and checksums, in bin/packages.
packages:
	@tools/deps.sh build
	COMMIT=$(commit) tools/package.sh $(version)

# The tests that judge the code. Their results do not depend on the machine's speed or load.
# PKGS=./internal/stats tests one package, TESTFLAGS=-count=1 bypasses the cache. Most tests wait
# rather than compute, so at least four run at once. make lint runs vet, and no test reads its own DWARF.
PKGS ?= ./...
gotestsum = mkdir -p bin && $1 go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-icons text \
	--format-hide-empty-pkg --jsonfile-timing-events bin/$@.json $(if $(CI),,--hide-summary=skipped) --
ran = && { grep -q '"Action":"pass".*"Test":' bin/$@.json || { echo 'make $@: no test ran' >&2; false; }; }
test:
	@tools/deps.sh test
	@[ "$$(id -u)" = 0 ] || echo 'make test: not root: the tests that load BPF programs are skipped (make test-root runs them)'
	$(call gotestsum) -timeout 15m -parallel $(shell n=$$(nproc); echo $$((n > 4 ? n : 4))) -vet=off -ldflags=-w $(TESTFLAGS) $(PKGS)$(ran)

test-root:
	$(root) $(MAKE) test

# Only the tests that need real servers, a browser, emulators and packaging tools. An emulated kernel
# keeps one CPU busy, and most others wait: so there is a package more than there are CPUs.
test-interop:
	@tools/deps.sh test interop
	tools/interop.sh fetch
	$(call gotestsum) -timeout 15m -p $(shell echo $$(($$(nproc) + 1))) -vet=off -ldflags=-w -tags interop -run "$$(tools/interop.sh tests)" $$(tools/interop.sh packages)$(ran)

# A few fault scenarios on the running kernel, judged together, and tests of the incident lab itself.
test-smoke:
	@tools/deps.sh test
	$(call gotestsum,$(root)) -timeout 5m -tags smoke ./test/incidents$(ran)

# Traces real programs: PyTorch with CUDA, numba and pycuda from Debian, on the simulated stack. The
# first run downloads 1.1 GB and unpacks it into TORCH_ROOT. It writes a table to bin/clients.md.
TORCH_ROOT ?= $(CURDIR)/bin/torch
test-real:
	@tools/deps.sh test real
	$(root) env TORCH_ROOT='$(TORCH_ROOT)' tools/torch-root.sh
	@mkdir -p bin && rm -f bin/clients.md
	$(call gotestsum,$(root) env TORCH_ROOT='$(TORCH_ROOT)') -timeout 10m -tags real $(TESTFLAGS) -run '^TestReal$$' ./test/real -args -table $(abspath bin/clients.md)$(ran)
	@cat bin/clients.md

# The incident lab of real programs: a table of the reports of their faults, and the truth.
# ONLY=loader runs those of one program, RUNS=5 each five times, KEEP=DIR keeps recordings.
# SCORES=FILE adds the result of each run to a file, and the table has all of that file; with
# RESUME=1, runs that it has are not repeated. The file also has the commit that judged each run.
victims:
	@tools/deps.sh test real
	$(root) env TORCH_ROOT='$(TORCH_ROOT)' tools/torch-root.sh
	@mkdir -p bin && rm -f bin/victims.md
	$(root) env TORCH_ROOT='$(TORCH_ROOT)' go test -tags real $(judge) -v -count=1 -timeout 12h ./test/real -run '^TestVictims$$/$(ONLY)' \
		-args -table $(abspath bin/victims.md) -runs $(or $(RUNS),1) -keep '$(abspath $(KEEP))' -scores '$(abspath $(SCORES))' $(if $(RESUME),-resume) >bin/victims.log; \
	status=$$?; cat bin/victims.md; exit $$status

# The runs of docs/guides/pytorch.md. Their reports go to bin/guide.
guide:
	@tools/deps.sh test real
	$(root) env TORCH_ROOT='$(TORCH_ROOT)' tools/torch-root.sh
	@mkdir -p bin/guide
	$(root) env TORCH_ROOT='$(TORCH_ROOT)' go test -tags real -v -count=1 ./test/real -run '^TestGuide$$' -args -reports $(abspath bin/guide)

# Runs some of the tests that make test ran three more times; the commit selects them.
# SECONDS_TO_REPEAT bounds the sum of their times in make test.
repeat:
	tools/repeat.sh

# Runs all tests many times: as root and as a user, alone and with a load. It resumes.
steady:
	tools/steady.sh $(ONLY)

# Runs the measurements and compares them with the baseline: ONLY=session,incidents SEEDS=1-5
# RUNS=5 FRESH=1 UPDATE=1. An interrupted run resumes.
ONLY  ?=
SEEDS ?= 1
measure: build
	@tools/deps.sh test
	$(root) go run ./tools/measure -only '$(ONLY)' -seeds '$(SEEDS)' -runs $(or $(RUNS),5) $(if $(FRESH),-fresh) $(if $(UPDATE),-update)

# Applies each patch of test/mutate to a copy of the tree, and fails if the tests pass.
mutate:
	@tools/deps.sh test generate
	$(root) tools/mutate.sh $(ONLY)

# Checks all code, also the tests with other build tags.
tags = interop,measure,smoke,real
lint:
	@tools/deps.sh lint
	go run ./tools/lint
	go vet -tags $(tags) ./...
	go tool staticcheck -tags $(tags) ./...
	git ls-files -co --exclude-standard '*.[ch]' ':!bpf/vmlinux' | xargs -r clang-format-14 --dry-run -Werror
	git ls-files -co --exclude-standard '*.sh' .ci/run 'deploy/package/p*' | xargs -r shellcheck
	tools/web.sh check
	! git ls-files ':!sim/prebuilt' ':!internal/bpf' ':!*testdata*' | xargs -d '\n' env LC_ALL=C grep -laP '\A\x7fELF' # no program is committed
	for p in test/mutate/*.patch; do git apply --check "$$p" || { echo "$$p: the code has changed, make it anew" >&2; exit 1; }; done

fmt:
	@tools/deps.sh lint
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')
	git ls-files -co --exclude-standard '*.[ch]' ':!bpf/vmlinux' | xargs -r clang-format-14 -i

generate: docs
	@tools/deps.sh generate
	go generate ./internal/bpf
	sim/build.sh
	tools/web.sh

docs:
	@tools/deps.sh build
	go run ./tools/docs

# Makes the pictures of docs/images anew, from a trace of a simulated job.
pictures: build
	@tools/deps.sh test interop
	$(root) tools/pictures.sh

# Regenerates all generated files in a copy of the tree and names each file that differs.
verify:
	@tools/deps.sh generate
	tools/verify.sh

deps:
	tools/deps.sh generate test lint vmlinux interop

vmlinux:
	@tools/deps.sh vmlinux
	@mkdir -p bin
	PATH=$$PATH:/usr/sbin bpftool btf dump file /sys/kernel/btf/vmlinux format c >bin/vmlinux.h
	go run ./tools/btfcheck

demo: build
	@if [ "$$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then sudo bin/ingero demo incident; else bin/ingero demo incident; fi

# Records again what ingero demo plays where it cannot trace, on an otherwise idle machine. The
# priority leaves next to no CPU time to other programs.
DEMOS ?= incident cold-start memcpy-bottleneck periodic-spike cpu-contention gpu-steal train
demo-recordings: build
	for s in $(DEMOS); do nice -n -20 bin/ingero demo $$s --save internal/cli/demo/$$s.ingero || exit 1; done

install:
	@test -x bin/ingero || { echo 'install: run make build first' >&2; exit 1; }
	install -D -m 755 bin/ingero '$(DESTDIR)$(PREFIX)/bin/ingero'

# Runs the tests of changed packages many times: FLAKE_PKGS='./internal/stats' COUNT=100
COUNT ?= 100
flake:
	@tools/deps.sh test
	COUNT=$(COUNT) FLAKE_PKGS='$(FLAKE_PKGS)' tools/flake.sh

# Fuzzes the parsers of untrusted bytes, two targets at a time: FUZZTIME=20s for a short run.
FUZZTIME ?= 10m
fuzz:
	@tools/deps.sh build
	FUZZTIME=$(FUZZTIME) tools/fuzz.sh

# Boots, in addition to the kernels of make test-interop, 6.12 without preempt=full, and those that
# take longer or come from other sources: Ubuntu's, and Debian's for arm64. Builds the packages for arm64.
nightly:
	@tools/deps.sh test interop nightly
	$(root) go test -tags interop ./test/guests -count=1 -timeout 1h -v -args -nightly
	ARCHES=arm64 $(MAKE) packages

# Runs each scenario of the incident lab with each seed, and prints a table: SEEDS=1-9
# ONLY='hog,disk' KEEP=DIR. RESUME=1 skips the runs that are already kept there. REPLAY=DIR judges
# kept runs again. SCORES=FILE adds the results to a file, as with make victims, and the table has
# all of that file; with RESUME=1, runs that it has are not repeated. BY_DEFAULT=1 sets the default
# limit on overhead; otherwise there is no limit.
incidents:
	@tools/deps.sh test
	@mkdir -p bin
	$(root) go test -tags measure $(judge) ./test/incidents -run '^TestIncidents$(if $(BY_DEFAULT),ByDefault)$$' -count=1 -timeout 12h -args -seeds '$(SEEDS)' -only '$(ONLY)' \
		-keep '$(abspath $(KEEP))' -replay '$(abspath $(REPLAY))' -scores '$(abspath $(SCORES))' -table $(abspath bin/incidents.md) $(if $(RESUME),-resume) >bin/incidents.log; \
	status=$$?; cat bin/incidents.md; exit $$status

# Records tapes of the incident lab again for test/tapes: ONLY='hog,disk', by default all scenarios.
# A wrong or disturbed run is repeated, at most ATTEMPTS times.
ATTEMPTS ?= 5
tapes:
	@tools/deps.sh test
	@mkdir -p bin
	$(root) nice -n -10 go test -tags measure ./test/incidents -run '^TestIncidents$$' -count=1 -timeout 4h -args -seeds '$(SEEDS)' \
		-attempts $(ATTEMPTS) -tapes $(abspath test/tapes/testdata) -only '$(ONLY)' >bin/tapes.log; \
	status=$$?; git status --short test/tapes; exit $$status

# test-gpu needs a machine with a GPU, but no Go: test-gpu-bundle makes bin/test-gpu on any machine.
test-gpu-bundle: build
	tools/testgpu/bundle.sh bin/test-gpu

# SIM=1 runs it on the simulated stack, without the test binaries.
test-gpu:
	@test -x bin/test-gpu/run.sh || { echo 'test-gpu: make test-gpu-bundle, on a machine with Go, makes what this needs' >&2; exit 1; }
	bin/test-gpu/run.sh $(if $(SIM),-sim -tests=false)

clean:
	rm -rf bin
