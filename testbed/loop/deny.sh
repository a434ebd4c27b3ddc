#!/usr/bin/env bash
# Licences, sources and advisories of everything the lock files name.
# The advisories' database is fetched into target/advisories where the network allows it. Where it
# does not, and there is none, that is said loudly and the rest is checked.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p target/loop

deny() {
    "${CARGO:-cargo}" deny --config deny.toml --offline --log-level error --manifest-path "$@"
}

if ! "${CARGO:-cargo}" deny --version >/dev/null 2>&1; then
    echo "NOT CHECKED: cargo-deny is missing (./setup.sh --tests installs it): neither licences nor advisories" >&2
    exit 0
fi
code=0
# The peers of the benchmarks have a lock file of their own; what only they need is rarely here.
manifests=(Cargo.toml benches/Cargo.toml)
for manifest in "${manifests[@]}"; do
    if ! "${CARGO:-cargo}" metadata --offline --locked --format-version 1 --manifest-path "$manifest" >/dev/null 2>&1 &&
        ! "${CARGO:-cargo}" fetch --locked --manifest-path "$manifest" >/dev/null 2>&1; then
        echo "NOT CHECKED: $manifest: its dependencies could not be fetched" >&2
        continue
    fi
    deny "$manifest" check --hide-inclusion-graph licenses bans sources || code=1
done
if ! timeout 60 "${CARGO:-cargo}" deny --config deny.toml fetch db >target/loop/fetch.log 2>&1; then
    if ! compgen -G "target/advisories/advisory-db-*" >/dev/null; then
        echo "NOT CHECKED: advisories: the RustSec database could not be fetched, and target/advisories has none" >&2
        exit $code
    fi
    echo "advisories: the RustSec database could not be fetched, the one in target/advisories is used" >&2
fi
for manifest in "${manifests[@]}"; do
    deny "$manifest" check --hide-inclusion-graph advisories || code=1
done
exit $code
