#!/usr/bin/env bash
# Licences, sources and advisories of everything the lock files name.
# The advisories' database is fetched into target/advisories where the network allows it. Where it
# does not, and there is none, that is said loudly and the rest is checked.
set -uo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}

if ! "$cargo" deny --version >/dev/null 2>&1; then
    echo "NOT CHECKED: cargo-deny is missing (./setup.sh --tests installs it): neither licences nor advisories" >&2
    exit 0
fi
code=0
for manifest in Cargo.toml benches/Cargo.toml; do
    "$cargo" deny --manifest-path "$manifest" --offline --log-level error \
        check --config deny.toml --hide-inclusion-graph licenses bans sources || code=1
done
if ! timeout 60 "$cargo" deny fetch --config deny.toml db >target/loop/fetch.log 2>&1; then
    if [[ -z $(ls -A target/advisories 2>/dev/null) ]]; then
        echo "NOT CHECKED: advisories: the RustSec database could not be fetched, and target/advisories has none" >&2
        exit $code
    fi
    echo "advisories: the RustSec database could not be fetched, the one in target/advisories is used" >&2
fi
for manifest in Cargo.toml benches/Cargo.toml; do
    "$cargo" deny --manifest-path "$manifest" --offline --log-level error \
        check --config deny.toml --hide-inclusion-graph advisories || code=1
done
exit $code
