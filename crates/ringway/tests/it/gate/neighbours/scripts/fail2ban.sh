# fail2ban: a jail with an address in it, in a table of nftables of its own.
set -e
client="fail2ban-client -s /run/fail2ban/s -p /run/fail2ban/p"
begin() {
    # shellcheck disable=SC2086
    $client -x start
    for try in $(seq 120); do
        $client ping && break
        sleep 0.5
    done
    $client set border banip 198.51.100.66
    for try in $(seq 120); do
        nft list ruleset | grep 198.51.100.66 && return
        sleep 0.5
    done
    return 1
}
end() {
    $client stop
    while $client ping > /dev/null 2>&1; do sleep 0.1; done
    while nft list tables | grep f2b; do sleep 0.1; done
}
case $1 in
start)
    mkdir -p /run/fail2ban
    rm -f /etc/fail2ban/jail.d/*
    printf '[Definition]\ndbfile = None\nlogtarget = /var/log/fail2ban.log\n' > /etc/fail2ban/fail2ban.local
    printf '[Definition]\nfailregex = ^ bad <HOST>$\ndatepattern = {NONE}\n' > /etc/fail2ban/filter.d/border.conf
    cat > /etc/fail2ban/jail.local << JAIL
[border]
enabled = true
backend = polling
filter = border
logpath = /var/log/border.log
action = nftables[type=allports, chain_hook=forward, blocktype=drop]
JAIL
    : > /var/log/border.log
    begin
    ;;
restart)
    $client reload
    end
    begin
    ;;
stop)
    end
    ;;
esac
