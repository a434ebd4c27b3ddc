#!/usr/bin/env bash
# Format, clippy and the fast tests of the crates that changed since the last commit. Fast are the
# tests of the profile `quick` in .config/nextest.toml: those that start no programs.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
begin=$(date +%s)

"$cargo" fmt --all -- --check

# The folder of each crate : its name.
crates=(crates/dtl:ringway-dtl crates/overlay:ringway-overlay crates/transport:ringway-transport
    crates/dtl-c:ringway-dtl-c
    crates/node:ringway-node crates/gateway:ringway-gateway crates/ringway:ringway
    crates/bench:ringway-bench sim:ringway-sim testbed:ringway-testbed fuzz:ringway-fuzz)
changed=$(git diff --name-only HEAD; git ls-files --others --exclude-standard)
names=() filter=""
for crate in "${crates[@]}"; do
    folder=${crate%%:*} name=${crate#*:}
    if grep -q "^$folder/" <<<"$changed"; then
        names+=("$name")
        [[ $name == ringway-fuzz ]] || filter+="${filter:+ + }package($name)"
    fi
done
# Documents and sources are read by the tests of style.
filter+="${filter:+ + }(package(ringway-testbed) & binary(tidy))"
echo "changed: ${names[*]:-no crate}"

if ((${#names[@]})); then
    "$cargo" clippy --locked --workspace --all-targets -- -D warnings
fi
if "$cargo" nextest --version >/dev/null 2>&1; then
    "$cargo" nextest run --locked --profile quick -E "$filter"
else
    "$cargo" test --locked --package ringway-testbed --test tidy
    for name in "${names[@]}"; do
        "$cargo" test --locked --package "$name" --lib --bins
    done
fi
echo "quick: $(($(date +%s) - begin)) s"
