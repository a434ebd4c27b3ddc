//! Real clients and servers over streams: curl and nginx, a DNS server, psql, iperf3.

use std::os::unix::process::CommandExt as _;
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

/// Where PostgreSQL's programs of the server are, or a loud line that they are not.
fn found_postgres() -> Option<std::path::PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter();
    let mut folders: Vec<_> = versions
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .filter(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .collect();
    folders.sort();
    let newest = folders.pop();
    if newest.is_none() {
        let line = "PostgreSQL's server (`./setup.sh --tests` as root installs it)";
        not_tested(&format!("streams to real programs need {line}"));
    }
    newest
}

/// PostgreSQL refuses to run as root: a command of a user without rights.
fn unprivileged(program: &Path, folder: &Path) -> Command {
    const UNPRIVILEGED: u32 = 65_534;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command.current_dir(folder);
    command
}

#[test]
fn psql_reaches_postgresql_through_a_forward() {
    let (Some(psql), Some(programs)) = (found("psql"), found_postgres()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let initdb = unprivileged(&programs.join("initdb"), folder.path())
        .args(["-U", "anna", "--auth=trust", "--no-sync", "--locale=C"])
        .args(["-E", "UTF8", "-D"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(initdb.status.success(), "{initdb:?}");
    // It listens at a socket alone, as the how-to has it.
    let mut server = unprivileged(&programs.join("postgres"), folder.path());
    server.arg("-D").arg(&data).arg("-k").arg(folder.path());
    server.args(["-p", "5432", "-c", "listen_addresses=", "-c", "fsync=off"]);
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let _server = Kept(server.stderr(log).spawn().unwrap());
    let socket = folder.path().join(".s.PGSQL.5432");
    let to = format!("unix:{}", socket.display());
    let ring = ring_with(&service("postgresql", &to, "lima"));
    let (_forward, address) = forward(ring.member("lima").unwrap(), &["PORT", "oslo/postgresql"]);
    let ask = |statements: &str| {
        let mut command = Command::new(&psql);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        command.args(["-h", "127.0.0.1", "-U", "anna", "-d", "postgres"]);
        command.args(["-p", &address.port().to_string(), "-c", statements]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let answer = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(answer).ok_or(error)
    };
    let up = wait_until(DEADLINE, || ask("select 1").map_err(TestbedError));
    assert_eq!(up.unwrap(), "1\n");
    ask("create table t as select n, md5(n::text) as hash from generate_series(1, 100000) n")
        .unwrap();
    let rows = ask("copy (select * from t order by n) to stdout").unwrap();
    assert_eq!(rows.lines().count(), 100_000);
    assert_eq!(
        rows.lines().last(),
        Some("100000\t14ee22eaba297944c96afdbe5b16c65b")
    );
    let wrong = ask("select * from nothing").unwrap_err();
    assert!(wrong.contains("does not exist"), "{wrong}");
}

#[test]
fn iperf3_runs_both_ways_through_a_forward() {
    let Some(iperf3) = found("iperf3") else {
        return;
    };
    let port = free_port().unwrap();
    let mut server = Command::new(&iperf3);
    server.args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]);
    let _server = Kept(server.stdout(Stdio::null()).spawn().unwrap());
    let ring = ring_with(&service("iperf", &format!("127.0.0.1:{port}"), "lima"));
    let (_forward, address) = forward(ring.member("lima").unwrap(), &["PORT", "oslo/iperf"]);
    for way in [&["-P", "4"][..], &["-R"]] {
        // The server takes one client at a time, and is not at once ready for the next.
        let received = wait_until(DEADLINE, || {
            let mut command = Command::new(&iperf3);
            let port = address.port().to_string();
            command.args(["-c", "127.0.0.1", "-J", "-t", "3", "-p", &port]);
            let output = command.args(way).stdin(Stdio::null()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let report: Value = serde_json::from_str(&text).unwrap_or_default();
            let received = report["end"]["sum_received"]["bytes"].as_u64();
            received.ok_or(TestbedError(text))
        });
        // What is under way at the end is not counted, and the machine may be busy.
        assert!(received.unwrap() > 1_000_000, "{way:?}");
    }
}
