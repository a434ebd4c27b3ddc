#!/usr/bin/env bash
# Builds the program of an earlier release, once, from this repository's history: the tests of
# upgrades (`upgrade::` of crates/ringway) put it beside this build. Four minutes; its own Cargo.lock
# counts. Where that cannot be had it says so and ends with 0: those tests are skipped then.
set -uo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
folder=${CARGO_TARGET_DIR:-$PWD/target}/older

# The release, and the last commit before the next one began.
release=0.2.0 commit=dc385d2faec2

program=$folder/ringway-$release
if [[ -x $program ]]; then
    echo "$program is there"
    exit 0
fi
skip() {
    echo "*** NOT BUILT: ringway $release: $1: tests of upgrades will be skipped" >&2
    exit 0
}
git cat-file -e "$commit^{commit}" 2>/dev/null ||
    skip "this clone lacks the commit $commit (a shallow one? git fetch --unshallow)"
work=$folder/work
rm -rf "$work" && mkdir -p "$work/source" || skip "no folder $work"
git archive "$commit" | tar -x -C "$work/source" || skip "git archive failed"
# Without line tables, and without what builds again faster: it is built once.
(
    cd "$work/source" &&
        CARGO_TARGET_DIR=$work/build CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
            RINGWAY_COMMIT="$(git -C "$OLDPWD" log -1 --abbrev=8 --format='%h %cs' "$commit")" \
            "$cargo" build --locked --package ringway
) || skip "the build failed"
strip -o "$program.new" "$work/build/debug/ringway" 2>/dev/null ||
    cp "$work/build/debug/ringway" "$program.new"
mv "$program.new" "$program" && rm -rf "$work"
echo "$program was built"
