//! Web servers: one with TLS in front of a member's `ws`, and one that gives files.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::TestbedError;

/// What the web server is to do.
#[derive(Clone, Copy, Debug)]
pub struct WebServer<'a> {
    /// The name in its certificate, which it has made itself.
    pub name: &'a str,
    /// The port at which it listens.
    pub port: u16,
    /// The path that it passes on, such as `/ringway`. Whatever else is asked for does not exist.
    pub path: &'a str,
    /// Whom it passes that on to.
    pub upstream: SocketAddr,
}

/// A running nginx; killed when dropped.
#[derive(Debug)]
pub struct Nginx {
    child: Child,
    folder: TempDir,
}

impl Nginx {
    /// One on loopback. None where it is not installed.
    ///
    /// # Errors
    /// When its folder cannot be made or it cannot be started.
    pub fn start(server: &WebServer<'_>) -> Result<Option<Nginx>, TestbedError> {
        Nginx::start_by(Command::new, IpAddr::V4(Ipv4Addr::LOCALHOST), server)
    }

    /// One that `run` starts, such as [`Host::command`](crate::Host::command), and that listens at
    /// `address`.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_by(
        run: impl FnOnce(PathBuf) -> Command,
        address: IpAddr,
        server: &WebServer<'_>,
    ) -> Result<Option<Nginx>, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting nginx", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        let made = rcgen::generate_simple_self_signed([server.name.to_owned()]);
        let made = made.map_err(|error| TestbedError::of("making a certificate", error))?;
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        write("cert.pem", &made.cert.pem()).map_err(wrong)?;
        write("key.pem", &made.signing_key.serialize_pem()).map_err(wrong)?;
        write("nginx.conf", &configuration(folder.path(), address, server)).map_err(wrong)?;
        Nginx::run_in(folder, run)
    }

    /// One without TLS that gives what `location` says, in nginx's own words, at this address.
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn serve_by(
        run: impl FnOnce(PathBuf) -> Command,
        listen: SocketAddr,
        location: &str,
    ) -> Result<Option<Nginx>, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of("starting nginx", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        let server = format!("listen {listen};\n {location}");
        fs::write(
            folder.path().join("nginx.conf"),
            around(folder.path(), &server),
        )
        .map_err(wrong)?;
        Nginx::run_in(folder, run)
    }

    fn run_in(
        folder: TempDir,
        run: impl FnOnce(PathBuf) -> Command,
    ) -> Result<Option<Nginx>, TestbedError> {
        let places = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from);
        let Some(program) = places.into_iter().find(|path| path.is_file()) else {
            return Ok(None);
        };
        let mut command = run(program);
        command.arg("-p").arg(folder.path());
        command.arg("-c").arg("nginx.conf");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| TestbedError::of("starting nginx", error))?;
        Ok(Some(Nginx { child, folder }))
    }

    /// The file with its certificate, for those who are to believe it.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn configuration(folder: &Path, address: IpAddr, server: &WebServer<'_>) -> String {
    let listen = SocketAddr::new(address, server.port);
    let WebServer {
        name,
        path,
        upstream,
        ..
    } = server;
    let server = format!(
        "listen {listen} ssl;\n server_name {name};\n\
         ssl_certificate cert.pem;\n ssl_certificate_key key.pem;\n\
         location {path} {{\n proxy_pass http://{upstream};\n proxy_http_version 1.1;\n\
         proxy_set_header Upgrade $http_upgrade;\n proxy_set_header Connection upgrade;\n }}"
    );
    around(folder, &server)
}

/// The configuration around a server's own.
fn around(folder: &Path, server: &str) -> String {
    let here = folder.display();
    format!(
        "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log {here}/error.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{\n access_log off;\n client_body_temp_path {here}/body;\n proxy_temp_path {here}/proxy;\n\
         fastcgi_temp_path {here}/f;\n uwsgi_temp_path {here}/u;\n scgi_temp_path {here}/s;\n\
         server {{\n {server}\n }}\n}}\n"
    )
}
