# `make demo` and `make test` are all that a user needs; the rest are their parts.
# Times are those of two cores. "First" is a fresh clone in which nothing is compiled yet.
CARGO ?= cargo
.DEFAULT_GOAL := help
# Prints how long a part took, and keeps it for the summary of `make test`.
part = @testbed/loop/part.sh

.PHONY: help setup setup-tests setup-bench setup-package demo release install package test-packages quick test attack test-long format lint docs deny
.PHONY: check tidy older model kernels fuzz loop report bench bench-transport bench-dtl bench-overlay
.PHONY: bench-overlay-real bench-kademlia bench-gate bench-trinity bench-files bench-streams bench-messages

help: ## list the targets, and how long each takes
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing to build (apt packages; sudo if not root); seconds
	@./setup.sh

setup-tests: ## also what the tests use; four minutes on a new machine, then seconds
	@./setup.sh --tests

setup-bench: ## also the peers of the benchmarks; a minute more
	@./setup.sh --bench

setup-package: ## also what `make package` uses; two minutes more
	@./setup.sh --package

demo: setup ## show Ringway at work on this machine, ends with a table; first three minutes, then half a minute
	$(CARGO) run --locked --package ringway -- demo --once

release: setup ## build target/release/ringway, its symbols in ringway.debug beside it
	$(CARGO) build --locked --release --package ringway
	@testbed/loop/strip.sh target/release/ringway

install: ## put target/release/ringway with manual, units and configuration below PREFIX=/usr/local (DESTDIR=, SYSCONFDIR=, SERVICES=); seconds
	@DESTDIR="$(DESTDIR)" PREFIX="$(or $(PREFIX),/usr/local)" SYSCONFDIR="$(or $(SYSCONFDIR),/etc)" packaging/install.sh

package: setup-package release ## build .deb and .tar.gz of the release in target/packages; seconds after the release
	@packaging/build.sh

test-packages: setup-package ## install, upgrade, remove and purge the packages in trees of Debian and Ubuntu; root, ten minutes
	@testbed/packages/run.sh $(TREES)

quick: ## format, clippy and the fast tests of what changed since the last commit; a minute or two
	@testbed/loop/quick.sh

test: ## everything that must hold: format, lints, docs, tidy, all tests; first 17 minutes
	@testbed/loop/part.sh --begin
	$(part) setup ./setup.sh --tests
	@$(MAKE) --no-print-directory format lint docs deny check
	@testbed/loop/part.sh --summary

attack: setup-tests ## attacks on the gateway, members and the owner, in namespaces; three minutes, root for all
	$(CARGO) nextest run --locked --profile attack --no-fail-fast

test-long: setup-tests ## campaigns: tests that are ignored, larger scopes, kernels, fuzzing; hours
	@testbed/loop/long.sh $(LONG)

format: ## check the formatting; a second
	$(part) format $(CARGO) fmt --all -- --check

lint: ## clippy, warnings are errors, fuzz targets too; first two minutes, then seconds
	$(part) clippy $(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: ## build the documentation, warnings are errors; half a minute
	$(part) docs env RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --bins

deny: ## licences, sources and advisories of the dependencies; seconds
	$(part) deny testbed/loop/deny.sh

tidy: ## the style that only a test can check; seconds
	$(CARGO) test --locked --package ringway-testbed --test tidy

check: ## all tests, tidy among them; 12 minutes
	@testbed/loop/check.sh

model: ## ring maintenance, every interleaving in larger scopes than `make test` has; minutes, 4 GB
	$(CARGO) test --locked --package ringway-sim --test it model:: -- --include-ignored --nocapture --test-threads 1

older: setup ## build the program of the release before, for the tests of upgrades: target/older; once, four minutes
	@testbed/loop/older.sh

kernels: setup ## the in-kernel path on Debian's kernels in virtual machines; root, an hour
	@testbed/kernels/run.sh $(KERNELS)

# SQLite's one file defines a name twice, which the sanitizer takes for two libraries in one program.
fuzz: ## fuzz every decoder for a minute each (cargo-fuzz, a nightly toolchain); half an hour
	@for target in $$($(CARGO) +nightly fuzz list); do mkdir -p fuzz/corpus/$$target; \
		ASAN_OPTIONS=detect_odr_violation=0 $(CARGO) +nightly fuzz run --features engine $$target \
			fuzz/corpus/$$target $$(ls -d fuzz/seeds/$$target 2>/dev/null) -- -max_total_time=60 || exit 1; done

loop: ## measure this loop itself on fresh clones: the table in docs/benchmarks.md; hours
	@testbed/loop/measure.sh

bench-transport: setup-bench ## measure every transport beside its peers: target/bench/transport.json; ten minutes
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	$(CARGO) build --locked --release --manifest-path benches/Cargo.toml --target-dir target --bin transport-peers
	mkdir -p target/bench
	target/release/ringway-bench transport --json --plots target/bench --beside target/release/transport-peers > target/bench/transport.json
	@cat target/bench/transport.json

bench-streams: setup-bench ## measure streams to services: target/bench/streams.json; root, five minutes (STREAMS="--quick": one)
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	mkdir -p target/bench
	target/release/ringway-bench streams --json $(STREAMS) > target/bench/streams.json
	@cat target/bench/streams.json

target/tools/bin/rattan:
	$(CARGO) install rattan --version 0.1.1 --locked --root target/tools --target-dir target/tools/build

# The emulator of the lines. `LINE=target/release/dtl-line` is a line of our own at less than half of the processor time, of which two run side by side
# on a core at 100 Mbit/s (`DTL="--fast-jobs 2"`).
LINE ?= target/tools/bin/rattan
# Measured once, as every run over a line: remove it to measure anew.
SPEED = target/bench/dtl-speed$(filter --quick,$(DTL)).json
bench-dtl: setup-bench target/tools/bin/rattan ## measure priorities beside the kernel's TCP: target/bench/dtl.json; root, many hours, resumes
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	$(CARGO) build --locked --release --manifest-path benches/Cargo.toml --target-dir target --bin dtl-peers
	$(CARGO) build --locked --release --package ringway-testbed --bin dtl-line
	mkdir -p target/bench
	test -s $(SPEED) || { target/release/dtl-peers speed $(filter --quick,$(DTL)) --json > $(SPEED).part && mv $(SPEED).part $(SPEED); }
	target/release/ringway-bench dtl --json --results target/bench/dtl.runs --plots target/bench --rattan $(LINE) --beside target/release/dtl-peers $(DTL) > target/bench/dtl.json
	@cat target/bench/dtl.json

bench-files: setup-bench ## 100 000 small files beside rsync and tar: target/bench/files.json; root, minutes (FILES="--quick": one)
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	mkdir -p target/bench
	target/release/ringway-bench files --json $(FILES) > target/bench/files.json
	@cat target/bench/files.json

bench-overlay: setup ## look points up in rings with malicious routers: target/bench/overlay.json; hours (OVERLAY="--quick": a minute)
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	mkdir -p target/bench
	target/release/ringway-bench overlay --json --plots target/bench $(OVERLAY) > target/bench/overlay.json
	@cat target/bench/overlay.json

bench-overlay-real: setup ## real routers over UDP, with and without encryption: target/bench/overlay-real.json; half an hour (REAL="--quick": six minutes)
	$(CARGO) test --locked --package ringway-node --features insecure --lib link::
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	$(CARGO) build --locked --release --package ringway --package ringway-bench --features ringway/insecure,ringway-bench/insecure --target-dir target/insecure
	mkdir -p target/bench
	RINGWAY_UNENCRYPTED=$(CURDIR)/target/insecure/release/ringway $(CARGO) test --locked --package ringway --test it unencrypted
	target/release/ringway-bench overlay --real --json --plots target/bench --beside target/insecure/release/ringway-bench $(REAL) > target/bench/overlay-real.json
	@cat target/bench/overlay-real.json

bench-gate: setup-bench target/tools/bin/rattan ## measure the gateway beside NAT and others: target/bench/gate.json; root, hours (GATE="--clamd PATH")
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	mkdir -p target/bench
	target/release/ringway-bench gate --json --path user,kernel --offloads on,off --plots target/bench --rattan target/tools/bin/rattan $(GATE) > target/bench/gate.json
	target/release/ringway-bench gate --json --windows $(GATE) >> target/bench/gate.json
	target/release/ringway-bench gate --json --chat --only nat,scan,yara $(GATE) >> target/bench/gate.json
	@cat target/bench/gate.json

bench-messages: setup ## stored messages between programs of two members: target/bench/messages.json; a minute
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	mkdir -p target/bench
	target/release/ringway-bench messages --json > target/bench/messages.json
	@cat target/bench/messages.json

# Traffic is counted for a whole network namespace: in one of its own, where the system allows that, nobody else's is in it.
KADEMLIA ?= --malicious 5,20,30
bench-kademlia: setup ## lookups beside libp2p's Kademlia: target/bench/kademlia.json; three hours (KADEMLIA="--quick": half an hour)
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	$(CARGO) build --locked --release --manifest-path benches/Cargo.toml --target-dir target --bin overlay-peers
	mkdir -p target/bench
	alone=$$(unshare -rn true 2>/dev/null && echo unshare -rn); $$alone sh -c 'ip link set lo up 2>/dev/null; exec "$$@"' sh \
		target/release/ringway-bench overlay --real --only-lookups --json --beside target/release/overlay-peers $(KADEMLIA) > target/bench/kademlia.json
	target/release/ringway-bench overlay --memory --json >> target/bench/kademlia.json
	@cat target/bench/kademlia.json

bench-trinity: setup-tests ## count mail in a ring of 20 routers, 500 queries a second: target/bench/trinity.json; minutes
	$(CARGO) build --locked --package ringway --bin ringway --example trinity
	$(CARGO) test --locked --package ringway --test it trinity::answers_stay_right
	@cat target/bench/trinity.json

report: ## make docs/benchmarks.md from benches/results; seconds
	$(CARGO) run --locked --quiet --package ringway-bench -- report

bench: ## build target/release/ringway-bench and measure the congestion control core; minutes
	$(CARGO) build --locked --release --package ringway --package ringway-bench
	$(CARGO) bench --locked --manifest-path benches/Cargo.toml --target-dir target
