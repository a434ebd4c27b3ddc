//! Real clients and servers over streams: curl and nginx, a DNS server, psql, iperf3.

use std::path::Path;

use super::*;
use crate::not_tested;

/// Where a program is, or a loud line that it is not.
pub(super) fn found(program: &str) -> Option<String> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/bin"];
    let path = places
        .iter()
        .map(|folder| format!("{folder}/{program}"))
        .find(|path| Path::new(path).exists());
    if path.is_none() {
        let line = "(`./setup.sh --tests` as root installs it)";
        not_tested(&format!("streams to real programs need {program} {line}"));
    }
    path
}

#[test]
fn curl_reaches_nginx_by_name_through_socks() {
    let (Some(nginx), Some(curl)) = (found("nginx"), found("curl")) else {
        return;
    };
    let port = free_port().unwrap();
    let ring = ring_with(&service("web", &format!("127.0.0.1:{port}"), "lima"));
    let folder = ring.folder().join("web");
    std::fs::create_dir(&folder).unwrap();
    let page = random_bytes("page", 3_000_000);
    std::fs::write(folder.join("page"), &page).unwrap();
    let at = folder.display();
    let config = format!(
        "daemon off; pid {at}/pid; error_log {at}/error; user root;\nevents {{}}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen 127.0.0.1:{port}; root {at}; }} }}\n"
    );
    std::fs::write(folder.join("conf"), config).unwrap();
    let mut command = Command::new(nginx);
    command.args(["-c", &format!("{at}/conf"), "-p", &at.to_string()]);
    let _server = Kept(command.stdin(Stdio::null()).spawn().unwrap());
    let up = wait_until(DEADLINE, || {
        TcpStream::connect(("127.0.0.1", port)).map_err(|error| TestbedError(error.to_string()))
    });
    up.unwrap();
    let status = ring.member("lima").unwrap().status().unwrap();
    let domain = status["ring"].as_str().unwrap().to_owned();
    let (_forward, proxy) = forward(ring.member("lima").unwrap(), &["--socks", "PORT"]);
    let fetch = |url: &str| {
        let mut command = Command::new(&curl);
        command.args(["-sS", "--max-time", "60", "--noproxy", "", "--proxy"]);
        command.arg(format!("socks5h://{proxy}")).arg(url);
        command.output().unwrap()
    };
    for host in [
        format!("oslo:{port}"),
        format!("oslo.{domain}:{port}"),
        "web.oslo:80".to_owned(),
    ] {
        let got = fetch(&format!("http://{host}/page"));
        assert!(
            got.stdout == page,
            "{host}: {}",
            String::from_utf8_lossy(&got.stderr)
        );
    }
    for host in ["oslo:1", "oslo:22", "127.0.0.1:80", "nothing.oslo:80"] {
        let got = fetch(&format!("http://{host}/page"));
        assert!(!got.status.success() && got.stdout.is_empty(), "{host}");
    }
}

#[test]
fn resolver_is_asked_through_a_udp_forward() {
    let (Some(unbound), Some(kdig)) = (found("unbound"), found("kdig")) else {
        return;
    };
    let port = free_port().unwrap();
    let ring = ring_with(&service("dns", &format!("udp://127.0.0.1:{port}"), "lima"));
    let config = ring.folder().join("unbound.conf");
    let text = format!(
        "server:\n interface: 127.0.0.1@{port}\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n do-daemonize: no\n \
         use-syslog: no\n local-zone: \"example.org.\" static\n local-data: \"www.example.org. A 192.0.2.77\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(unbound);
    command.arg("-d").arg("-c").arg(&config);
    let _server = Kept(command.stdin(Stdio::null()).spawn().unwrap());
    let (_forward, address) = forward(ring.member("lima").unwrap(), &["--udp", "PORT", "oslo/dns"]);
    let answer = wait_until(DEADLINE, || {
        let mut command = Command::new(&kdig);
        let port = address.port().to_string();
        let words = [
            "@127.0.0.1",
            "-p",
            &port,
            "+short",
            "+timeout=2",
            "www.example.org",
        ];
        let output = command.args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (text == "192.0.2.77")
            .then_some(())
            .ok_or(TestbedError(text))
    });
    answer.unwrap();
}
