# `make demo` and `make test` are all that a user needs; the rest are their parts.
CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help setup setup-tests demo test format lint docs tidy check fuzz bench release

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (apt packages; sudo if not root)
	@./setup.sh

setup-tests:
	@./setup.sh --tests

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

fuzz: ## fuzz every decoder for a minute each (needs cargo-fuzz and a nightly toolchain)
	@for target in $$(cd fuzz && $(CARGO) +nightly fuzz list); do \
		(cd fuzz && $(CARGO) +nightly fuzz run $$target -- -max_total_time=60) || exit 1; done

bench: ## measure; not part of `make test`
	$(CARGO) bench --locked --package ringway-benches
