//! Joining by single sign-on, as owner and people do it: with the small issuer of the testbed, and
//! with Keycloak where a folder of it is named.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ringway_testbed::{
    CLIENT, Issuer, Outcome, Process, Running, TestbedError, free_address, wait_until,
};
use serde_json::{Value, json};

use super::{not_tested, program};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(300);

/// A ring whose authority has its options in a file.
struct Place {
    folder: tempfile::TempDir,
    serving: Option<Process>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            folder,
            serving: None,
        };
        let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
        let (dns, enrol) = (dns.to_string(), enrol.to_string());
        object(&place.owner(&[
            "ring",
            "init",
            "ring.test",
            "--dns",
            &dns,
            "--enrol",
            &enrol,
        ]));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn owner(&self, arguments: &[&str]) -> Outcome {
        self.at("owner", arguments)
    }

    fn at(&self, home: &str, arguments: &[&str]) -> Outcome {
        let home = self.path(home);
        let all = [&["--json", "--home", home.to_str().unwrap()], arguments].concat();
        program().run_with_input(all, "").unwrap()
    }

    /// Writes the options, with the secret in a file that only its owner can read.
    fn options(&self, issuer: &str, secret: &str, more: &str) {
        let file = self.path("secret");
        fs::write(&file, secret).unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let text = format!("oidc = {issuer:?}\noidc-secret = {file:?}\n{more}\n");
        fs::write(self.path("authority.toml"), text).unwrap();
    }

    fn serve(&mut self) {
        let (home, config) = (self.path("owner"), self.path("authority.toml"));
        let serve = ["--json", "--home", home.to_str().unwrap(), "ring", "serve"];
        let mut command = program().command(serve);
        command.args(["--exit-with-stdin", "--config"]).arg(config);
        self.serving = Some(Process::start(command, &self.path("owner.log")).unwrap());
    }

    fn reload(&mut self) {
        self.serving.as_mut().unwrap().hang_up().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("owner.log")).unwrap_or_default()
    }

    fn until_logged(&self, line: &str) {
        let logged = wait_until(DEADLINE, || match self.log().contains(line) {
            true => Ok(()),
            false => Err(TestbedError(self.log())),
        });
        logged.unwrap_or_else(|error| panic!("no `{line}`: {error}"));
    }

    fn link(&self) -> String {
        let link = object(&self.owner(&["ring", "link"]));
        link["link"].as_str().unwrap().to_owned()
    }

    /// Joins, and does `act` as the person with what is shown. Gives the last object and stderr.
    fn join(&self, machine: &str, act: impl FnOnce(&Value)) -> (Option<i32>, Value, String) {
        let home = self.path(machine);
        let arguments = ["--json", "--home", home.to_str().unwrap(), "join"];
        let mut command = program().command(arguments);
        command.arg(self.link()).args(["--name", machine]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Option<Value> = lines
            .next()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        if let Some(prompt) = &first
            && prompt["schema"] == "ringway.sign-in/1"
        {
            act(prompt);
        }
        let last = lines
            .last()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        let ended = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        (
            ended.status.code(),
            last.or(first).unwrap_or_default(),
            errors,
        )
    }
}

fn object(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.objects().unwrap().pop().unwrap()
}

fn ada(groups: &[&str]) -> Value {
    json!({"sub": "1", "groups": groups, "email": "ada@example.org", "preferred_username": "ada"})
}

#[test]
fn people_join_by_link_and_options_reload() {
    let issuer = Issuer::start(false).unwrap();
    let mut place = Place::new();
    place.options(&issuer.url(), CLIENT.1, "group = [\"staff\", \"guests\"]");
    place.serve();
    place.until_logged("people can join by signing in");
    let sign_in = |groups: &'static [&'static str]| {
        let issuer = &issuer;
        move |prompt: &Value| {
            let code = prompt["code"].as_str().unwrap();
            issuer.sign_in(code, ada(groups)).unwrap();
        }
    };
    let (code, joined, errors) = place.join("laptop", sign_in(&["guests"]));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(
        (&joined["name"], &joined["person"]),
        (&json!("ada-laptop"), &json!("ada@example.org"))
    );
    let member = object(&place.owner(&["ring", "members"]));
    assert_eq!(member["sso"]["person"], "ada@example.org");
    let shown = program()
        .run([
            "--home",
            place.path("owner").to_str().unwrap(),
            "ring",
            "members",
        ])
        .unwrap();
    assert!(
        shown.stdout.contains("active, by sso: ada@example.org"),
        "{}",
        shown.stdout
    );
    let log = place.log();
    assert!(
        log.contains("a member is enrolled by single sign-on"),
        "{log}"
    );
    assert!(!log.contains(CLIENT.1), "{log}");

    // What is wrong changes nothing; what is right counts from now.
    place.options(
        &issuer.url(),
        CLIENT.1,
        "group = [\"staff\"]\nsso-machines = 0",
    );
    place.reload();
    place.until_logged("single sign-on goes on as before");
    let (code, _, errors) = place.join("second", sign_in(&["guests"]));
    assert_eq!(code, Some(0), "{errors}");
    place.options(
        &issuer.url(),
        CLIENT.1,
        "group = [\"staff\"]\nsso-again = \"1d\"",
    );
    place.reload();
    let counts = wait_until(DEADLINE, || {
        let (code, joined, errors) = place.join("third", sign_in(&["staff"]));
        match code == Some(0) && joined["until"].is_u64() {
            true => Ok(()),
            false => Err(TestbedError(errors)),
        }
    });
    counts.unwrap();
    let (code, _, errors) = place.join("fourth", sign_in(&["guests"]));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("in no group"), "{errors}");
}

/// The address and the secret of Keycloak's realm, and the process.
fn keycloak(folder: &Path, kept: &Path) -> (Running, String) {
    let users = ["ada", "eve"].map(|name| {
        let groups: &[&str] = if name == "ada" { &["/ringway"] } else { &[] };
        json!({
            "username": name, "enabled": true, "email": format!("{name}@example.org"),
            "emailVerified": true, "firstName": name, "lastName": "L", "groups": groups,
            "credentials": [{"type": "password", "value": "pw", "temporary": false}],
        })
    });
    let realm = json!({
        "realm": "staff", "enabled": true, "sslRequired": "none",
        "groups": [{"name": "ringway"}],
        "users": users,
        "clients": [{
            "clientId": CLIENT.0, "enabled": true, "publicClient": false, "secret": CLIENT.1,
            "standardFlowEnabled": false, "redirectUris": [],
            "attributes": {"oauth2.device.authorization.grant.enabled": "true"},
            "protocolMappers": [{
                "name": "groups", "protocol": "openid-connect",
                "protocolMapper": "oidc-group-membership-mapper",
                "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true"},
            }],
        }],
    });
    let import = folder.join("data/import");
    fs::create_dir_all(&import).unwrap();
    fs::write(import.join("staff-realm.json"), realm.to_string()).unwrap();
    let address = free_address().unwrap();
    let mut command = Command::new(folder.join("bin/kc.sh"));
    command.args(["start-dev", "--import-realm", "--http-host", "127.0.0.1"]);
    command.arg(format!("--http-port={}", address.port()));
    let running = Running::start(command, &kept.join("keycloak.log")).unwrap();
    (running, format!("http://{address}/realms/staff"))
}

/// Signs in at Keycloak's pages, as a browser does.
fn browse(kept: &Path, page: &str, person: &str) {
    let jar = kept.join(format!("{person}.cookies"));
    let jar = jar.to_str().unwrap();
    let fetch = |url: &str, fields: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "-L", "-b", jar, "-c", jar]);
        for field in fields {
            command.args(["--data-urlencode", field]);
        }
        let fetched = command.arg(url).output().unwrap();
        String::from_utf8_lossy(&fetched.stdout).into_owned()
    };
    let action = |page: &str| {
        let form = page
            .split("action=\"")
            .nth(1)
            .unwrap_or_else(|| panic!("no form: {page}"));
        form.split('"').next().unwrap().replace("&amp;", "&")
    };
    let host = |path: String| match path.starts_with('/') {
        true => format!("{}{path}", page.split("/realms").next().unwrap()),
        false => path,
    };
    let login = fetch(page, &[]);
    let user = format!("username={person}");
    let consent = fetch(
        &host(action(&login)),
        &[&user, "password=pw", "credentialId="],
    );
    let hidden = consent.split("name=\"code\" value=\"").nth(1);
    let hidden = hidden
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    let done = fetch(
        &host(action(&consent)),
        &[&format!("code={hidden}"), "accept=Yes"],
    );
    assert!(done.contains("Device Login Successful"), "{done}");
}

#[test]
fn people_join_by_keycloak() {
    let named = std::env::var_os("RINGWAY_KEYCLOAK").map(PathBuf::from);
    let Some(folder) = named.filter(|folder| folder.join("bin/kc.sh").exists()) else {
        not_tested("people_join_by_keycloak: RINGWAY_KEYCLOAK names no folder of Keycloak");
        return;
    };
    let mut place = Place::new();
    let (_running, issuer) = keycloak(&folder, place.folder.path());
    place.options(&issuer, CLIENT.1, "group = \"ringway\"\nsso-again = \"7d\"");
    place.serve();
    let ready = wait_until(DEADLINE, || {
        place.reload();
        match place.log().contains("people can join by signing in") {
            true => Ok(()),
            false => Err(TestbedError(place.log())),
        }
    });
    ready.unwrap();
    let kept = place.path("browser");
    fs::create_dir_all(&kept).unwrap();
    let as_person = |person: &'static str| {
        let kept = &kept;
        move |prompt: &Value| browse(kept, prompt["complete_url"].as_str().unwrap(), person)
    };
    let (code, joined, errors) = place.join("laptop", as_person("ada"));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(joined["name"], "ada-laptop");
    assert_eq!(joined["person"], "ada@example.org");
    let (code, _, errors) = place.join("other", as_person("eve"));
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("names no groups of eve@example.org"),
        "{errors}"
    );
}
