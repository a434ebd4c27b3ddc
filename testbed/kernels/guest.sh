#!/usr/bin/env bash
# What a guest does: the doctor, the tests, and the tests again with parts of the kernel missing. Each part leaves a log and its exit
# code in the folder of results, which is this machine's; `run.sh` reads them.
set -euo pipefail

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root RUST_BACKTRACE=0
# Seconds after which a part that hangs ends; the slowest takes a quarter of it where the machine is emulated.
patience=1800
results=/run/results

# The guest ends in any case.
trap '/run/busybox poweroff -f' EXIT

mount -t tmpfs -o mode=0755 run /run
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
mkdir /run/results
mount -t 9p -o trans=virtio,version=9p2000.L,access=any,msize=524288 results "$results"
{
    read -r kernel
    read -r program
    read -r program_tests
    read -r border_tests
    read -r crates
    read -r without
} <"$results/settings"

cp "$kernel/busybox" /run/busybox
ln -s busybox /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
modules=/lib/modules/$(uname -r)
mkdir -p "$modules"
mount --bind "$kernel/lib/modules/$(uname -r)" "$modules"
# Modules that are there on a machine that does such things; nobody asks for them by need.
/run/modprobe tun
/run/modprobe br_netfilter
/run/modprobe virtio_net
ip link set lo up
# Two cards that are cabled with each other, by names that no namespace of the tests has.
cards=()
for place in /sys/class/net/*/device; do
    name=card${#cards[@]}
    ip link set "$(basename "$(dirname "$place")")" name "$name"
    cards+=("$name")
done
export RINGWAY_GATE_CARDS="${cards[*]}"
uname -r >"$results/release"

# part NAME FOLDER COMMAND...: runs it there.
part() {
    local name=$1 folder=$2 code=0
    shift 2
    echo "guest: $name"
    (cd "$folder" && timeout "$patience" "$@") >"$results/$name.log" 2>&1 </dev/null || code=$?
    echo "$code" >"$results/$name.code"
}

# examine SUFFIX TESTS: what the doctor finds, and whether a border works that does without what is missing.
examine() {
    part "doctor$1" / "$program" gate doctor
    part "doctor-json$1" / "$program" --json gate doctor
    RINGWAY_GATE_PATH=auto part "auto$1" "$crates/ringway" "$border_tests" "$2"
}

# hide MODULE: the kernel cannot load it; nobody has yet, or no longer needs it.
hide() {
    local file
    file=$(find "$modules" -name "$1.ko" | head -n 1)
    /run/busybox rmmod "$1" 2>/dev/null || true
    if [[ -z $file ]] || grep -q "^$1 " /proc/modules; then
        return 1
    fi
    mv "$file" "$file.hidden"
}

show() {
    local file
    file=$(find "$modules" -name "$1.ko.hidden" | head -n 1)
    mv "$file" "${file%.hidden}"
}

for module in $without; do
    if hide "$module"; then
        examine "-without-$module" gate::resets::a_blocked
        show "$module"
    else
        echo "guest: $module cannot be hidden"
    fi
done
examine "" gate::resets
part border "$crates/ringway" "$border_tests" gate::kernel
part program "$crates/gateway" "$program_tests" kernel::tests
# What the kernel itself complained of.
dmesg -l emerg,alert,crit,err,warn >"$results/dmesg.log" 2>&1 || true
touch "$results/done"
