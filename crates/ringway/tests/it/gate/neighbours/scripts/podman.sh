# podman: a container's network, made by netavark as podman asks for it.
set -e
export NETAVARK_FW=iptables
netavark=/usr/lib/podman/netavark
for other in /usr/libexec/podman/netavark /usr/local/libexec/podman/netavark; do
    [ -x "$netavark" ] || netavark=$other
done
cat > /run/podman.json << ASKED
{"container_id": "6ce776ea58b5", "container_name": "t",
 "networks": {"podman": {"interface_name": "eth0", "static_ips": ["10.88.0.2"]}},
 "network_info": {"podman": {"name": "podman", "driver": "bridge", "network_interface": "podman0",
  "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9",
  "subnets": [{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}], "ipv6_enabled": false,
  "internal": false, "dns_enabled": false, "ipam_options": {"driver": "host-local"}}}}
ASKED
case $1 in
start)
    ip netns add c
    $netavark -f /run/podman.json setup /run/netns/c
    ;;
restart)
    $netavark -f /run/podman.json teardown /run/netns/c
    $netavark -f /run/podman.json setup /run/netns/c
    ;;
stop)
    $netavark -f /run/podman.json teardown /run/netns/c
    ip netns del c
    ;;
esac
