//! Which members this one has had links with since its start: when each was last heard, and by
//! which release it runs.

use std::collections::BTreeMap;

use ringway_transport::MemberId;
use tokio::sync::oneshot;

use crate::clock::unix_seconds;
use crate::control::Status;
use crate::limits::{DIRECTORY_ENTRIES, MAX_RELEASE};
use crate::link::{LinkMessage, LinkVersion};
use crate::member::core::{Core, since};
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;
use crate::text::printable;
use crate::versions::RELEASE;

/// All of them are asked for.
#[derive(Debug)]
pub(in crate::member) struct Command(oneshot::Sender<Vec<(MemberId, KnownPeer)>>);

impl MemberHandle {
    /// The members that this one has had links with, or has tried to; none when it is stopping.
    pub(crate) async fn known_peers(&self) -> Vec<(MemberId, KnownPeer)> {
        self.ask(Command).await.unwrap_or_default()
    }
}

/// What is known of a peer by its links.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPeer {
    /// Whether there is a link now.
    pub(crate) linked: bool,
    /// Whether the last try to make a link has failed.
    pub(crate) failed: bool,
    /// The address in use.
    pub(crate) address: Option<String>,
    /// Name of the router, if that is a `relay://` address and the name is known.
    pub(crate) via: Option<String>,
    /// When something authentic last came from it, Unix seconds.
    pub(crate) heard: Option<u64>,
    /// What it says of its release. It may lie.
    pub(crate) release: Option<String>,
    /// Version of the link protocol of its latest link.
    pub(crate) link_version: Option<u8>,
}

/// Members by their links. Bounded by [`DIRECTORY_ENTRIES`]: past it the one that was heard longest
/// ago, and has no link, is forgotten.
#[derive(Debug, Default)]
pub(in crate::member) struct KnownPeers {
    peers: BTreeMap<MemberId, KnownPeer>,
}

impl KnownPeers {
    fn entry(&mut self, member: MemberId) -> &mut KnownPeer {
        if self.peers.len() >= DIRECTORY_ENTRIES && !self.peers.contains_key(&member) {
            let unlinked = self.peers.iter().filter(|(_, peer)| !peer.linked);
            let oldest = unlinked.min_by_key(|(_, peer)| peer.heard);
            if let Some(oldest) = oldest.map(|(member, _)| *member) {
                self.peers.remove(&oldest);
            }
        }
        self.peers.entry(member).or_default()
    }

    fn shown(&self, core: &Core) -> Vec<(MemberId, KnownPeer)> {
        let now = unix_seconds();
        let show = |(member, peer): (&MemberId, &KnownPeer)| {
            let path = core.links.path(member).filter(|_| peer.linked);
            let heard = core.links.last_heard(member);
            let heard = heard.map(|at| now.saturating_sub(since(core.now, at).as_secs()));
            let shown = KnownPeer {
                address: path.map(ToString::to_string),
                via: path.and_then(|path| core.directory.relay_name(path)),
                heard: heard.or(peer.heard),
                link_version: core.links.versions().of(member).map(LinkVersion::number),
                ..peer.clone()
            };
            (*member, shown)
        };
        self.peers.iter().map(show).collect()
    }
}

impl Service for KnownPeers {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<KnownPeers, StateError> {
        Ok(KnownPeers::default())
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        core.reply(command.0, self.shown(core));
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        match event {
            LinkEvent::Up(member) => {
                if core.links.versions().of(&member) == Some(LinkVersion::Newest) {
                    core.send(&member, LinkMessage::Release(RELEASE.to_owned()));
                }
                let peer = self.entry(member);
                peer.linked = true;
                peer.failed = false;
                peer.heard = Some(unix_seconds());
            }
            LinkEvent::Down(member) => {
                let peer = self.entry(member);
                peer.failed = !peer.linked;
                if peer.linked {
                    peer.heard = Some(unix_seconds());
                }
                peer.linked = false;
            }
        }
    }

    fn report(&self, _core: &Core, status: &mut Status) {
        for link in &mut status.links {
            let member = link.member.parse().ok();
            let peer = member.and_then(|member| self.peers.get(&member));
            link.release = peer.and_then(|peer| peer.release.clone());
        }
    }

    fn on_message(
        &mut self,
        _core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        let LinkMessage::Release(release) = message else {
            return Handled::No;
        };
        self.entry(member).release = Some(printable(release, MAX_RELEASE));
        Handled::Yes
    }
}
