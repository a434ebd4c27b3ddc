#!/usr/bin/env bash
# The long campaigns: what guards no promise alone and takes hours. Says at the end what ran, what
# failed and what was left out.
#   long.sh            all of them
#   long.sh PART...    only these of tests, model, fuzz, kernels, packages
set -uo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
parts=("$@")
((${#parts[@]})) || parts=(tests model fuzz kernels packages)
summary=() code=0

run() {
    local name=$1 begin
    shift
    begin=$(date +%s)
    if "$@"; then
        summary+=("$name: passed in $(($(date +%s) - begin)) s")
    else
        summary+=("$name: FAILED after $(($(date +%s) - begin)) s")
        code=1
    fi
}

for part in "${parts[@]}"; do
    case $part in
        # Tests that are ignored otherwise; each says in its reason why.
        tests)
            if "$cargo" nextest --version >/dev/null 2>&1; then
                run "ignored tests" "$cargo" nextest run --locked --profile long --run-ignored only
            else
                run "ignored tests" "$cargo" test --locked -- --ignored --test-threads 1
            fi
            ;;
        model) run "ring maintenance in larger scopes" make model ;;
        fuzz)
            if "$cargo" fuzz --version >/dev/null 2>&1; then
                run "every decoder fuzzed for a minute" make fuzz
            else
                summary+=("fuzzing: LEFT OUT: cargo-fuzz is missing (cargo install cargo-fuzz)")
            fi
            ;;
        kernels)
            if ((EUID == 0)); then
                run "the in-kernel path on Debian's kernels" make kernels
            else
                summary+=("kernels: LEFT OUT: the virtual machines are built as root")
            fi
            ;;
        packages)
            if ((EUID == 0)); then
                run "packages in whole systems" make release test-packages
            else
                summary+=("packages: LEFT OUT: systems are booted as root")
            fi
            ;;
        *)
            echo "long.sh: no part is called \`$part\`: tests, model, fuzz, kernels or packages" >&2
            exit 2
            ;;
    esac
done
printf '\n'
printf '%s\n' "${summary[@]}"
exit $code
