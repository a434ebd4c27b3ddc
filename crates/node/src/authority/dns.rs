//! The embedded authoritative DNS server: the ring's zone, rebuilt whenever it has changed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use hickory_proto::rr::rdata::{A, AAAA, NS, SOA, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordSet, RecordType, RrKey};
use hickory_server::net::runtime::Time;
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, ZoneHandler, ZoneType};

use super::Published;
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
}

impl std::fmt::Debug for LiveZone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveZone").finish_non_exhaustive()
    }
}

impl LiveZone {
    pub(super) fn new(catalog: Catalog) -> LiveZone {
        LiveZone {
            catalog: Arc::new(RwLock::new(Arc::new(catalog))),
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
        self.current()
            .handle_request::<R, T>(request, response_handle)
            .await
    }
}

/// Builds the zone of `domain` from `records`; `server` is the address its name server is reached
/// at, `serial` the number in its SOA.
pub(super) fn build(
    domain: &str,
    server: SocketAddr,
    serial: u32,
    records: &[Published],
) -> Result<Catalog, ZoneError> {
    let origin = Name::from_ascii(format!("{}.", domain.trim_end_matches('.')))?;
    let name_server = Name::from_ascii("ns")?.append_domain(&origin)?;
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
    let address = match server.ip() {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    };
    let mut sets = Sets::default();
    sets.add(origin.clone(), RData::SOA(soa));
    sets.add(origin.clone(), RData::NS(NS(name_server.clone())));
    sets.add(name_server, address);
    for (name, content) in records {
        let owner = Name::from_ascii(name.qualified(domain))?;
        sets.add(owner, RData::TXT(TXT::new(zone::to_txt(content))));
    }
    let handler = InMemoryZoneHandler::<hickory_server::net::runtime::TokioRuntimeProvider>::new(
        origin.clone(),
        sets.0,
        ZoneType::Primary,
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
