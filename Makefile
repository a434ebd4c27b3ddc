# `make demo` and `make test` are all that a user needs; the rest are their parts.
CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help setup setup-tests setup-bench demo test format lint docs tidy check model kernels fuzz bench bench-transport bench-dtl bench-overlay bench-overlay-real bench-kademlia bench-gate release

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (apt packages; sudo if not root)
	@./setup.sh

setup-tests:
	@./setup.sh --tests

setup-bench:
	@./setup.sh --bench

demo: setup ## build Ringway and show it at work on this machine; ends with a table and exit code 0
	$(CARGO) run --locked --release --package ringway -- demo --once

release: setup ## build the program: target/release/ringway
	$(CARGO) build --locked --release --package ringway

test: setup-tests format lint docs check ## everything that must hold: format, lints, docs, tidy, all tests

format: ## check the formatting
	$(CARGO) fmt --all -- --check

lint: ## clippy, warnings are errors
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features --target-dir target -- -D warnings

docs: ## build the documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --lib --bins

tidy: ## the style that only a test can check
	$(CARGO) test --locked --package ringway-testbed --test tidy

check: ## all tests, tidy among them
	$(CARGO) test --locked

model: ## ring maintenance, every interleaving in larger scopes than `make test` has (minutes, 4 GB)
	$(CARGO) test --locked --package ringway-sim --test it model:: -- --include-ignored --nocapture --test-threads 1

kernels: setup ## the gateway's in-kernel path on Debian's kernels, in virtual machines (root; KERNELS="bullseye ..." for others)
	@testbed/kernels/run.sh $(KERNELS)

fuzz: ## fuzz every decoder for a minute each (needs cargo-fuzz and a nightly toolchain)
	@for target in $$(cd fuzz && $(CARGO) +nightly fuzz list); do \
		(cd fuzz && $(CARGO) +nightly fuzz run $$target -- -max_total_time=60) || exit 1; done

bench-transport: setup-bench ## measure every transport beside bare sockets, libp2p and iroh: target/bench/transport.json and plots
	$(CARGO) build --locked --release --package ringway
	$(CARGO) build --locked --release --manifest-path benches/Cargo.toml --target-dir target --bin transport-peers
	mkdir -p target/bench
	target/release/ringway bench transport --json --plots target/bench --beside target/release/transport-peers > target/bench/transport.json
	@cat target/bench/transport.json

target/tools/bin/rattan:
	$(CARGO) install rattan --version 0.1.1 --locked --root target/tools --target-dir target/tools/build

# The emulator of the lines. `LINE=target/release/dtl-line` is a line of our own at less than half of the processor time, of which two run side by side
# on a core at 100 Mbit/s (`DTL="--fast-jobs 2"`).
LINE ?= target/tools/bin/rattan
# Measured once, as every run over a line: remove it to measure anew.
SPEED = target/bench/dtl-speed$(filter --quick,$(DTL)).json
bench-dtl: setup-bench target/tools/bin/rattan ## measure priorities beside the kernel's TCP over emulated lines (root; many hours, resumes): target/bench/dtl.json and plots
	$(CARGO) build --locked --release --package ringway
	$(CARGO) build --locked --release --manifest-path benches/Cargo.toml --target-dir target --bin dtl-peers
	$(CARGO) build --locked --release --package ringway-testbed --bin dtl-line
	mkdir -p target/bench
	test -s $(SPEED) || { target/release/dtl-peers speed $(filter --quick,$(DTL)) --json > $(SPEED).part && mv $(SPEED).part $(SPEED); }
	target/release/ringway bench dtl --json --results target/bench/dtl.runs --plots target/bench --rattan $(LINE) --beside target/release/dtl-peers $(DTL) > target/bench/dtl.json
	@cat target/bench/dtl.json

bench-overlay: setup ## look points up in rings with traitors (hours; OVERLAY="--quick" for a minute): target/bench/overlay.json and a plot
	$(CARGO) build --locked --release --package ringway
	mkdir -p target/bench
	target/release/ringway bench overlay --json --plots target/bench $(OVERLAY) > target/bench/overlay.json
	@cat target/bench/overlay.json

bench-overlay-real: setup ## real routers over UDP, beside a build without encryption, and its tests (half an hour after its builds; REAL="--quick" for six minutes): target/bench/overlay-real.json and a plot
	$(CARGO) test --locked --package ringway-node --features insecure --lib link::
	$(CARGO) build --locked --release --package ringway
	$(CARGO) build --locked --release --package ringway --features insecure --target-dir target/insecure
	mkdir -p target/bench
	RINGWAY_UNENCRYPTED=$(CURDIR)/target/insecure/release/ringway $(CARGO) test --locked --package ringway --test it unencrypted
	target/release/ringway bench overlay --real --json --plots target/bench --beside target/insecure/release/ringway $(REAL) > target/bench/overlay-real.json
	@cat target/bench/overlay-real.json

bench-gate: setup-bench target/tools/bin/rattan ## measure the gateway beside NAT, squid, Suricata and nDPI on both paths (root, hours; GATE="--clamd PATH" to scan too): target/bench/gate.json and plots
	$(CARGO) build --locked --release --package ringway
	mkdir -p target/bench
	target/release/ringway bench gate --json --path user,kernel --offloads on,off --plots target/bench --rattan target/tools/bin/rattan $(GATE) > target/bench/gate.json
	target/release/ringway bench gate --json --windows $(GATE) >> target/bench/gate.json
	target/release/ringway bench gate --json --chat --only nat,scan,yara $(GATE) >> target/bench/gate.json
	@cat target/bench/gate.json

# Traffic is counted for a whole network namespace: in one of its own, where the system allows that, nobody else's is in it.
KADEMLIA ?= --traitors 5,20,30
bench-kademlia: setup ## look points up in real rings and beside libp2p's Kademlia (three hours and more; KADEMLIA="--quick" for half an hour): target/bench/kademlia.json
	$(CARGO) build --locked --release --package ringway
	$(CARGO) build --locked --release --manifest-path benches/Cargo.toml --target-dir target --bin overlay-peers
	mkdir -p target/bench
	alone=$$(unshare -rn true 2>/dev/null && echo unshare -rn); $$alone sh -c 'ip link set lo up 2>/dev/null; exec "$$@"' sh \
		target/release/ringway bench overlay --real --only-lookups --json --beside target/release/overlay-peers $(KADEMLIA) > target/bench/kademlia.json
	target/release/ringway bench overlay --memory --json >> target/bench/kademlia.json
	@cat target/bench/kademlia.json

bench: ## measure; not part of `make test`
	$(CARGO) bench --locked --manifest-path benches/Cargo.toml --target-dir target
