//! Notices that the machine's network is another: addresses, routes and interfaces by netlink, its
//! DNS servers by inotify (Linux; elsewhere nothing is noticed, and what waits tries again by its
//! own timers).
//!
//! It only wakes what waits. Whether there is a way now, those find out.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::limits::{CHANGES_PAUSE, CHANGES_SETTLE};

/// Where the system names its DNS servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Counts changes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Changes(watch::Receiver<u64>);

impl Changes {
    /// Watches the machine from now on.
    pub(crate) fn watch() -> Changes {
        let (count, changes) = watch::channel(0);
        tokio::spawn(async move {
            tokio::select! {
                () = count.closed() => {}
                () = report(Path::new(RESOLV_CONF), &count) => {}
            }
        });
        Changes(changes)
    }

    /// True if there was a change since the last look.
    pub(crate) fn seen(&mut self) -> bool {
        let changed = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        changed
    }

    /// Waits for the next change; for ever, if changes are not noticed here.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Several changes make one report, as an address, its routes and its DNS servers come together.
async fn report(resolv_conf: &Path, count: &watch::Sender<u64>) {
    let mut sources = sources::Sources::open(resolv_conf);
    loop {
        sources.next().await;
        settle(&mut sources).await;
        tracing::debug!("the machine's network has changed");
        count.send_modify(|count| *count += 1);
        sleep(CHANGES_PAUSE).await;
    }
}

/// Until nothing comes for a moment; not for longer than a report may wait.
async fn settle(sources: &mut sources::Sources) {
    let last = sleep(CHANGES_PAUSE);
    tokio::pin!(last);
    loop {
        tokio::select! {
            () = sources.next() => {}
            () = sleep(CHANGES_SETTLE) => return,
            () = &mut last => return,
        }
    }
}

/// How long a wait is that something ends which is not noticed.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(target_os = "linux")]
mod sources {
    use std::ffi::OsString;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    use inotify::{Inotify, WatchDescriptor, WatchMask};
    use netlink_sys::protocols::NETLINK_ROUTE;
    use netlink_sys::{Socket, SocketAddr};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// `RTMGRP_LINK`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR` and `_IPV6_ROUTE` of
    /// `linux/rtnetlink.h`.
    const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

    /// What is watched. A part that cannot be is left out, with a line.
    pub(super) struct Sources {
        routing: Option<AsyncFd<Socket>>,
        file: Option<WatchedFile>,
    }

    impl Sources {
        pub(super) fn open(resolv_conf: &Path) -> Sources {
            Sources {
                routing: reported(routing(), "addresses and routes"),
                file: reported(WatchedFile::open(resolv_conf), "DNS servers"),
            }
        }

        /// Waits until something has changed.
        pub(super) async fn next(&mut self) {
            let Sources { routing, file } = self;
            let failed = tokio::select! {
                changed = changed_routing(routing) => changed.is_err().then(|| *routing = None),
                changed = changed_file(file) => changed.is_err().then(|| *file = None),
            };
            if failed.is_some() {
                tracing::warn!("some changes of the network are not noticed any more");
            }
        }
    }

    fn reported<T>(opened: io::Result<T>, what: &str) -> Option<T> {
        let opened = opened.inspect_err(|error| {
            tracing::info!(%error, what, "changes of the network are not noticed");
        });
        opened.ok()
    }

    fn routing() -> io::Result<AsyncFd<Socket>> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        readable(socket)
    }

    #[allow(
        deprecated,
        reason = "what is called instead is unsafe for types that may close their descriptor or lend another; these own theirs"
    )]
    fn readable<T: AsRawFd>(source: T) -> io::Result<AsyncFd<T>> {
        AsyncFd::with_interest(source, Interest::READABLE)
    }

    /// What exactly has changed does not matter.
    async fn changed_routing(socket: &Option<AsyncFd<Socket>>) -> io::Result<()> {
        let Some(socket) = socket else {
            return std::future::pending().await;
        };
        loop {
            let mut ready = socket.readable().await?;
            let mut message = [0; 4096];
            let read = ready.try_io(|socket| {
                let read = socket.get_ref().recv_from(&mut message.as_mut_slice(), 0);
                read.map(|_| ())
            });
            match read {
                Ok(Ok(())) => return Ok(()),
                // More has changed than the socket holds.
                Ok(Err(error)) if is_overrun(&error) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }

    fn is_overrun(error: &io::Error) -> bool {
        error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
    }

    async fn changed_file(file: &mut Option<WatchedFile>) -> io::Result<()> {
        match file {
            Some(file) => file.changed().await,
            None => std::future::pending().await,
        }
    }

    /// A file that programs write, replace, or reach by links that they replace.
    struct WatchedFile {
        path: PathBuf,
        inotify: AsyncFd<Inotify>,
        /// The names that matter in a folder; none if all do.
        names: Vec<(WatchDescriptor, Option<OsString>)>,
    }

    impl WatchedFile {
        fn open(path: &Path) -> io::Result<WatchedFile> {
            let inotify = Inotify::init()?;
            let mut names = Vec::new();
            for (watched, name) in watched_paths(path) {
                let mask = WatchMask::CREATE
                    | WatchMask::MOVED_TO
                    | WatchMask::DELETE
                    | WatchMask::CLOSE_WRITE
                    | WatchMask::MODIFY;
                // It may have gone in this moment; then its folder says so.
                if let Ok(descriptor) = inotify.watches().add(&watched, mask) {
                    names.push((descriptor, name));
                }
            }
            let inotify = readable(inotify)?;
            Ok(WatchedFile {
                path: path.to_owned(),
                inotify,
                names,
            })
        }

        async fn changed(&mut self) -> io::Result<()> {
            loop {
                let mut ready = self.inotify.readable_mut().await?;
                let mut buffer = [0; 4096];
                let names = &self.names;
                let read = ready.try_io(|inotify| {
                    let mut events = inotify.get_mut().read_events(&mut buffer)?;
                    Ok(events.any(|event| {
                        let of_it = names.iter().filter(|(watch, _)| *watch == event.wd);
                        let mut names = of_it.map(|(_, name)| name.as_deref());
                        names.any(|name| name.is_none() || name == event.name)
                    }))
                });
                if let Ok(changed) = read
                    && changed?
                {
                    // Links may lead elsewhere now.
                    *self = WatchedFile::open(&self.path)?;
                    return Ok(());
                }
            }
        }
    }

    /// Links that are followed.
    ///
    /// Source: `MAXSYMLINKS` of Linux.
    const LINKS: usize = 40;

    /// The file itself, which may be mounted in its place, and the folder of each link on the way.
    /// For one that is not there yet, the folder in which its folder would be made.
    fn watched_paths(path: &Path) -> Vec<(PathBuf, Option<OsString>)> {
        let mut watched_paths = vec![(path.to_owned(), None)];
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                break;
            };
            if folder.is_dir() {
                watched_paths.push((folder.to_owned(), Some(name.to_owned())))
            } else {
                let there = folder.ancestors().find(|folder| folder.is_dir());
                watched_paths.extend(there.map(|there| (there.to_owned(), None)));
            }
            match std::fs::read_link(&path) {
                Ok(target) => path = folder.join(target),
                Err(_) => break,
            }
        }
        watched_paths
    }
}

#[cfg(not(target_os = "linux"))]
mod sources {
    use std::path::Path;

    /// Nothing is watched here.
    pub(super) struct Sources;

    impl Sources {
        pub(super) fn open(_resolv_conf: &Path) -> Sources {
            Sources
        }

        pub(super) async fn next(&mut self) {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Whether a change is noticed, and what is no change is not.
    #[tokio::test]
    async fn each_way_to_change_a_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let mut sources = sources::Sources::open(&path);
        let steps: [&dyn Fn(); 6] = [
            &|| fs::write(&path, "nameserver 192.0.2.1\n").unwrap(),
            &|| fs::write(&path, "").unwrap(),
            &|| {
                let new = folder.path().join("new");
                fs::write(&new, "nameserver 192.0.2.2\n").unwrap();
                fs::rename(&new, &path).unwrap();
            },
            &|| {
                // As systemd-resolved: a link whose target comes later.
                fs::remove_file(&path).unwrap();
                symlink("run/resolve/stub", &path).unwrap();
            },
            &|| fs::create_dir_all(folder.path().join("run/resolve")).unwrap(),
            &|| fs::write(folder.path().join("run/resolve/stub"), "x").unwrap(),
        ];
        for step in steps {
            step();
            sources.next().await;
            // One step may make several events.
            while tokio::time::timeout(Duration::from_millis(200), sources.next())
                .await
                .is_ok()
            {}
        }
    }

    #[tokio::test]
    async fn other_files_beside_it_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        fs::write(&path, "").unwrap();
        let mut sources = sources::Sources::open(&path);
        fs::write(folder.path().join("hosts"), "").unwrap();
        let noticed = tokio::time::timeout(Duration::from_millis(300), sources.next()).await;
        assert!(noticed.is_err());
    }
}
