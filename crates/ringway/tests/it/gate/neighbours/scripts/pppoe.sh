# A line of PPPoE: 1492 bytes, and the MSS of connections clamped to it in the table `mangle`.
set -e
clamp="FORWARD -o $WAN -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu"
case $1 in
start)
    ip link set "$WAN" mtu 1492
    iptables -t mangle -A $clamp
    ;;
restart)
    # The line is dialled anew.
    counted=$(iptables-save -c -t mangle | grep -c '^\[[1-9].*TCPMSS' || true)
    iptables -t mangle -D $clamp
    ip link set "$WAN" down
    ip link set "$WAN" up
    iptables -t mangle -A $clamp
    # It clamped before, wherever ours stood, unless nothing has passed yet.
    [ "$counted" = 1 ] || ! iptables-save -t mangle | grep -q RINGWAY
    ;;
stop)
    iptables -t mangle -D $clamp
    ;;
esac
