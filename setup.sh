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

# What `make test` can do without: the tests that build networks say loudly that they are skipped.
useful=()
for need in ip:iproute2 nft:nftables; do
    command=${need%%:*} package=${need#*:}
    if PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null 2>&1; then
        say "$command is there"
    else
        useful+=("$package")
    fi
done

# Installs packages; on failure `why` says what to do about it.
install() {
    local as_root=() log
    if ! command -v apt-get >/dev/null 2>&1; then
        why="this is no Debian or Ubuntu, install them with your package manager"
        return 1
    fi
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null 2>&1; then
            why="run 'apt-get install $*' as root"
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing $*"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        why="apt-get could not install them: $(tail -n 3 "$log")"
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

if ((${#missing[@]})); then
    install "${missing[@]}" || die "missing: ${missing[*]}; $why"
fi
if ((${#useful[@]})); then
    install "${useful[@]}" || say "without ${useful[*]}: the tests that build networks will be skipped; $why"
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
