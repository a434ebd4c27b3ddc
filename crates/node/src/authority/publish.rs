//! The ring's records on a DNS server of the owner's own: compared, and then changed by dynamic
//! update (RFC 2136).
//!
//! Every question and answer is signed with a key that the server shares with the owner (TSIG, RFC
//! 8945): what the server has is asked of itself, name by name, and only what differs is sent. A
//! name that a member ever had is known here, so that those of revoked and expired members go.
//! Other records of the zone, signatures among them, are the server's own affair.

mod changes;
mod fault;
mod key;
mod session;
mod signed;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RecordType};

use self::changes::{Found, Wanted};
pub use self::fault::Fault;
pub use self::key::{TsigKey, TsigKeyError};
use self::session::Session;
use super::{Authority, AuthorityError, Published, Zone};
use crate::certificate::RingId;
use crate::home::{self, HomeError};
use crate::limits::{UPDATE_QUERIES, UPDATE_TURN};
use crate::statement::Statement;
use crate::zone::{self, RecordName};

/// The port of DNS (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;

/// Pause between two looks whether another update has ended.
const TURN_LOOK: Duration = Duration::from_millis(50);

/// A DNS server: a host name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsServer {
    host: String,
    port: u16,
}

/// Why a text names no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a DNS server is a host name or an address with an optional port, such as ns1.example.org, 192.0.2.1:5353 or [2001:db8::1]:53"
)]
pub struct InvalidDnsServer;

impl FromStr for DnsServer {
    type Err = InvalidDnsServer;

    fn from_str(text: &str) -> Result<DnsServer, InvalidDnsServer> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return DnsServer::new(address.ip().to_string(), address.port());
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
            return DnsServer::new(ip.to_string(), DNS_PORT);
        }
        match text.split_once(':') {
            Some((host, port)) => {
                DnsServer::new(host.to_owned(), port.parse().map_err(|_| InvalidDnsServer)?)
            }
            None => DnsServer::new(text.to_owned(), DNS_PORT),
        }
    }
}

impl DnsServer {
    fn new(host: String, port: u16) -> Result<DnsServer, InvalidDnsServer> {
        let is_name = |host: &str| super::check_domain(host).is_ok();
        if port == 0 || !(host.parse::<IpAddr>().is_ok() || is_name(&host)) {
            return Err(InvalidDnsServer);
        }
        Ok(DnsServer { host, port })
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, PublishError> {
        let unknown = |source| PublishError::UnknownHost {
            host: self.host.clone(),
            source,
        };
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        Ok(found.map_err(unknown)?.collect())
    }
}

impl fmt::Display for DnsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What the fuzzer tries: a server's name, its answer, and the text of the key that signs both.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    signed::decode_anything(data);
    let text = std::str::from_utf8(data).unwrap_or_default();
    if let Ok(server) = text.parse::<DnsServer>() {
        assert_eq!(server.to_string().parse(), Ok(server));
    }
}

/// Why a server does not have the ring's records.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The server's name leads nowhere.
    #[error("the DNS server's name {host} was not found ({source}): check it, or give an address")]
    UnknownHost {
        /// The name.
        host: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The server, or the way to it.
    #[error("the DNS server {server} {fault}")]
    Server {
        /// The server.
        server: DnsServer,
        /// What it did.
        fault: Fault,
    },
    /// A record has no DNS form.
    #[error("the zone has no DNS form: {0}")]
    Zone(#[from] hickory_proto::ProtoError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] TsigKeyError),
    /// Another update does not end.
    #[error(
        "another update of this server has been running for {} s: look for a second `ringway ring publish` or `ringway ring serve`, and try again",
        UPDATE_TURN.as_secs()
    )]
    Busy,
    /// The lock could not be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The ring could not be read.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl PublishError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            PublishError::Key(_) => true,
            PublishError::Authority(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// What an update has done.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Publication {
    /// The server.
    pub server: String,
    /// The zone there: the ring's domain, or one above it.
    pub zone: String,
    /// Number of the ring's statement there.
    pub statement: u64,
    /// The ring's records there.
    pub records: usize,
    /// Of these, the ones that were missing or different.
    pub written: usize,
    /// Names whose records were removed.
    pub removed: usize,
    /// Updates that were sent.
    pub updates: usize,
}

/// Everything that a server needs to have, and to have no longer.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) generation: u64,
    ring: RingId,
    domain: String,
    records: Vec<Published>,
    former: Vec<RecordName>,
    /// Serials of certificates that are known to have ended, also those that have expired.
    ended: BTreeSet<u64>,
}

/// The right to update a server: one at a time, or an older zone could follow a newer one.
#[derive(Debug)]
pub(super) struct Turn {
    _lock: File,
}

impl Turn {
    pub(super) async fn wait(folder: &Path, server: &DnsServer) -> Result<Turn, PublishError> {
        // What a server's name may consist of is good for a file's name.
        let path = folder.join(format!("publish-{server}.lock"));
        let mut waited = Duration::ZERO;
        loop {
            if let Some(lock) = home::try_lock(&path)? {
                return Ok(Turn { _lock: lock });
            }
            if waited >= UPDATE_TURN {
                return Err(PublishError::Busy);
            }
            tokio::time::sleep(TURN_LOOK).await;
            waited += TURN_LOOK;
        }
    }
}

impl Authority {
    /// Makes the ring's TXT records on `server` equal to the ring's: what is missing is added, what
    /// is revoked or expired is removed.
    ///
    /// # Errors
    /// See [`PublishError`]. Updates that the server has confirmed before stay; the next call goes
    /// on from there.
    pub async fn publish_to(
        &self,
        server: &DnsServer,
        key: &TsigKey,
    ) -> Result<Publication, PublishError> {
        let turn = Turn::wait(self.folder(), server).await?;
        let snapshot = self.snapshot()?;
        let pushed = push(&turn, &snapshot, server, key).await;
        if let Err(error) = &pushed {
            self.note_refused(error)?;
        }
        pushed
    }

    /// Keeps what a server has that this folder knows nothing of: see `recover`.
    pub(super) fn note_refused(&self, error: &PublishError) -> Result<(), AuthorityError> {
        match error {
            PublishError::Server {
                fault: Fault::Newer { statement, .. },
                ..
            } => {
                // It may be known by now: the folder was recovered meanwhile.
                self.store.news().keep(statement)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot, AuthorityError> {
        self.check_current()?;
        let Zone {
            generation,
            records,
            ..
        } = self.zone()?;
        let current: std::collections::HashSet<&RecordName> =
            records.iter().map(|(name, _)| name).collect();
        // Names of former certificates may still be at the server, and have to go there.
        let mut former = Vec::new();
        for certificate in self.store.all_certificates(&self.ring_id())? {
            former.extend(zone::names_of(&certificate));
        }
        former.retain(|name| !current.contains(name));
        Ok(Snapshot {
            generation,
            ring: self.ring_id(),
            domain: self.store.options().domain.clone(),
            records,
            former,
            ended: self.store.news().ended_serials()?,
        })
    }
}

/// The caller has its turn from before the snapshot until this is done.
pub(super) async fn push(
    _turn: &Turn,
    snapshot: &Snapshot,
    server: &DnsServer,
    key: &TsigKey,
) -> Result<Publication, PublishError> {
    let blame = |fault| PublishError::Server {
        server: server.clone(),
        fault,
    };
    let addresses = server.addresses().await?;
    let wanted = snapshot.wanted()?;
    let mut session = Session::connect(&addresses, key).await.map_err(blame)?;
    let zone = apex(&mut session, &snapshot.domain).await.map_err(blame)?;
    let all = compare(&mut session, &wanted).await.map_err(blame)?;
    snapshot.check_age(&all).map_err(blame)?;
    let plan = changes::plan(&zone, &all)?;
    let updates = plan.updates.len();
    for update in plan.updates {
        let answer = session.ask(update).await.map_err(blame)?;
        verdict(answer.response_code, &zone, key).map_err(blame)?;
    }
    // A code of success alone proves nothing, so what was changed is read back.
    let now = compare(&mut session, &plan.changed).await.map_err(blame)?;
    let mut pairs = now.iter();
    if let Some((wanted, _)) = pairs.find(|(wanted, found)| !wanted.is_met_by(found)) {
        let name = shown(&wanted.name);
        return Err(blame(Fault::NotTaken { name }));
    }
    Ok(Publication {
        server: server.to_string(),
        zone: shown(&zone),
        statement: snapshot.generation,
        records: snapshot.records.len(),
        written: plan.written,
        removed: plan.removed,
        updates,
    })
}

impl Snapshot {
    /// The statement first.
    fn wanted(&self) -> Result<Vec<Wanted>, PublishError> {
        let present = self
            .records
            .iter()
            .map(|(name, content)| (name, Some(content.clone())));
        let absent = self.former.iter().map(|name| (name, None));
        let all = present.chain(absent).map(|(name, content)| {
            let name = Name::from_ascii(name.qualified(&self.domain))?;
            Ok(Wanted { name, content })
        });
        all.collect()
    }

    /// An authority that was restored from an old copy must not undo what the newer one has
    /// published.
    fn check_age(&self, compared: &[(Wanted, Found)]) -> Result<(), Fault> {
        let statements = compared.first().map(|(_, found)| found);
        let texts = statements.into_iter().flatten();
        let newest = texts
            .filter_map(|text| zone::from_txt([text.as_slice()].into_iter()))
            .filter_map(|bytes| Statement::decode(&bytes, &self.ring).ok())
            .filter(|theirs| !theirs.is_known_at(self.generation, &self.ended))
            .max_by_key(Statement::number);
        match newest {
            Some(statement) => Err(Fault::Newer {
                theirs: statement.number(),
                ours: self.generation,
                statement: Box::new(statement),
            }),
            None => Ok(()),
        }
    }
}

/// The zone in which the records of `domain` stand: its own, or one above it.
async fn apex(session: &mut Session<'_>, domain: &str) -> Result<Name, Fault> {
    let unserved = |code| Fault::NotAuthoritative {
        domain: domain.to_owned(),
        code,
    };
    let name = Name::from_ascii(format!("{}.", domain.trim_end_matches('.')))
        .map_err(|_| unserved(ResponseCode::FormErr))?;
    let answer = session
        .ask(changes::question(&name, RecordType::SOA))
        .await?;
    let code = answer.response_code;
    // The SOA stands in the answer at the apex, and beside a denial below it (RFC 2308 §3).
    let mut records = answer.answers.iter().chain(&answer.authorities);
    let soa = records.find(|record| record.record_type() == RecordType::SOA);
    match soa.filter(|soa| answer.authoritative && soa.name.zone_of(&name)) {
        Some(soa) => Ok(soa.name.clone()),
        None => Err(unserved(code)),
    }
}

/// Which names do not have what is wanted, and what they have instead; the first name in any case.
async fn compare(
    session: &mut Session<'_>,
    wanted: &[Wanted],
) -> Result<Vec<(Wanted, Found)>, Fault> {
    let mut differing = Vec::new();
    // Batch by batch, so that a large zone is never in memory as a whole.
    for batch in wanted.chunks(UPDATE_QUERIES) {
        let questions = batch.iter().map(Wanted::question).collect();
        let answers = session.ask_all(questions).await?;
        for (wanted, answer) in batch.iter().zip(&answers) {
            let found = found_in(answer, wanted)?;
            if differing.is_empty() || !wanted.is_met_by(&found) {
                differing.push((wanted.clone(), found));
            }
        }
    }
    Ok(differing)
}

fn found_in(answer: &Message, wanted: &Wanted) -> Result<Found, Fault> {
    match answer.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain if answer.authoritative => {
            Ok(changes::found(answer, &wanted.name))
        }
        code => Err(Fault::NotAuthoritative {
            domain: shown(&wanted.name),
            code,
        }),
    }
}

/// A name as people write it.
fn shown(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_owned()
}

/// What an answer to an update says (RFC 2136 §2.2).
fn verdict(code: ResponseCode, zone: &Name, key: &TsigKey) -> Result<(), Fault> {
    let (zone, key) = (shown(zone), shown(&key.name));
    match code {
        ResponseCode::NoError => Ok(()),
        ResponseCode::NotAuth | ResponseCode::NotZone => Err(Fault::NotPrimary { zone }),
        ResponseCode::Refused => Err(Fault::Refused { zone, key }),
        code => Err(Fault::Code(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_with_or_without_a_port() {
        for (text, shown) in [
            ("ns1.example.org", "ns1.example.org:53"),
            ("ns1.example.org:5353", "ns1.example.org:5353"),
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:54", "192.0.2.1:54"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("[2001:db8::1]:54", "[2001:db8::1]:54"),
        ] {
            let server: DnsServer = text.parse().unwrap();
            assert_eq!(server.to_string(), shown);
            assert_eq!(shown.parse::<DnsServer>().unwrap(), server);
        }
        for text in ["", ":53", "ns1:0", "ns1:x", "ns 1", "ns1:53:53", "-x"] {
            assert_eq!(text.parse::<DnsServer>(), Err(InvalidDnsServer), "{text}");
        }
    }

    #[test]
    fn an_answer_to_an_update_is_a_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let text = "key k { algorithm hmac-sha256; secret MDEyMzQ1Njc4OWFiY2RlZg==; };";
        home::write_private(&path, text.as_bytes()).unwrap();
        let key = TsigKey::read(&path).unwrap();
        let zone = Name::from_ascii("ring.test.").unwrap();
        let of = |code| verdict(code, &zone, &key);
        assert!(of(ResponseCode::NoError).is_ok());
        assert!(matches!(
            of(ResponseCode::NotAuth),
            Err(Fault::NotPrimary { .. })
        ));
        let refused = of(ResponseCode::Refused).unwrap_err().to_string();
        assert!(
            refused.contains("`k`") && refused.contains("ring.test "),
            "{refused}"
        );
        let failed = of(ResponseCode::ServFail);
        assert!(matches!(failed, Err(Fault::Code(ResponseCode::ServFail))));
    }
}
