#!/usr/bin/env bash
# Takes a program's symbols out into PROGRAM.debug beside it, where debuggers look for them.
#   strip.sh PROGRAM
set -euo pipefail
program=$1
if ! command -v objcopy >/dev/null 2>&1; then
    echo "objcopy is missing (Debian: binutils): $program keeps its symbols" >&2
    exit 0
fi
# A program that was stripped before has nothing left to take out.
if [[ $program.debug -nt $program ]]; then
    exit 0
fi
objcopy --only-keep-debug --compress-debug-sections "$program" "$program.debug"
objcopy --strip-all --add-gnu-debuglink="$program.debug" "$program"
touch "$program.debug"
printf '%s: %s, its symbols in %s.debug\n' "$program" "$(du -h "$program" | cut -f1)" "$program"
