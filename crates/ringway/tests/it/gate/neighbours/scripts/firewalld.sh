# firewalld: zones inside and outside, a policy from one to the other, one port refused. `--reload`
# flushes iptables' tables of all others, as it comes (FlushAllOnReload).
set -e
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/bus.sock
ready() {
    for try in $(seq 120); do
        firewall-cmd --state && return
        sleep 0.5
    done
    cat /run/firewalld.log
    return 1
}
begin() {
    firewalld --nofork --nopid > /run/firewalld.log 2>&1 &
    echo $! > /run/firewalld.number
    ready
}
end() {
    number=$(cat /run/firewalld.number)
    kill "$number"
    while kill -0 "$number" 2> /dev/null; do sleep 0.1; done
}
case $1 in
start)
    cat > /run/bus.conf << BUS
<busconfig><type>system</type><listen>unix:path=/run/bus.sock</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
BUS
    [ -e /run/bus.sock ] || dbus-daemon --config-file=/run/bus.conf --fork --nopidfile
    begin
    if [ ! -e /run/configured ]; then
        cross="firewall-cmd --permanent --policy cross"
        firewall-cmd --permanent --new-policy cross
        $cross --add-ingress-zone=internal
        $cross --add-egress-zone=external
        $cross --set-target=ACCEPT
        $cross --add-rich-rule="rule family=ipv4 port port=8009 protocol=tcp reject"
        firewall-cmd --permanent --zone=internal --add-interface="$LAN"
        firewall-cmd --permanent --zone=external --add-interface="$WAN"
        touch /run/configured
    fi
    firewall-cmd --reload
    ;;
restart)
    firewall-cmd --reload
    firewall-cmd --complete-reload
    end
    begin
    ;;
stop)
    end
    ;;
esac
