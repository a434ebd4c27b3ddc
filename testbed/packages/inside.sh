#!/bin/bash
# Runs in a booted system of its own: what an administrator does with the packages, and expects.
# Each step prints a line; the last one is PASSED. The system is booted twice: all that is between
# first_boot and the end of it, then the rest.
set -u
cd /root/packages || exit 1
export DEBIAN_FRONTEND=noninteractive HOME=/root

ok() { printf 'ok %s\n' "$*"; }
die() {
    printf 'FAILED %s\n' "$*"
    journalctl --no-pager -n 40 -u 'ringway-*'
    exit 1
}
# A condition that holds soon, or not at all.
until_true() {
    local what=$1 i
    shift
    for i in $(seq 300); do
        if "$@" >/dev/null 2>&1; then
            ok "$what"
            return
        fi
        sleep 0.2
    done
    "$@"
    die "$what"
}
holds() {
    local what=$1 output
    shift
    output=$("$@" 2>&1) && ok "$what" || die "$what: $output"
}
refused() {
    local what=$1
    shift
    if "$@" >/dev/null 2>&1; then die "$what"; else ok "$what"; fi
}
says() { # WHAT WORD COMMAND...
    local what=$1 word=$2 output
    shift 2
    output=$("$@" 2>&1)
    case $output in
        *"$word"*) ok "$what" ;;
        *) die "$what: no '$word' in: $output" ;;
    esac
}
# Less than 4.0 of 10. Ubuntu 22.04's has no option for that.
is_confined() {
    systemd-analyze security --no-pager "$1" | grep "Overall exposure level for $1: [0-3][.]"
}
mode() { stat -c '%a %U %G' "$1"; }
as() { runuser -u "$1" -- env -C "/home/$1" "${@:2}"; }
rules() { ip link show lan0 >/dev/null && iptables -t mangle -S; }

install_all() {
    dpkg -i --force-confdef --force-confold ringway_"$1"_*.deb ringway-node_"$1"_*.deb \
        ringway-authority_"$1"_*.deb ringway-gate_"$1"_*.deb
}

# Until its bus and its first units are there, systemd answers nothing.
ip link set lo up

first_boot() {
holds "installs" install_all "$BEFORE"
says "the program runs" "ringway" ringway --version
holds "the manual is there" test -e /usr/share/man/man1/ringway-gate-up.1.gz
holds "the completions are there" test -s /usr/share/bash-completion/completions/ringway
for unit in node authority gate; do
    holds "ringway-$unit.service verifies" systemd-analyze verify --man=no "ringway-$unit.service"
    holds "ringway-$unit.service is confined" is_confined "ringway-$unit.service"
done
says "the member begins with the system" enabled systemctl is-enabled ringway-node
says "the authority begins with the system" enabled systemctl is-enabled ringway-authority
says "the gateway does not" disabled systemctl is-enabled ringway-gate
refused "no gateway runs" systemctl is-active ringway-gate
refused "no member runs before it has joined" systemctl is-active ringway-node
says "the member's folder is its own" "710 ringway ringway" mode /var/lib/ringway
says "the ring's folder is its own" "700 ringway-authority ringway-authority" mode /var/lib/ringway-authority

# A ring on this machine, whose DNS has the port of DNS, and this machine in it: one command.
holds "founds a ring with a member" ringway ring init ring.test --dns 127.0.0.1:53 --enrol 127.0.0.1:7410 --member oslo
holds "the authority runs" systemctl is-active ringway-authority
holds "the member runs" systemctl is-active ringway-node
refused "nothing of the authority is root's" sh -c "find /var/lib/ringway-authority ! -user ringway-authority | grep ."
holds "invites" ringway ring invite lima --out /root/lima.invite

# People: one of the group, one not, and one with a member of his own.
for person in anna bert carl; do useradd --create-home "$person"; done
usermod -aG ringway anna
until_true "the group uses the member" as anna ringway status
refused "others do not" as bert ringway status
until_true "a person joins" sh -c "runuser -u carl -- env HOME=/home/carl ringway join --listen 127.0.0.1:7500 < /root/lima.invite"
systemd-run --quiet --unit=carl --uid=carl --setenv=HOME=/home/carl ringway node
until_true "the members know each other" as anna ringway ping lima --count 1
until_true "and carl's is his own" as carl env HOME=/home/carl ringway ping oslo --count 1
as carl sh -c 'echo for everybody > note.txt'
until_true "a file arrives" as carl env HOME=/home/carl ringway send note.txt oslo
says "the group reads the inbox" "for everybody" as anna cat /var/lib/ringway/inbox/note.txt
refused "others do not read it" as bert cat /var/lib/ringway/inbox/note.txt
refused "the group does not read the key" as anna cat /var/lib/ringway/identity.key
as anna sh -c 'umask 077; echo secret > letter.txt; chmod 700 .'
until_true "the group sends from homes" as anna ringway send letter.txt lima
says "as it was" secret cat /home/carl/.local/share/ringway/inbox/letter.txt

# A border of which nothing is expected but that it is watched.
ip link add lan0 type veth peer name wan0 && ip link set lan0 up && ip link set wan0 up
refused "a gateway without interfaces is refused" ringway gate check --config /etc/ringway/gate.toml
sed -i 's/^#inside/inside/; s/^#outside/outside/; s/^#leave/leave/' /etc/ringway/gate.toml
says "the configuration is checked" observes ringway gate check --config /etc/ringway/gate.toml
holds "starts the gateway" systemctl start ringway-gate
until_true "the gateway answers" ringway gate status
says "it observes" observing ringway gate status
says "its rules are there" RINGWAY rules

echo '# mine' >>/etc/ringway/node.toml
pid() { systemctl show --property=MainPID "ringway-$1"; }
declare -A old
for unit in node authority gate; do
    old[$unit]=$(pid $unit)
    holds "ringway-$unit reloads" systemctl reload "ringway-$unit"
    until_true "and is active" systemctl is-active "ringway-$unit"
    [ "$(pid $unit)" = "${old[$unit]}" ] && ok "as the same process" || die "ringway-$unit has ended"
done
for unit in node authority gate; do old[$unit]=$(pid $unit); done
holds "upgrades" install_all "$AFTER"
says "the configuration stays" '# mine' cat /etc/ringway/node.toml
for unit in node authority gate; do
    until_true "ringway-$unit runs again" systemctl is-active "ringway-$unit"
    [ "$(pid $unit)" != "${old[$unit]}" ] && ok "with the new program" || die "ringway-$unit was not restarted"
done
until_true "the member is who it was" as anna ringway status
until_true "the gateway answers again" ringway gate status
holds "the gateway begins with the system from now on" systemctl enable --quiet ringway-gate
}

if [ ! -e /root/booted ]; then
    first_boot
    touch /root/booted
    echo REBOOT
    exit 0
fi

# After a reboot all is there again, the gateway as soon as its interfaces are.
for unit in node authority; do until_true "ringway-$unit runs after a reboot" systemctl is-active "ringway-$unit"; done
until_true "the member is in its ring" as anna ringway status
ip link add lan0 type veth peer name wan0 && ip link set lan0 up && ip link set wan0 up
until_true "the gateway runs after a reboot" ringway gate status
says "its rules are there" RINGWAY rules

holds "removes" dpkg -r ringway-gate ringway-authority ringway-node
for unit in node authority gate; do refused "ringway-$unit has ended" systemctl is-active "ringway-$unit"; done
holds "the key stays" test -s /var/lib/ringway/identity.key
holds "the ring's key stays" test -s /var/lib/ringway-authority/root.key
holds "the configuration stays" test -e /etc/ringway/node.toml
case $(rules) in *RINGWAY*) die "rules of the gateway stay" ;; *) ok "no rule of the gateway stays" ;; esac
holds "installs again" install_all "$AFTER"
until_true "the member goes on" as anna ringway status

holds "purges" dpkg -P ringway-gate ringway-authority ringway-node ringway
for left in /var/lib/ringway /var/lib/ringway-authority /var/lib/ringway-gate /etc/ringway /usr/bin/ringway; do
    refused "$left is gone" test -e $left
done
echo PASSED
