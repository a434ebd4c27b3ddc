#!/usr/bin/env bash
# Shows that the gateway's in-kernel path holds on kernels other than this machine's: boots Debian's kernels in virtual machines
# whose root is this machine's own, read-only, and runs there `ringway gate doctor`, the in-kernel programs' tests and the tests at
# a border, also with modules of the kernel missing.
#
#     testbed/kernels/run.sh [SUITE...]
#
# SUITE is one of Debian's; its newest `linux-image-amd64` is taken from MIRROR. Needs root, and says what else is missing; KVM makes it fast. Nothing
# is installed; kernels and logs are kept in target/kernels, and nothing else is left.
#
# | file | does |
# |---|---|
# | `run.sh` | packages, kernels, machines, tables |
# | `init.sh` | the guest's first steps: the root |
# | `guest.sh` | what the guest is for |
set -euo pipefail

# 5.10 is older than what is promised (5.15), which Debian had in no release: what holds there and on 6.1 holds between.
suites=("$@")
((${#suites[@]})) || suites=(bullseye bookworm bookworm-backports trixie-backports)
mirror=${MIRROR:-http://deb.debian.org/debian}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
# Without any of these the in-kernel path has to say so, and user space to take over.
without="xt_bpf cls_bpf sch_ingress"
# Seconds for a guest, all its tests together.
patience=7200

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
store=$root/target/kernels
guest=
machine=()

say() { printf 'kernels: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# A machine that still runs ends with this script.
# shellcheck disable=SC2317 # by the trap
cleanup() {
    if [[ -n $guest ]]; then kill "$guest" 2>/dev/null || true; fi
    rm -rf "$store"/*/apt "$store"/*/initramfs "$store"/*/initrd
}
trap cleanup EXIT

# Says everything that is missing at once.
check_needs() {
    local need command package missing=()
    ((EUID == 0)) || die "network namespaces and programs of the kernel take root"
    [[ $(uname -m) == x86_64 ]] || die "the kernels are those of amd64, this machine is $(uname -m)"
    for need in qemu-system-x86_64:qemu-system-x86 apt-get:apt dpkg-deb:dpkg cpio:cpio xz:xz-utils ip:iproute2 ethtool:ethtool nft:nftables iptables:iptables \
        "$keys:debian-archive-keyring"; do
        command=${need%%:*} package=${need#*:}
        [[ -e $command ]] || PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null 2>&1 || missing+=("$package")
    done
    ((${#missing[@]} == 0)) || die "missing: apt-get install --no-install-recommends ${missing[*]}"
}

# Builds the program and its tests; sets the paths that guests are told.
build() {
    local log
    log=$(mktemp)
    say "building the program and its tests"
    if ! "${CARGO:-cargo}" test --locked --no-run --manifest-path "$root/Cargo.toml" --package ringway --package ringway-gateway 2> >(tee "$log" >&2); then
        rm -f "$log"
        die "the tests cannot be built"
    fi
    # `Executable PLACE (FILE)`, the latter relative to the workspace.
    executable() { sed -n "s|^ *Executable $1 (\(.*$2-[0-9a-f]*\))\$|\1|p" "$log" | head -n 1; }
    border_tests=$(executable tests/it/main.rs deps/it)
    program_tests=$(executable 'unittests src/lib.rs' deps/ringway_gateway)
    program=$(dirname "$(dirname "$border_tests")")/ringway
    rm -f "$log"
    local name
    for name in border_tests program_tests program; do
        declare -g "$name=$(cd "$root" && realpath "${!name}")"
        [[ -x ${!name} ]] || die "the build left no ${!name}"
    done
}

# choose FOLDER: how machines are had. A kernel without a root ends at once, but not where KVM is there and no kernel gets on by it, as
# within some virtual machines.
choose() {
    local common=(-nodefaults -no-user-config -no-reboot -display none)
    machine=("${common[@]}" -machine q35 -accel kvm -cpu "host,arch-capabilities=off" -smp 2)
    if [[ -w /dev/kvm ]] && timeout 30 qemu-system-x86_64 "${machine[@]}" -m 512 -kernel "$1/vmlinuz" -append panic=-1 \
        </dev/null >/dev/null 2>&1; then
        return
    fi
    say "KVM is not there or does not work: the machines are emulated, which takes some ten minutes each"
    machine=("${common[@]}" -machine q35 -accel tcg -cpu "max,la57=off" -smp 2)
}

# fetch SUITE FOLDER: the packages of its kernel, by an apt of their own that knows nothing else.
fetch() {
    local suite=$1 folder=$2 apt=$2/apt name image packages
    mkdir -p "$apt"/lists/partial "$apt"/archives/partial
    : >"$apt/status"
    # A suite of backports has only those; busybox comes from what it builds upon.
    for name in "${suite%-backports}" "$suite"; do
        echo "deb [arch=amd64 signed-by=$keys] $mirror $name main"
    done | uniq >"$apt/sources.list"
    local options=(-q -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt"
        -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
        -o "APT::Default-Release=$suite" -o APT::Architecture=amd64 -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update >"$folder/apt.log" 2>&1 || return 1
    # The newest of each; recent kernels are cut into several packages.
    image=$(apt-cache "${options[@]}" depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [[ -n $image ]] || return 1
    mapfile -t packages < <(apt-cache "${options[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances "$image" | grep -E '^linux-(image|binary|modules)-[0-9]' | sort -u)
    # What initramfs and guest have of programs that need nothing else; its version does not matter.
    (cd "$folder" && apt-get "${options[@]}" download "${packages[@]}" busybox-static >>apt.log 2>&1)
}

# unpack FOLDER: what a guest needs of the packages: kernel, modules of networks, busybox.
unpack() {
    local folder=$1 package version
    for package in "$folder"/linux-*.deb; do
        # Not each of them has each of these.
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --wildcards --exclude '*/kernel/sound' --exclude '*/drivers/gpu' \
            --exclude '*/drivers/media' --exclude '*/drivers/net/ethernet' --exclude '*/drivers/net/wireless' \
            './boot/vmlinuz-*' './*lib/modules/*' 2>/dev/null || true
    done
    if [[ -d $folder/usr/lib/modules ]]; then
        mkdir -p "$folder/lib" && mv "$folder/usr/lib/modules" "$folder/lib/modules"
    fi
    version=$(basename "$folder"/lib/modules/*)
    mv "$folder"/boot/vmlinuz-* "$folder/vmlinuz" 2>/dev/null || mv "$folder/lib/modules/$version/vmlinuz" "$folder/vmlinuz"
    dpkg-deb --fsys-tarfile "$folder"/busybox-static_*.deb | tar -x -C "$folder" --wildcards '*bin/busybox'
    find "$folder" -path '*bin/busybox' -exec mv {} "$folder/busybox" \;
    find "$folder/lib/modules" -name '*.ko.xz' -print0 | xargs -0 -r -n 100 xz -d
    "$folder/busybox" depmod -b "$folder" "$version"
    # The packages themselves, and what is empty now.
    rm -rf "${folder:?}"/*.deb "${folder:?}"/{boot,bin,usr}
}

# initramfs FOLDER: busybox, the modules that the root takes, and the first steps.
initramfs() {
    local folder=$1 tree=$1/initramfs modules module
    modules=$(echo "$folder"/lib/modules/*)
    rm -rf "$tree"
    mkdir -p "$tree/bin" "$tree/modules"
    cp "$folder/busybox" "$tree/bin/busybox"
    cp "$here/init.sh" "$tree/init"
    chmod +x "$tree/init"
    # In the order in which they can be loaded; what is no module is in the kernel.
    for module in virtio_pci 9pnet_virtio 9p overlay; do
        awk -F: -v "wanted=/$module.ko" 'substr($1, length($1) - length(wanted) + 1) == wanted {
            n = split($2, needs, " "); for (i = n; i > 0; i--) print needs[i]; print $1 }' \
            "$modules/modules.dep"
    done | awk '!seen[$0]++' | while read -r module; do
        cp "$modules/$module" "$tree/modules/"
        basename "$module"
    done >"$tree/modules/order"
    (cd "$tree" && find . | cpio --quiet -o -H newc) >"$folder/initrd"
}

# boot FOLDER: runs the guest to its end.
boot() {
    local folder=$1 results=$1/results
    rm -rf "$results"
    mkdir -p "$results"
    printf '%s\n' "$folder" "$program" "$program_tests" "$border_tests" "$root/crates" "$without" >"$results/settings"
    timeout "$patience" qemu-system-x86_64 "${machine[@]}" -m 2048 -kernel "$folder/vmlinuz" -initrd "$folder/initrd" \
        -append "console=ttyS0 quiet panic=-1 ringway.guest=$here" \
        -netdev hubport,id=card0,hubid=0 -device virtio-net-pci,netdev=card0,romfile= \
        -netdev hubport,id=card1,hubid=0 -device virtio-net-pci,netdev=card1,romfile= \
        -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=root,mount_tag=root \
        -fsdev "local,id=results,path=$results,security_model=none" -device virtio-9p-pci,fsdev=results,mount_tag=results \
        -serial "file:$folder/console.log" </dev/null >"$folder/qemu.log" 2>&1 &
    guest=$!
    wait "$guest" || true
    guest=
    [[ -e $results/done ]]
}

# counts LOG: how many tests passed, failed, and were not tested; nothing if it did not get to its end.
counts() {
    local passed failed skipped
    read -r passed failed < <(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$1" 2>/dev/null) || return 0
    skipped=$(grep -c -E '(SKIPPED|\*\*\* NOT TESTED): ' "$1") || true
    echo "$((passed - skipped)) $failed $skipped"
}

# row WHAT LOG MAY_SKIP [MORE]: a part's line; one that is not as it should be says so.
row() {
    local passed failed skipped wrong=
    read -r passed failed skipped < <(counts "$2") || true
    if [[ -z $passed ]] || ((failed || passed + skipped == 0 || (skipped && !$3))); then
        wrong=' <-- wrong'
        faults=$((faults + 1))
    fi
    printf '%-32s %s passed, %s failed, %s not tested%s%s\n' "$1" "${passed:-?}" "${failed:-?}" "${skipped:-?}" "${4:-}" "$wrong"
}

# lacking LOG: what the in-kernel path cannot do without.
lacking() {
    missing <(grep '"optional":false' "$1" 2>/dev/null)
}

# missing LOG: what the doctor misses, by its names.
missing() {
    sed -n 's/.*"name":"\([^"]*\)".*"missing":".*/\1/p' "$1" 2>/dev/null | paste -s -d ',' | sed 's/,/, /g' || true
}

# tell SUITE FOLDER: what a guest found, part by part. What the doctor misses need not be tested; where it misses nothing all is.
tell() {
    local suite=$1 results=$2/results lacks module found
    lacks=$(lacking "$results/doctor-json.log")
    printf '\n== Linux %s (%s)\n\n' "$(cat "$results/release" 2>/dev/null || echo '?')" "$suite"
    cat "$results/doctor.log" 2>/dev/null || true
    echo
    row "programs beside their model" "$results/program.log" "${#lacks}"
    row "border, --path kernel" "$results/border.log" "${#lacks}"
    row "border, --path auto" "$results/auto.log" 0
    for module in $without; do
        found=$(missing "$results/doctor-json-without-$module.log")
        row "the same without $module" "$results/auto-without-$module.log" 0 "; doctor misses ${found:-nothing}"
        [[ -n $found ]] || faults=$((faults + 1))
    done
}

check_needs
build
faults=0
for suite in "${suites[@]}"; do
    folder=$store/$suite
    if [[ ! -e $folder/unpacked ]]; then
        say "$suite: fetching its kernel from $mirror"
        rm -rf "$folder"
        mkdir -p "$folder"
        if ! fetch "$suite" "$folder"; then
            say "$suite: it cannot be had: $(tail -n 2 "$folder/apt.log")"
            faults=$((faults + 1))
            continue
        fi
        unpack "$folder"
        touch "$folder/unpacked"
    fi
    initramfs "$folder"
    ((${#machine[@]})) || choose "$folder"
    say "$suite: $(basename "$folder"/lib/modules/*) at work"
    boot "$folder" || say "$suite: the guest did not get to its end: $folder/console.log"
    tell "$suite" "$folder"
done
((faults == 0)) || die "$faults faults; the logs are in $store/*/results"
