#!/usr/bin/env bash
# Puts a built Ringway into a tree: program, manual, completions, documentation, units, users,
# folders, and configuration where there is none. `make install` and the packages call it.
#   DESTDIR      the tree, empty for this machine
#   PREFIX       /usr/local, or /usr for packages of a distribution
#   SYSCONFDIR   /etc
#   PROGRAM      target/release/ringway; it is run to write the manual and the completions
#   SERVICES     "node authority gate", or some of them, or "" for the program alone
set -euo pipefail
cd "$(dirname "$0")/.."
dest=${DESTDIR:-} prefix=${PREFIX:-/usr/local} sysconfdir=${SYSCONFDIR:-/etc}
program=${PROGRAM:-target/release/ringway}
services=${SERVICES-node authority gate}
[[ -x $program ]] || {
    echo "install: $program is not there: run 'make release' first, or set PROGRAM" >&2
    exit 1
}
here=$dest$prefix

put() { install -D -m "$1" "$2" "$3"; }

put 755 "$program" "$here/bin/ringway"

# No file of a manual names the time at which it was compressed: two builds are alike.
manual=$here/share/man/man1
mkdir -p "$manual"
"$program" --quiet man --dir "$manual"
gzip -9nf "$manual"/ringway*.1

completions() {
    mkdir -p "$(dirname "$2")"
    "$program" completions "$1" >"$2"
}
completions bash "$here/share/bash-completion/completions/ringway"
completions fish "$here/share/fish/vendor_completions.d/ringway.fish"
# Debian's shell looks for what packages bring in a folder of its own.
zsh=site-functions
[[ $prefix != /usr || ! -e /etc/debian_version ]] || zsh=vendor-completions
completions zsh "$here/share/zsh/$zsh/_ringway"

docs=$here/share/doc/ringway
for page in README.md SECURITY.md CHANGELOG.md; do
    put 644 "$page" "$docs/$page"
done
for folder in tutorial how-to reference explanation; do
    (cd docs && find "$folder" -name '*.md') | while read -r page; do
        put 644 "docs/$page" "$docs/docs/$page"
    done
done
for file in contrib/grafana/ringway-gate.json contrib/prometheus/ringway.rules.yml; do
    put 644 "$file" "$docs/$file"
done

for service in $services; do
    unit=ringway-$service.service
    for kind in system user; do
        from=packaging/systemd/$unit
        [[ $kind == system ]] || from=packaging/systemd/user/$unit
        [[ -e $from ]] || continue
        put 644 "$from" "$here/lib/systemd/$kind/$unit"
        sed -i "s#/usr/bin/ringway#$prefix/bin/ringway#; s#/etc/ringway#$sysconfdir/ringway#" \
            "$here/lib/systemd/$kind/$unit"
    done
    for kind in sysusers tmpfiles; do
        from=packaging/$kind.d/ringway-$service.conf
        [[ ! -e $from ]] || put 644 "$from" "$here/lib/$kind.d/ringway-$service.conf"
    done
    files=("$service.toml")
    if [[ $service == gate ]]; then
        files+=(border.toml)
        put 644 contrib/logrotate/ringway-gate "$dest$sysconfdir/logrotate.d/ringway-gate"
    fi
    for file in "${files[@]}"; do
        # What the administrator has written stays.
        to=$dest$sysconfdir/ringway/$file
        [[ -e $to ]] || put 644 "packaging/etc/$file" "$to"
        put 644 "packaging/etc/$file" "$docs/etc/$file"
    done
done

[[ -z $dest && -n $services ]] || exit 0
cat <<END
Installed below $prefix. Users and folders of the services:
  systemd-sysusers $prefix/lib/sysusers.d/ringway-*.conf
  systemd-tmpfiles --create $prefix/lib/tmpfiles.d/ringway-*.conf
  systemctl daemon-reload
END
