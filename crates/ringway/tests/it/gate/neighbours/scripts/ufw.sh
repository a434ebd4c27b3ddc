# ufw: what crosses from inside is allowed as the how-to says, but for one port. `reload` loads all of its rules again.
set -e
case $1 in
start)
    ufw route deny proto tcp to any port 8009
    ufw route allow in on "$LAN" out on "$WAN"
    ufw --force enable
    ;;
restart)
    ufw reload
    ufw disable
    ufw --force enable
    ;;
stop)
    ufw disable
    ;;
esac
