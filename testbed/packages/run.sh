#!/usr/bin/env bash
# Installs, upgrades, removes and purges the packages in fresh systems of Debian and Ubuntu, with
# systemd inside (systemd-nspawn), where services, users and files are what inside.sh says.
#   run.sh [SUITE...]     bookworm, jammy and noble; needs root
#   PROGRAM               target/release/ringway
# What cannot be had here is named by a line with SKIPPED. The systems are kept in target/trees.
set -uo pipefail
cd "$(dirname "$0")/../.."
here=testbed/packages
trees=target/trees
skip() { printf 'SKIPPED: packages: %s\n' "$*" >&2; }
fail() { printf 'packages: %s\n' "$*" >&2; exit 1; }

((EUID == 0)) || { skip "needs root"; exit 0; }
for tool in debootstrap systemd-nspawn lintian dpkg-deb; do
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || { skip "$tool is missing (./setup.sh --package)"; exit 0; }
done
mkdir -p "$trees"

# The release before is this build with a lower number: what an upgrade does to files and services
# is the packages' own, whatever the program has learnt between.
of=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
before=$of-1 after=$of-2
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
for version in "$before" "$after"; do
    FAST=1 OUT=$packages VERSION=$version packaging/build.sh >"$packages/log" 2>&1 || { cat "$packages/log" >&2; fail "the packages could not be built"; }
done

# Errors fail; of warnings it is enough that they can be read.
lintian --allow-root --fail-on error --tag-display-limit 0 "$packages"/*"$after"*.deb || fail "lintian found errors"

# A system with systemd, made once.
tree() {
    local suite=$1 mirror script keyring=()
    case $suite in
        bookworm | trixie) mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian} script=sid ;;
        *) mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} script=gutsy ;;
    esac
    [[ ! -e $trees/$suite/ready ]] || return 0
    if [[ $script == gutsy && ! -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]]; then
        # What is in the tree runs nowhere but in its container.
        skip "the signature of $suite: no keyring of Ubuntu is here"
        keyring=(--no-check-gpg)
    fi
    rm -rf "${trees:?}/$suite"
    debootstrap "${keyring[@]}" --variant=minbase --include=systemd,systemd-sysv,dbus,iproute2,iptables \
        "$suite" "$trees/$suite" "$mirror" "/usr/share/debootstrap/scripts/$script" >"$trees/$suite.log" 2>&1 &&
        touch "$trees/$suite/ready"
}

failed=0
for suite in "${@:-bookworm jammy noble}"; do
    for suite in $suite; do
        if ! tree "$suite"; then
            skip "$suite cannot be had here: $(tail -n 1 "$trees/$suite.log")"
            continue
        fi
        system=$(mktemp -d "$trees/$suite.XXXX")
        cp -a "$trees/$suite/." "$system"
        mkdir "$system/root/packages"
        cp "$packages"/*.deb "$system/root/packages"
        cp "$here/inside.sh" "$system/root"
        cat >"$system/etc/systemd/system/inside.service" <<END
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=BEFORE=$before AFTER=$after
ExecStart=/bin/bash /root/inside.sh
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=append:/root/result
StandardError=append:/root/result
[Install]
WantedBy=default.target
END
        systemctl --root="$system" --quiet enable inside.service
        # Twice: what has to survive a reboot is looked at then. The time is for a system that hangs.
        for boot in first second; do
            timeout 900 systemd-nspawn --quiet --register=no --keep-unit --private-network --directory="$system" --boot \
                >"$system/root/console.$boot" 2>&1 </dev/null
            grep -q '^REBOOT$' "$system/root/result" 2>/dev/null || break
        done
        if grep -q '^PASSED$' "$system/root/result" 2>/dev/null; then
            printf '%s: %s\n' "$suite" "$(grep -c '^ok ' "$system/root/result") steps passed"
        else
            failed=1
            printf '%s: FAILED\n' "$suite" >&2
            cat "$system/root/result" >&2 || tail -n 30 "$system"/root/console.* >&2
        fi
        rm -rf "$system"
    done
done
exit $failed
