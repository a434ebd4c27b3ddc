# A host without any firewall program: /etc/nftables.conf as its service loads it.
set -e
case $1 in
start)
    cat > /etc/nftables.conf << RULES
flush ruleset
table inet filter {
    chain forward {
        type filter hook forward priority filter; policy drop;
        tcp dport 8009 drop
        ct state established,related accept
        iifname "$LAN" oifname "$WAN" accept
    }
}
table ip nat {
    chain postrouting {
        type nat hook postrouting priority srcnat;
        oifname "$WAN" masquerade
    }
}
RULES
    nft -f /etc/nftables.conf
    ;;
restart)
    nft -f /etc/nftables.conf
    ;;
stop)
    nft flush ruleset
    ;;
esac
