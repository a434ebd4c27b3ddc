#!/usr/bin/env bash
# Measures the loop itself on fresh clones of what is committed, beside nothing else: the demo, the
# tests, the tests again after a change of one line in the overlay, and `make quick`. Writes runs to
# benches/results/loop.jsonl, from which `make report` makes the table.
#   measure.sh [ROUNDS]     three rounds if nothing is said, an hour each
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
here=$PWD
build=$(git rev-parse --short=8 HEAD)
host="$(nproc) cores, Linux $(uname -r | cut -d. -f1,2)"
results=$here/benches/results/loop.jsonl

keep() {
    printf '{"bench":"loop","case":"%s","metric":"time","value":%s,"unit":"min","baseline":null,"build":"%s","host":"%s","date":"%s"}\n' \
        "$1" "$2" "$build" "$host" "$(date +%F)" | tee -a "$results"
}

timed() {
    local case=$1 begin
    shift
    begin=$(date +%s)
    "$@" >"$here/target/loop/measure.log" 2>&1 || {
        echo "measure.sh: $case failed: see target/loop/measure.log" >&2
        exit 1
    }
    keep "$case" "$(awk "BEGIN { printf \"%.2f\", ($(date +%s) - $begin) / 60 }")"
}

mkdir -p target/loop
for round in $(seq "$rounds"); do
    clone=$(mktemp -d)
    trap 'rm -rf "$clone"' EXIT
    git clone -q "$here" "$clone/demo"
    timed "make demo, fresh clone" make -C "$clone/demo" demo
    rm -rf "$clone/demo"
    git clone -q "$here" "$clone/test"
    cd "$clone/test"
    timed "make test, fresh clone" make test
    echo '// One more line.' >>crates/overlay/src/finger.rs
    timed "make quick, one line of overlay changed" make quick
    timed "make test, one line of overlay changed" make test
    cd "$here"
    rm -rf "$clone"
    echo "round $round of $rounds is done"
done
