#!/usr/bin/env bash
# All tests. With cargo-nextest each is a process of its own, side by side in the groups of
# .config/nextest.toml; without it, as `cargo test` runs them.
set -uo pipefail
cd "$(dirname "$0")/../.."
part=testbed/loop/part.sh
cargo=${CARGO:-cargo}

if ! "$cargo" nextest --version >/dev/null 2>&1; then
    echo "cargo-nextest is missing (./setup.sh --tests installs it): cargo test runs the tests, which takes longer" >&2
    exec "$part" tests "$cargo" test --locked
fi
"$part" older testbed/loop/older.sh
"$part" building "$cargo" nextest run --locked --no-run || exit 1
"$part" tests "$cargo" nextest run --locked
code=$?
report=target/nextest/default/junit.xml
testbed/loop/slowest.sh "$report"
# The runner hides what passing tests print, and so what a test says that was skipped.
if grep -qE "SKIPPED:|NOT TESTED" "$report"; then
    echo "WARNING: not everything was tested:"
    grep -ohE "(SKIPPED:|\*\*\* NOT TESTED).*" "$report" | sort | uniq -c
fi
# A test that passed the second time is a fault of the test or of the program all the same.
if grep -q "<flakyFailure" "$report"; then
    echo "WARNING: these failed once, and passed when they were run again:"
    grep -oE '<testcase [^>]*>|<flakyFailure' "$report" | grep -B 1 "<flakyFailure" |
        sed -n 's/.*<testcase name="\([^"]*\)".*/\1/p' | sort -u
fi
# nextest runs no examples in documentation.
"$part" examples "$cargo" test --locked --doc || code=1
exit $code
