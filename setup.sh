#!/usr/bin/env bash
# Installs what Ringway's build needs and this machine lacks; with --tests also what the tests use, with --bench also peers of the
# benchmarks, with --package what packages are built and tested with. Safe to run again and again.
# Debian 12 and Ubuntu 24.04; uses sudo when not root. Changes nothing else.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# name of the command to look for : Debian package that has it
needs=(cc:gcc make:make)

missing=()
for need in "${needs[@]}"; do
    command=${need%%:*} package=${need#*:}
    if command -v "$command" >/dev/null 2>&1; then
        say "$command is there"
    else
        missing+=("$package")
    fi
done
# The C library's headers, which SQLite and the cryptography are compiled against.
if ! printf '#include <stdlib.h>\n' | "${CC:-cc}" -E - >/dev/null 2>&1; then
    missing+=(libc6-dev)
fi

# What the in-kernel path of the gateway is compiled with; without them the build leaves it out and says so.
optional=()
command -v "${CLANG:-clang}" >/dev/null 2>&1 && say "clang is there" || optional+=(clang)
[[ -e /usr/include/bpf/bpf_helpers.h ]] && say "libbpf's headers are there" || optional+=(libbpf-dev)

# What the tests can do without: those that need it say loudly that they are skipped. Docker, 65 MB to fetch, is tested beside
# where it is there (docker.io); the other neighbours of the gateway are 8 MB together.
useful=() servers=()
if [[ ${1:-} == --tests || ${1:-} == --bench ]]; then
    peers=()
    if [[ $1 == --bench ]]; then
        peers=(rsync:rsync socat:socat haproxy:haproxy squid:squid c-icap:c-icap /usr/share/doc/libc-icap-mod-virus-scan:libc-icap-mod-virus-scan ndpiReader:libndpi-bin)
    fi
    for need in "${peers[@]}" ip:iproute2 ethtool:ethtool nft:nftables iptables:iptables clamd:clamav-daemon /usr/share/clamav-testfiles/clam.exe:clamav-testfiles miniupnpd:miniupnpd-nftables python3:python3 nginx:nginx-light curl:curl logrotate:logrotate tcpdump:tcpdump postfix:postfix dovecot:dovecot-imapd /usr/lib/dovecot/pop3:dovecot-pop3d procmail:procmail knotd:knot kdig:knot-dnsutils unbound:unbound named:bind9 sshd:openssh-server pg_createcluster:postgresql iperf3:iperf3 \
        transmission-daemon:transmission-daemon transmission-create:transmission-cli aria2c:aria2 wireguard-go:wireguard-go wg:wireguard-tools amuled:amule-daemon alcc:amule-utils \
        eiskaltdcpp-daemon:eiskaltdcpp-daemon uhub:uhub ngircd:ngircd irssi:irssi prosody:prosody \
        prometheus:prometheus fever:fever \
        ufw:ufw firewall-cmd:firewalld fail2ban-client:fail2ban /usr/lib/podman/netavark:netavark libvirtd:libvirt-daemon-system virsh:libvirt-clients dnsmasq:dnsmasq-base; do
        command=${need%%:*} package=${need#*:}
        if [[ $command == /* && -e $command ]] || PATH=$PATH:/usr/sbin:/sbin command -v "$command" >/dev/null 2>&1; then
            say "$command is there"
        elif [[ $package =~ ^(nginx|postfix|dovecot|procmail|knot|unbound|bind9|clamav|transmission-daemon|amule-daemon|eiskaltdcpp|uhub|ngircd|prosody|prometheus|fever|ufw|firewalld|fail2ban|libvirt-daemon|openssh-server|postgresql|haproxy|squid|c-icap|libc-icap) ]]; then
            servers+=("$package")
        else
            useful+=("$package")
        fi
    done
fi
if [[ ${1:-} == --package ]]; then
    for need in objcopy:binutils lintian:lintian debootstrap:debootstrap systemd-nspawn:systemd-container systemd-analyze:systemd; do
        command -v "${need%%:*}" >/dev/null 2>&1 && say "${need%%:*} is there" || useful+=("${need#*:}")
    done
fi
# Another Python may stand before the system's, which is the one that apt installs for.
if [[ ${1:-} == --tests || ${1:-} == --bench ]]; then
    for module in libtorrent slixmpp; do
        /usr/bin/python3 -c "import $module" 2>/dev/null || useful+=("python3-$module")
    done
fi

# Installs packages; on failure `why` says what to do about it.
install() {
    local as_root=() log
    if ! command -v apt-get >/dev/null 2>&1; then
        why="this is no Debian or Ubuntu, install them with your package manager"
        return 1
    fi
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null 2>&1; then
            why="run 'apt-get install $*' as root"
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing $*"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        why="apt-get could not install them: $(tail -n 3 "$log")"
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

if ((${#optional[@]})); then
    install "${optional[@]}" || say "the gateway will be built without its in-kernel path: ${optional[*]} missing; $why"
fi
if ((${#missing[@]})); then
    install "${missing[@]}" || die "missing: ${missing[*]}; $why"
fi
if ((${#useful[@]})); then
    install "${useful[@]}" || say "without ${useful[*]} some tests, packages or measurements will be skipped; $why"
fi
# The tests run these servers themselves, in folders of their own and some only as root. Nobody else needs them, so they do not start.
if ((${#servers[@]})); then
    if ((EUID != 0)); then
        say "without ${servers[*]} some tests will be skipped; run this as root to install them"
    else
        policy=/usr/sbin/policy-rc.d
        if [[ ! -e $policy ]]; then
            printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
            trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        fi
        if install "${servers[@]}"; then
            # Only those installed just now: one that was there before may be in use.
            for package in "${servers[@]}"; do
                case $package in
                    nginx*) service=nginx ;;
                    dovecot*) service=dovecot ;;
                    bind9) service=named ;;
                    openssh-server) service=ssh ;;
                    libvirt-daemon-system) service=libvirtd ;;
                    *) service=$package ;;
                esac
                systemctl disable "$service" >/dev/null 2>&1 || true
            done
        else
            say "without ${servers[*]} some tests will be skipped; $why"
        fi
    fi
fi

command -v cargo >/dev/null 2>&1 ||
    die "no Rust toolchain: install one as https://rustup.rs says, then run this again"
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/Cargo.toml")
found=$(cargo --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)
[[ $oldest == "$wanted" ]] || die "Rust $found is too old, $wanted or newer is needed: run 'rustup update stable'"
say "Rust $found is there"
for part in fmt clippy; do
    cargo "$part" --version >/dev/null 2>&1 || {
        command -v rustup >/dev/null 2>&1 || die "cargo $part is missing: install your toolchain's $part component"
        say "adding the toolchain's $part component"
        rustup component add "${part/fmt/rustfmt}" >/dev/null || die "rustup could not add $part"
    }
done

# Tools of the tests that are no Debian packages: the runner, and the look at licences and
# advisories. Without them `cargo test` runs the tests, and that look is left out, loudly.
tool() {
    local name=$1 version=$2
    if cargo "${name#cargo-}" --version >/dev/null 2>&1; then
        say "$name is there"
        return
    fi
    say "building $name $version (two minutes)"
    local log
    log=$(mktemp)
    # Built quickly rather than to be quick: what they start takes the time.
    if ! CARGO_PROFILE_DEV_DEBUG=0 cargo install "$name" --version "$version" --locked --debug "${@:3}" >"$log" 2>&1; then
        say "$name could not be built: $(tail -n 1 "$log")"
    fi
    rm -f "$log"
}
if [[ ${1:-} == --package ]]; then
    tool cargo-deb 3.8.0
fi
if [[ ${1:-} == --tests ]]; then
    tool cargo-nextest 0.9.151 --no-default-features --features default-no-update
    tool cargo-deny 0.20.2
fi
say "everything is there"
