# docker: its own network, FORWARD closed for all others, and rules of its owner in DOCKER-USER.
set -e
begin() {
    # Its containers have none of this machine's resources to share.
    mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup || true
    dockerd --data-root /run/d/data --exec-root /run/d/exec --pidfile /run/d/pid \
        --host unix:///run/d/sock --storage-driver vfs > /run/dockerd.log 2>&1 &
    echo $! > /run/dockerd.number
    for try in $(seq 120); do
        docker --host unix:///run/d/sock info > /dev/null 2>&1 && return
        sleep 0.5
    done
    cat /run/dockerd.log
    return 1
}
end() {
    number=$(cat /run/dockerd.number)
    kill "$number"
    while kill -0 "$number" 2> /dev/null; do sleep 0.1; done
}
owner() {
    iptables -C DOCKER-USER -i "$LAN" -j ACCEPT 2> /dev/null && return
    iptables -I DOCKER-USER -o "$LAN" -j ACCEPT
    iptables -I DOCKER-USER -i "$LAN" -j ACCEPT
    iptables -I DOCKER-USER -p tcp --dport 8009 -j DROP
}
case $1 in
start)
    mkdir -p /run/d
    begin
    docker --host unix:///run/d/sock network inspect town > /dev/null 2>&1 ||
        docker --host unix:///run/d/sock network create --subnet 172.30.0.0/24 town
    owner
    ;;
restart)
    end
    begin
    docker --host unix:///run/d/sock network create --subnet 172.31.0.0/24 passing
    docker --host unix:///run/d/sock network rm passing
    ;;
stop)
    end
    ;;
esac
