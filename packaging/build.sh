#!/usr/bin/env bash
# Builds the packages: ringway, ringway-node, ringway-authority, ringway-gate and ringway-dbgsym as
# .deb, and the program with its manual as .tar.gz, all in OUT.
#   PROGRAM   target/release/ringway, with ringway.debug beside it
#   OUT       target/packages
#   VERSION   of the packages; the workspace's with -1 behind it
#   FAST      not empty: larger packages in less time
set -euo pipefail
cd "$(dirname "$0")/.."
program=${PROGRAM:-target/release/ringway} out=${OUT:-target/packages}
export PATH=$PATH:$PWD/target/tools/bin
of=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
version=${VERSION:-$of-1}
die() { printf 'package: %s\n' "$*" >&2; exit 1; }

[[ -x $program ]] || die "$program is not there: run 'make release' first, or set PROGRAM"
cargo deb --version >/dev/null 2>&1 || die "cargo-deb is missing: ./setup.sh --package installs it"

# The oldest C library that has all that the program asks for. What the packages say has to hold.
stated=$(sed -n 's/^depends = ".*libc6 (>= \([0-9.]*\)).*/\1/p' crates/ringway/Cargo.toml)
needed=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -n 1)
newest=$(printf '%s\n%s\n' "$stated" "$needed" | sort -V | tail -n 1)
[[ $newest == "$stated" ]] ||
    die "$program needs glibc $needed and the packages promise $stated: build it on an older system (docs/decisions/092-packages.md)"

# What cargo-deb takes its files from (crates/ringway/Cargo.toml).
stage=target/packaging
rm -rf "$stage"
mkdir -p "$stage/scripts" "$stage/debug" "$out"
DESTDIR=$stage/root PREFIX=/usr PROGRAM=$program packaging/install.sh
if [[ -e $program.debug ]]; then
    cp "$program.debug" "$stage/debug/ringway.debug"
fi
date=$(date -R -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
printf 'ringway (%s) unstable; urgency=medium\n\n  * The changes are in CHANGELOG.md beside this file.\n\n -- %s  %s\n' \
    "$version" "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' crates/ringway/Cargo.toml)" "$date" >"$stage/changelog"
for service in node authority gate; do
    mkdir -p "$stage/scripts/$service"
    for script in packaging/debian/"$service"/*; do
        {
            printf '#!/bin/sh\nset -e\nUNIT=ringway-%s.service\nNAME=%s\n' "$service" "$service"
            cat packaging/debian/script.sh "$script"
        } >"$stage/scripts/$service/${script##*/}"
    done
done

deb() {
    cargo deb --offline --package ringway --no-build --no-strip --quiet ${FAST:+--fast} \
        --deb-version "$version" --output "$out/" "$@"
}
deb
for variant in node authority gate; do
    deb --variant "$variant"
done
if [[ -e $program.debug ]]; then
    deb --variant dbgsym
else
    echo "package: no $program.debug: the symbols are in the program, or nowhere" >&2
fi

# For systems without dpkg: services come by `ringway service install`.
name=ringway-$version-$(uname -m)-linux
rm -rf "$stage/$name"
DESTDIR=$stage/$name PREFIX=/usr/local SERVICES= PROGRAM=$program packaging/install.sh
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$date" -C "$stage" -czf "$out/$name.tar.gz" "$name"
if [[ -e $program.debug ]]; then
    cp "$program.debug" "$out/$name.debug"
fi
echo "packages are in $out:"
(cd "$out" && ls -s --block-size=K *"$version"*)
