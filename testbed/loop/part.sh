#!/usr/bin/env bash
# Runs one part of `make test`, says how long it took, and keeps that for the summary at the end.
#   part.sh NAME COMMAND...   runs it
#   part.sh --begin           forgets the parts of the run before
#   part.sh --summary         prints all parts and their sum
set -uo pipefail
cd "$(dirname "$0")/../.."
times=target/loop/parts.tsv
mkdir -p target/loop

case ${1:-} in
    --begin)
        : >"$times"
        exit 0
        ;;
    --summary)
        echo
        awk -F'\t' '{ printf "%-12s %5d s\n", $1, $2; sum += $2 } END { printf "%-12s %5d s\n", "together", sum }' "$times"
        exit 0
        ;;
esac

name=$1
shift
begin=$(date +%s)
"$@"
code=$?
printf '%s\t%d\n' "$name" $(($(date +%s) - begin)) >>"$times"
printf '%s: %d s\n' "$name" $(($(date +%s) - begin))
exit $code
