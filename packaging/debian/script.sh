# The parts of the maintainer scripts that are alike, put in front of each by build.sh, as debhelper
# puts its own. UNIT is the service of the package, NAME its part after "ringway-".

# Users and folders. A tree without systemd's tools says so: the service could not run there either.
make_users_and_folders() {
    for tool in sysusers tmpfiles; do
        file=/usr/lib/$tool.d/ringway-$NAME.conf
        [ -e "$file" ] || continue
        case $tool in
            sysusers) systemd-sysusers "$file" ;;
            tmpfiles) systemd-tmpfiles --create "$file" || true ;;
        esac
    done
}

# Enabled at the first installation, unless the administrator has said otherwise since.
enable_unit() {
    deb-systemd-helper unmask "$UNIT" >/dev/null || true
    if deb-systemd-helper --quiet was-enabled "$UNIT"; then
        deb-systemd-helper enable "$UNIT" >/dev/null || true
    else
        deb-systemd-helper update-state "$UNIT" >/dev/null || true
    fi
}

# Only where systemd runs: in a tree that is being built nothing is started.
reload_systemd() {
    [ ! -d /run/systemd/system ] || systemctl --system daemon-reload >/dev/null || true
}

invoke() {
    [ ! -d /run/systemd/system ] || deb-systemd-invoke "$1" "$UNIT" >/dev/null || true
}
