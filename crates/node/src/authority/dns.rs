//! The embedded authoritative DNS server: the ring's zone, rebuilt whenever it has changed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use hickory_proto::rr::rdata::{A, AAAA, NS, SOA, TXT};
use hickory_proto::rr::{LowerName, Name, RData, Record, RecordSet, RecordType, RrKey};
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, MessageResponse, ZoneHandler, ZoneType};

use tokio::sync::mpsc;

use super::Published;
use crate::endpoint::Endpoint;
use crate::limits::DNS_UDP_BYTES;
use crate::renewal::by_dns;
use crate::zone;

/// Seconds for which others may cache a record.
///
/// Short, because a revocation takes at most this long where it travels by DNS alone.
pub(super) const TTL_SECONDS: u32 = 5;

/// Why a zone could not be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZoneError {
    /// A name or record has no DNS form.
    #[error("the zone could not be built: {0}")]
    Proto(#[from] hickory_proto::ProtoError),
    /// The server refused the zone.
    #[error("the zone could not be built: {0}")]
    Refused(String),
}

/// Answers from the zone that stands in it at the moment.
#[derive(Clone)]
pub(super) struct LiveZone {
    catalog: Arc<RwLock<Arc<Catalog>>>,
    domain: Arc<LowerName>,
    renewals: mpsc::Sender<by_dns::Request>,
}

impl std::fmt::Debug for LiveZone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveZone").finish_non_exhaustive()
    }
}

impl LiveZone {
    /// Requests for newer certificates go to `renewals`, as far as there is room.
    ///
    /// # Errors
    /// When the domain has no DNS form.
    pub(super) fn new(
        domain: &str,
        catalog: Catalog,
        renewals: mpsc::Sender<by_dns::Request>,
    ) -> Result<LiveZone, ZoneError> {
        let domain = origin(domain)?;
        Ok(LiveZone {
            catalog: Arc::new(RwLock::new(Arc::new(catalog))),
            domain: Arc::new(LowerName::from(domain)),
            renewals,
        })
    }

    /// Whether or not it is taken, the zone answers: there is nothing of that name.
    fn look_for_renewal(&self, request: &Request) {
        let Ok(info) = request.request_info() else {
            return;
        };
        let name = info.query.name();
        let labels = usize::from(self.domain.num_labels()) + 3;
        if usize::from(name.num_labels()) != labels || !self.domain.zone_of(name) {
            return;
        }
        let name: &Name = name;
        let mut labels = name.iter();
        if let (Some(first), Some(second), Some(kind)) =
            (labels.next(), labels.next(), labels.next())
            && kind == by_dns::LABEL.as_bytes()
            && let Some(renewal) = by_dns::Request::of_labels([first, second])
            && self.renewals.try_send(renewal).is_err()
        {
            tracing::debug!("a request by DNS for a newer certificate is dropped: too many wait");
        }
    }

    pub(super) fn replace(&self, catalog: Catalog) {
        let mut current = self
            .catalog
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *current = Arc::new(catalog);
    }

    fn current(&self) -> Arc<Catalog> {
        Arc::clone(
            &self
                .catalog
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }
}

#[async_trait]
impl RequestHandler for LiveZone {
    async fn handle_request<R: ResponseHandler, T: Time>(
        &self,
        request: &Request,
        response_handle: R,
    ) -> ResponseInfo {
        self.look_for_renewal(request);
        let catalog = self.current();
        match request.protocol() {
            Protocol::Udp => {
                let bounded = BoundedResponse(response_handle);
                catalog.handle_request::<_, T>(request, bounded).await
            }
            _ => {
                catalog
                    .handle_request::<R, T>(request, response_handle)
                    .await
            }
        }
    }
}

/// Sends responses of at most [`DNS_UDP_BYTES`], whatever size the query asks for. A longer one is
/// truncated and marked, so that the resolver repeats its query over TCP.
#[derive(Clone)]
struct BoundedResponse<R>(R);

#[async_trait]
impl<R: ResponseHandler> ResponseHandler for BoundedResponse<R> {
    async fn send_response<'a>(
        &mut self,
        response: MessageResponse<
            '_,
            'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
            impl Iterator<Item = &'a Record> + Send + 'a,
        >,
    ) -> Result<ResponseInfo, NetError> {
        let edns = response.edns().cloned().map(|mut edns| {
            edns.set_max_payload(DNS_UDP_BYTES);
            edns
        });
        let mut response = response;
        // Without EDNS the library itself keeps to the same bound.
        if let Some(edns) = &edns {
            response.set_edns(edns);
        }
        self.0.send_response(response).await
    }
}

fn origin(domain: &str) -> Result<Name, ZoneError> {
    let dotted = format!("{}.", domain.trim_end_matches('.'));
    Ok(Name::from_ascii(dotted)?)
}

/// Builds the zone of `domain` from `records`; `server` is where its name server is reached,
/// `serial` the number in its SOA. A server that is given by its host name has that one in the
/// zone, and no address.
pub(super) fn build(
    domain: &str,
    server: &Endpoint,
    serial: u32,
    records: &[Published],
) -> Result<Catalog, ZoneError> {
    let origin = origin(domain)?;
    let name_server = match server.name() {
        Some(name) => Name::from_ascii(format!("{name}."))?,
        None => Name::from_ascii("ns")?.append_domain(&origin)?,
    };
    let contact = Name::from_ascii("hostmaster")?.append_domain(&origin)?;
    let soa = SOA::new(
        name_server.clone(),
        contact,
        serial,
        3600,
        600,
        604_800,
        TTL_SECONDS,
    );
    let address = server.address().map(|address| match address.ip() {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    });
    let mut sets = Sets::default();
    sets.add(origin.clone(), RData::SOA(soa));
    sets.add(origin.clone(), RData::NS(NS(name_server.clone())));
    if let Some(address) = address {
        sets.add(name_server, address);
    }
    for (name, content) in records {
        let owner = Name::from_ascii(name.qualified(domain))?;
        sets.add(owner, RData::TXT(TXT::new(zone::to_txt(content))));
    }
    let handler = InMemoryZoneHandler::<hickory_server::net::runtime::TokioRuntimeProvider>::new(
        origin.clone(),
        sets.0,
        ZoneType::Primary,
        // A zone transfer would list all members to anyone who asks.
        AxfrPolicy::Deny,
    )
    .map_err(ZoneError::Refused)?;
    let mut catalog = Catalog::new();
    let handler: Arc<dyn ZoneHandler> = Arc::new(handler);
    catalog.upsert(origin.into(), vec![handler]);
    Ok(catalog)
}

#[derive(Default)]
struct Sets(BTreeMap<RrKey, RecordSet>);

impl Sets {
    fn add(&mut self, name: Name, data: RData) {
        let kind: RecordType = data.record_type();
        let record = Record::from_rdata(name.clone(), TTL_SECONDS, data);
        let set = self
            .0
            .entry(RrKey::new(name.clone().into(), kind))
            .or_insert_with(|| RecordSet::new(name, kind, 0));
        set.insert(record, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use futures_util::StreamExt as _;
    use hickory_proto::op::{Edns, Message, Query};
    use hickory_server::net::BufDnsStreamHandle;
    use hickory_server::net::runtime::TokioTime;
    use hickory_server::server::ResponseHandle;
    use tokio::net::{TcpListener, UdpSocket};

    use super::*;
    use crate::directory;
    use crate::zone::RecordName;

    const DOMAIN: &str = "ring.test";

    /// A zone whose owner statement is about as long as one can be.
    fn long_zone(server: SocketAddr) -> LiveZone {
        let statement = (RecordName::Ring, vec![7; 2_000]);
        let catalog = build(DOMAIN, &server.into(), 1, &[statement]).unwrap();
        LiveZone::new(DOMAIN, catalog, mpsc::channel(1).0).unwrap()
    }

    fn query(kind: RecordType, payload: Option<u16>) -> Vec<u8> {
        let name = Name::from_ascii(RecordName::Ring.qualified(DOMAIN)).unwrap();
        let mut message = Message::query();
        message.add_query(Query::query(name, kind));
        if let Some(payload) = payload {
            let mut edns = Edns::new();
            edns.set_max_payload(payload);
            message.edns = Some(edns);
        }
        message.to_vec().unwrap()
    }

    async fn answer(zone: &LiveZone, query: Vec<u8>, protocol: Protocol) -> Vec<u8> {
        let from = SocketAddr::from(([192, 0, 2, 1], 5_300));
        let request = Request::from_bytes(query, from, protocol).unwrap();
        let (handle, mut answers) = BufDnsStreamHandle::new(from);
        let handle = ResponseHandle::new(from, handle, protocol);
        zone.handle_request::<_, TokioTime>(&request, handle).await;
        answers.next().await.unwrap().into_parts().0
    }

    /// The sender's address of a datagram is not proved: a long answer would reach a victim.
    #[tokio::test]
    async fn long_answers_over_udp_are_truncated() {
        let zone = long_zone(([127, 0, 0, 1], 53).into());
        for kind in [RecordType::TXT, RecordType::ANY] {
            for payload in [None, Some(512), Some(1_232), Some(4_096), Some(u16::MAX)] {
                let query = query(kind, payload);
                let asked = query.len();
                let bytes = answer(&zone, query.clone(), Protocol::Udp).await;
                // Without EDNS the library leaves the beginning of what did not fit.
                let most = payload.map_or(usize::from(DNS_UDP_BYTES), |_| asked);
                assert!(bytes.len() <= most, "{asked} {}", bytes.len());
                let message = Message::from_vec(&bytes).unwrap();
                assert!(message.metadata.truncation, "{kind} {payload:?}");
                let bytes = answer(&zone, query, Protocol::Tcp).await;
                assert!(bytes.len() > 2_000);
                let message = Message::from_vec(&bytes).unwrap();
                assert!(!message.metadata.truncation);
            }
        }
    }

    #[tokio::test]
    async fn resolver_repeats_truncated_query_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let zone = long_zone(address);
        let mut server = hickory_server::Server::new(zone.clone());
        server.register_socket(UdpSocket::bind(address).await.unwrap());
        let tcp = tokio::spawn(super::super::dns_tcp::serve(listener, zone));
        let resolver = directory::resolver(&[address]).unwrap();
        let name = RecordName::Ring.qualified(DOMAIN);
        let lookup = resolver.lookup(name, RecordType::TXT).await.unwrap();
        let found = lookup
            .answers()
            .iter()
            .find_map(|record| match &record.data {
                RData::TXT(txt) => zone::from_txt(txt.txt_data.iter().map(AsRef::as_ref)),
                _ => None,
            });
        assert_eq!(found, Some(vec![7; 2_000]));
        tcp.abort();
    }
}
