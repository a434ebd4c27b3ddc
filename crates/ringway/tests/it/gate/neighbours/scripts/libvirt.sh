# libvirt: its network with NAT. A daemon that starts again writes the rules of its networks again.
set -e
begin() {
    libvirtd --daemon --pid-file /run/libvirtd.number
    for try in $(seq 120); do
        virsh --connect network:///system net-list && return
        sleep 0.5
    done
    return 1
}
end() {
    number=$(cat /run/libvirtd.number)
    kill "$number"
    while kill -0 "$number" 2> /dev/null; do sleep 0.1; done
}
case $1 in
start)
    mkdir -p /run/libvirt /var/lib/libvirt/dnsmasq /var/log/libvirt
    cat > /run/town.xml << TOWN
<network><name>town</name><forward mode="nat"/><bridge name="virbr7"/><ip address="192.168.177.1" netmask="255.255.255.0"/></network>
TOWN
    begin
    virsh --connect network:///system net-create /run/town.xml
    ;;
restart)
    end
    begin
    virsh --connect network:///system net-list | grep town
    ;;
stop)
    virsh --connect network:///system net-destroy town
    end
    ;;
esac
