#!/usr/bin/env bash
# The ten slowest tests of a run, from the report that cargo-nextest writes.
#   slowest.sh JUNIT.xml
set -euo pipefail
[[ -e $1 ]] || exit 0
echo "the ten slowest tests:"
grep -o '<testcase [^>]*' "$1" |
    sed -E 's/.* name="([^"]*)".* classname="([^"]*)".* time="([^"]*)".*/\3 \2 \1/; s/.* name="([^"]*)".* time="([^"]*)".*/\2 \1/' |
    sort -rn | head -n 10 | awk '{ printf "%7.1f s  %s\n", $1, substr($0, length($1) + 2) }'
