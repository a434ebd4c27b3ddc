#!/bin/busybox sh
# shellcheck shell=dash
# What a guest runs first, from its initramfs: this machine's root, read-only, with what is written kept in memory.
set -eu

# Shows why nothing comes, and ends: the machine outside waits for that.
ended() {
    echo "init: the guest could not be set up"
    busybox poweroff -f
}
trap ended EXIT

busybox mkdir -p /proc /sys /dev /share /memory /new
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
while read -r module; do
    busybox insmod "/modules/$module"
done </modules/order
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 root /share
busybox mount -t tmpfs -o size=1g memory /memory
busybox mkdir /memory/upper /memory/work
busybox mount -t overlay -o lowerdir=/share,upperdir=/memory/upper,workdir=/memory/work root /new
for place in proc sys dev; do
    busybox mount --move "/$place" "/new/$place"
done
guest=$(busybox sed -n 's/.*ringway\.guest=\([^ ]*\).*/\1/p' /new/proc/cmdline)
trap - EXIT
exec busybox switch_root /new /bin/bash "$guest/guest.sh"
