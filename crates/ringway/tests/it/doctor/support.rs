//! `ringway doctor --support`: what it holds, and that no secret is among it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use ringway_testbed::{Ring, RingBuilder};

use super::{doctor, program, run};

/// Pieces of any member that runs.
const PIECES: [&str; 6] = [
    "about.txt",
    "doctor.json",
    "ringway.toml",
    "status.json",
    "transfers.json",
    "path-1.json",
];

/// Texts that [`secret_settings`] and [`secret_files`] put into a home.
const SECRETS: [&str; 7] = [
    "content-of-a-file",
    "pa55-in-a-file",
    "pa55-in-a-comment",
    "pa55-in-the-clear",
    "t0ken-of-header",
    "t0ken-of-program",
    "t0ken-of-environment",
];

/// Names that are nowhere in a file without names.
const NAMES: [&str; 4] = ["oslo", "lima", "bed.ringway.test", "mail.example.org"];

/// Every form in which a program could have written these bytes.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![
        secret.to_vec(),
        HEXLOWER.encode(secret).into_bytes(),
        HEXUPPER.encode(secret).into_bytes(),
    ];
    // Within other bytes base64 depends on where it begins: what is the same for each of the three.
    for before in 0..3_usize {
        let shifted = [&vec![0; before], secret].concat();
        for text in [
            BASE64_NOPAD.encode(&shifted),
            BASE64URL_NOPAD.encode(&shifted),
        ] {
            let (from, to) = ((before * 8).div_ceil(6), text.len() - 2);
            forms.push(text.as_bytes()[from..to].to_vec());
        }
    }
    forms
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Some of it is no configuration that a daemon takes: people write passwords everywhere.
fn secret_settings(password: &Path) -> String {
    format!(
        r#"
# pa55-in-a-comment
[smtp]
mailbox = "oslo@example.org"
header = ["X-Ringway", "t0ken-of-header"]
imap = {{ host = "mail.example.org", port = 993, user = "oslo", password = "pa55-in-the-clear", password_file = "{}" }}
[[exec]]
name = "folder"
command = "/bin/true"
arguments = ["--token", "t0ken-of-program"]
environment = {{ KEY = "t0ken-of-environment" }}
"#,
        password.display()
    )
}

/// An invite and a password in the home, a file that is sent; and all bytes that are secret.
fn secret_files(ring: &Ring) -> Vec<Vec<u8>> {
    let oslo = ring.member("oslo").unwrap();
    let home = &oslo.home;
    let invited = ring.owner_call(&["ring", "invite", "quito"]).unwrap();
    let invite = invited[0]["invite"].as_str().unwrap();
    fs::write(home.join("quito.invite"), invite).unwrap();
    let letter = home.join("letter.txt");
    fs::write(&letter, "Dear content-of-a-file").unwrap();
    oslo.call(&["send", letter.to_str().unwrap(), "lima"])
        .unwrap();
    let password = home.join("mail-password");
    fs::write(&password, "pa55-in-a-file\n").unwrap();
    fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let mut secrets = vec![
        fs::read(home.join("identity.key")).unwrap(),
        fs::read(ring.folder().join("owner/authority/root.key")).unwrap(),
        invite.as_bytes().to_vec(),
    ];
    secrets.extend(SECRETS.map(|text| text.as_bytes().to_vec()));
    secrets
}

#[test]
fn support_files_hold_no_secrets() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let home = &ring.member("oslo").unwrap().home;
    let secrets = secret_files(&ring);
    let path = home.join("ringway.toml");
    let right = fs::read_to_string(&path).unwrap();
    let more = secret_settings(&home.join("mail-password"));
    let wrong = "\nno toml = at all = pa55-in-the-clear\n";
    for (number, more, anonymise) in [(0, &*more, false), (1, &more, true), (2, wrong, false)] {
        fs::write(&path, format!("{right}{more}")).unwrap();
        let file = ring.folder().join(format!("support-{number}.tar"));
        let mut words = vec!["--support", file.to_str().unwrap()];
        words.extend(anonymise.then_some("--anonymise"));
        let made = doctor(home, &words);
        assert_eq!(made.code, Some(0), "{made:?}");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let bytes = fs::read(&file).unwrap();
        let listed = made.objects().unwrap()[0]["pieces"].to_string();
        for piece in PIECES {
            assert!(listed.contains(piece), "{listed}");
            assert!(contains(&bytes, piece.as_bytes()), "{piece}");
        }
        for form in secrets.iter().flat_map(|secret| forms(secret)) {
            let shown = String::from_utf8_lossy(&form);
            assert!(!contains(&bytes, &form), "{shown} is in file {number}");
        }
        for name in NAMES {
            let is_there = contains(&bytes, name.as_bytes());
            assert!(!(anonymise && is_there), "{name} is in file {number}");
        }
        assert!(anonymise || contains(&bytes, b"lima"));
        // It is new, or nothing is written.
        let again = doctor(home, &words);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    assert_eq!(run(&["doctor", "--anonymise"]).code, Some(2));
}
