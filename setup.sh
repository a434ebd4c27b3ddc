#!/usr/bin/env bash
# Installs what Ringway's build and tests need and this machine lacks. Safe to run again and again.
# Debian 12 and Ubuntu 24.04; uses sudo when not root. Changes nothing else.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# name of the command to look for : Debian package that has it
needs=(cc:gcc make:make)

missing=()
for need in "${needs[@]}"; do
    command=${need%%:*} package=${need#*:}
    if command -v "$command" >/dev/null 2>&1; then
        say "$command is there"
    else
        missing+=("$package")
    fi
done
# The C library's headers, which SQLite and the cryptography are compiled against.
if ! printf '#include <stdlib.h>\n' | "${CC:-cc}" -E - >/dev/null 2>&1; then
    missing+=(libc6-dev)
fi

if ((${#missing[@]})); then
    command -v apt-get >/dev/null 2>&1 ||
        die "missing: ${missing[*]}; this is no Debian or Ubuntu, install them with your package manager"
    as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null 2>&1 || die "missing: ${missing[*]}; run 'apt-get install ${missing[*]}' as root"
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    export DEBIAN_FRONTEND=noninteractive
    if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 3 "$log" >&2
        die "apt-get could not install ${missing[*]}; the lines above say why"
    fi
fi

command -v cargo >/dev/null 2>&1 ||
    die "no Rust toolchain: install one as https://rustup.rs says, then run this again"
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/Cargo.toml")
found=$(cargo --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)
[[ $oldest == "$wanted" ]] || die "Rust $found is too old, $wanted or newer is needed: run 'rustup update stable'"
say "Rust $found is there"
for part in fmt clippy; do
    cargo "$part" --version >/dev/null 2>&1 || {
        command -v rustup >/dev/null 2>&1 || die "cargo $part is missing: install your toolchain's $part component"
        say "adding the toolchain's $part component"
        rustup component add "${part/fmt/rustfmt}" >/dev/null || die "rustup could not add $part"
    }
done
say "everything is there"
