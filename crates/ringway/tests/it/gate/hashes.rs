//! Files that are stopped by their SHA-256.

use ringway_testbed::{TestbedError, wait_until};

use super::beside::{Tested, wrong};
use super::border::{Border, DEADLINE};
use super::both::on_each;
use super::scans::{SCAN, fetch, serve};
use crate::random_bytes;

const SIZE: usize = 300_000;

/// A list of this file, as another program writes it.
fn listed(border: &Border, file: &[u8]) -> Tested<String> {
    let path = border.folder.path().join("listed.bin");
    std::fs::write(&path, file)?;
    let listed = std::process::Command::new("sha256sum")
        .arg(&path)
        .output()?;
    Ok(String::from_utf8(listed.stdout)?)
}

#[test]
fn listed_files_are_stopped_at_their_end() -> Tested {
    on_each(|path| {
        let name = format!("hashes of files, on the path {}", path.word());
        let Some(mut border) = Border::on(&name, path) else {
            return Ok(());
        };
        let (bad, good) = (random_bytes("bad", SIZE), random_bytes("good", SIZE));
        serve(&border, 8_001, bad.clone(), true);
        serve(&border, 8_002, good.clone(), true);
        let list = border.file("bad.txt", &listed(&border, &bad)?);
        let list = list.to_str().unwrap_or_default();
        border.up(SCAN, &["--enforce", "--hashes", list]);
        if fetch(&border, 8_002, "good.bin") != good {
            return wrong(border.daemon().log_text());
        }
        if fetch(&border, 8_001, "bad.bin").len() >= SIZE {
            return wrong("a listed file came whole");
        }
        border.audit_when(|events| {
            let mut events = events.iter();
            events.any(|event| {
                let found = event["ringway"]["found"].as_str();
                found.is_some_and(|found| found.starts_with("SHA-256 "))
            })
        });
        // The other one is on the list from now on.
        border.file("new.txt", &listed(&border, &good)?);
        let folder = border.folder.path();
        std::fs::rename(folder.join("new.txt"), folder.join("bad.txt"))?;
        wait_until(DEADLINE, || {
            if fetch(&border, 8_002, "good.bin").len() < SIZE {
                return Ok(());
            }
            Err(TestbedError("what is listed later comes whole".to_owned()))
        })?;
        if fetch(&border, 8_001, "bad.bin") != bad {
            return wrong("what is not on the list any more is stopped");
        }
        Ok(())
    })
}
