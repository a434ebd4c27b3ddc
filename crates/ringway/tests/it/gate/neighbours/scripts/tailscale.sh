# tailscale: the rules of a subnet router, as `util/linuxfw/iptables_runner.go` of
# github.com/tailscale/tailscale (commit fa51c04) writes them; `$LAN` stands for `tailscale0`. Its
# packets get a mark within 0xff0000, the highest bit of which is the lowest of ours.
set -e
begin() {
    for chain in ts-input ts-forward; do
        iptables -N $chain 2> /dev/null || iptables -F $chain
    done
    iptables -t nat -N ts-postrouting 2> /dev/null || iptables -t nat -F ts-postrouting
    iptables -A ts-input ! -i "$LAN" -s 100.115.92.0/23 -j RETURN
    iptables -A ts-input ! -i "$LAN" -s 100.64.0.0/10 -j DROP
    iptables -A ts-input -i "$LAN" -j ACCEPT
    iptables -A ts-input -p udp --dport 41641 -j ACCEPT
    iptables -A ts-forward -i "$LAN" -j MARK --set-mark 0x40000/0xff0000
    iptables -A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT
    iptables -A ts-forward -o "$LAN" -s 100.64.0.0/10 -j DROP
    iptables -A ts-forward -o "$LAN" -j ACCEPT
    iptables -t nat -A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE
    iptables -t mangle -A FORWARD -o "$LAN" -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
    iptables -I INPUT -j ts-input
    iptables -I FORWARD -j ts-forward
    iptables -t nat -I POSTROUTING -j ts-postrouting
}
end() {
    iptables -D INPUT -j ts-input
    iptables -D FORWARD -j ts-forward
    iptables -t nat -D POSTROUTING -j ts-postrouting
    iptables -t mangle -D FORWARD -o "$LAN" -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
    for chain in ts-input ts-forward; do
        iptables -F $chain
        iptables -X $chain
    done
    iptables -t nat -F ts-postrouting
    iptables -t nat -X ts-postrouting
}
case $1 in
start) begin ;;
restart)
    # A client reached the world by it, with its mark.
    end
    begin
    ;;
stop) end ;;
esac
