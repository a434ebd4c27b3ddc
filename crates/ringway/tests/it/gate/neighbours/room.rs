//! A gateway's own `/etc`, `/run` and `/var`, in which a neighbour is installed without being it on
//! this machine.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ringway_testbed::Host;
use rustix::process::{Pid, Signal, kill_process};

use super::super::beside::{Tested, until, wrong};
use super::super::border::Border;

/// Keeps the room until its stdin closes.
const ROOM: &str = "set -e; mount --make-rprivate /
    mkdir etc; mount -t tmpfs -o mode=0755 tmpfs etc; cp -a /etc/. etc/; mount --bind etc /etc
    for folder in /run /var/lib /var/log; do mount -t tmpfs -o mode=0755 tmpfs $folder; done
    mkdir -p /run/lock /run/netns; echo $$ > room.new; mv room.new room; exec cat > /dev/null";

/// The room. What was started in it ends with it.
pub(super) struct Room {
    gateway: Host,
    folder: PathBuf,
    /// The interfaces inside and outside.
    interfaces: [String; 2],
    holder: Child,
    keeper: String,
}

impl Room {
    pub(super) fn new(border: &Border) -> Tested<Room> {
        let folder = border.folder.path();
        let mut command = border.gateway.command("unshare");
        command.args(["--mount", "sh", "-c", ROOM]);
        let log = fs::File::create(folder.join("room.log"))?;
        command
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stderr(log);
        let holder = command.spawn()?;
        let keeper = folder.join("room");
        let log = || fs::read_to_string(folder.join("room.log")).unwrap_or_default();
        until("there is no room", log, || keeper.exists())?;
        Ok(Room {
            gateway: border.gateway.clone(),
            folder: folder.to_owned(),
            interfaces: [border.inside.clone(), border.outside.clone()],
            holder,
            keeper: fs::read_to_string(keeper)?.trim().to_owned(),
        })
    }

    /// Runs a script of the neighbour in it, with one word that says what to do. It knows the
    /// border's interfaces as `$LAN` and `$WAN`.
    pub(super) fn script(&self, text: &str, word: &str) -> Tested<String> {
        let log = self.folder.join("neighbour.log");
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper, "--mount", "--net"]);
        command.arg(format!("--wd={}", self.folder.display()));
        command.args(["sh", "-c", text, "sh", word]);
        let [inside, outside] = &self.interfaces;
        command.env("LAN", inside).env("WAN", outside);
        let file = fs::File::options().create(true).append(true).open(&log)?;
        // Not by a pipe: what stays would keep it open.
        let ended = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()?;
        let said = fs::read_to_string(&log)?;
        match ended.success() {
            true => Ok(said),
            false => wrong(format!("`{word}` ended with {ended}: {said}")),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // All that runs on the gateway of this test was started by it.
        let name = self.gateway.namespace().to_owned();
        let listed = Command::new("ip").args(["netns", "pids", &name]).output();
        let listed = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned());
        for pid in listed.unwrap_or_default().lines() {
            let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
            pid.and_then(|pid| kill_process(pid, Signal::KILL).ok());
        }
        self.holder.wait().ok();
    }
}
