//! What a DNS server has, what it should have, and the dynamic updates (RFC 2136) that lead from
//! the one to the other.

use hickory_proto::ProtoError;
use hickory_proto::op::{Message, OpCode, Query};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable as _;

use super::super::dns::TTL_SECONDS;
use crate::limits::UPDATE_BYTES;
use crate::zone;

/// A name of the zone, and what is to stand there: the content of its one TXT record, or no TXT
/// record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) name: Name,
    pub(super) content: Option<Vec<u8>>,
}

/// The TXT records that a server has at a name; of each its strings, joined.
pub(super) type Found = Vec<Vec<u8>>;

impl Wanted {
    /// The question what is there.
    pub(super) fn question(&self) -> Message {
        question(&self.name, RecordType::TXT)
    }

    /// True if `found` is just what is wanted.
    pub(super) fn is_met_by(&self, found: &Found) -> bool {
        match &self.content {
            None => found.is_empty(),
            Some(content) => *found == [zone::to_txt(content).concat().into_bytes()],
        }
    }

    /// The records of an update that make it so: they stand in one message, so that the name is
    /// never without its record.
    fn changes(&self, found: &Found) -> Vec<Record> {
        let mut records = Vec::new();
        if !found.is_empty() {
            // RFC 2136 §2.5.2: class ANY and no data delete the whole set.
            let mut delete = Record::update0(self.name.clone(), 0, RecordType::TXT);
            delete.dns_class = DNSClass::ANY;
            records.push(delete);
        }
        if let Some(content) = &self.content {
            let data = RData::TXT(TXT::new(zone::to_txt(content)));
            records.push(Record::from_rdata(self.name.clone(), TTL_SECONDS, data));
        }
        records
    }
}

/// A question for all records of a kind at a name.
pub(super) fn question(name: &Name, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(name.clone(), kind));
    message
}

/// The TXT records at `name` in an answer.
pub(super) fn found(answer: &Message, name: &Name) -> Found {
    let at_name = answer.answers.iter().filter(|record| record.name == *name);
    at_name
        .filter_map(|record| match &record.data {
            RData::TXT(txt) => Some(txt.txt_data.concat()),
            _ => None,
        })
        .collect()
}

/// What changes, in updates of bounded size.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) updates: Vec<Message>,
    /// Names that get a record, or another one.
    pub(super) written: usize,
    /// Names that lose theirs.
    pub(super) removed: usize,
    /// All of these names.
    pub(super) changed: Vec<Wanted>,
}

/// The updates of `zone` after which every name has what is wanted: first the statement, which
/// stands first, then what goes, then what comes. Who is revoked is known before all else, however
/// far the rest gets.
pub(super) fn plan(zone: &Name, all: &[(Wanted, Found)]) -> Result<Plan, ProtoError> {
    let differs = |(wanted, found): &&(Wanted, Found)| !wanted.is_met_by(found);
    let is_first =
        |entry: &(Wanted, Found)| all.first().is_some_and(|first| std::ptr::eq(entry, first));
    let mut ordered: Vec<&(Wanted, Found)> = all.iter().filter(differs).collect();
    ordered.sort_by_key(|entry| (!is_first(entry), entry.0.content.is_some()));
    let mut plan = Plan::default();
    let (mut open, mut size) = (Vec::new(), 0);
    for (wanted, found) in ordered {
        match wanted.content {
            Some(_) => plan.written += 1,
            None => plan.removed += 1,
        }
        // A name's changes stay in one update, which a server carries out as a whole (RFC 2136).
        let records = wanted.changes(found);
        let mut bytes = 0;
        for record in &records {
            bytes += record.to_bytes()?.len();
        }
        if !open.is_empty() && size + bytes > UPDATE_BYTES {
            plan.updates.push(update(zone, std::mem::take(&mut open)));
            size = 0;
        }
        size += bytes;
        open.extend(records);
        plan.changed.push(wanted.clone());
    }
    if !open.is_empty() {
        plan.updates.push(update(zone, open));
    }
    Ok(plan)
}

fn update(zone: &Name, records: Vec<Record>) -> Message {
    let mut message = Message::query();
    message.metadata.op_code = OpCode::Update;
    message.metadata.recursion_desired = false;
    message.add_query(Query::query(zone.clone(), RecordType::SOA));
    message.add_authorities(records);
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(label: usize) -> Name {
        Name::from_ascii(format!("n{label}._member.ring.test.")).unwrap()
    }

    fn wanted(label: usize, content: Option<&[u8]>) -> Wanted {
        Wanted {
            name: name(label),
            content: content.map(<[u8]>::to_vec),
        }
    }

    fn as_found(content: &[u8]) -> Found {
        vec![zone::to_txt(content).concat().into_bytes()]
    }

    #[test]
    fn nothing_changes_where_all_is_as_wanted() {
        let all = [
            (wanted(0, Some(b"statement")), as_found(b"statement")),
            (wanted(1, None), Found::new()),
        ];
        let plan = plan(&Name::from_ascii("ring.test.").unwrap(), &all).unwrap();
        assert!(plan.updates.is_empty() && plan.changed.is_empty());
    }

    #[test]
    fn the_statement_goes_first_and_removals_before_additions() {
        let all = [
            (wanted(0, Some(b"new")), as_found(b"old")),
            (wanted(1, Some(b"member")), Found::new()),
            (wanted(2, None), as_found(b"revoked")),
            (
                wanted(3, Some(b"one")),
                vec![b"two".to_vec(), as_found(b"one").concat()],
            ),
        ];
        let plan = plan(&Name::from_ascii("ring.test.").unwrap(), &all).unwrap();
        let order: Vec<&Name> = plan.changed.iter().map(|wanted| &wanted.name).collect();
        assert_eq!(order, [&name(0), &name(2), &name(1), &name(3)]);
        assert_eq!((plan.written, plan.removed), (3, 1));
    }

    proptest! {
        /// Against a model of a server: a map from names to records, to which each update is
        /// applied as RFC 2136 §3.4 says.
        #[test]
        fn applied_updates_give_the_wanted_zone(
            entries in proptest::collection::vec(
                (proptest::option::of(0u8..4), proptest::collection::vec(0u8..4, 0..3), 1usize..400), 1..200)
        ) {
            let zone = Name::from_ascii("ring.test.").unwrap();
            let content = |kind: u8, size: usize| vec![kind; size];
            let all: Vec<(Wanted, Found)> = entries.iter().enumerate().map(|(label, (want, have, size))| {
                let want = want.map(|kind| content(kind, *size));
                let have = have.iter().flat_map(|&kind| as_found(&content(kind, *size))).collect();
                (Wanted { name: name(label), content: want }, have)
            }).collect();
            let mut server: Vec<Found> = all.iter().map(|(_, found)| found.clone()).collect();
            for update in plan(&zone, &all).unwrap().updates {
                let bytes = update.to_vec().unwrap();
                prop_assert!(bytes.len() <= UPDATE_BYTES + 1_000, "{}", bytes.len());
                let update = Message::from_vec(&bytes).unwrap();
                for record in &update.authorities {
                    let label = all.iter().position(|(wanted, _)| wanted.name == record.name).unwrap();
                    match &record.data {
                        RData::TXT(txt) => {
                            let text = txt.txt_data.concat();
                            if !server[label].contains(&text) {
                                server[label].push(text);
                            }
                        }
                        _ => {
                            prop_assert_eq!((record.dns_class, record.ttl), (DNSClass::ANY, 0));
                            server[label].clear();
                        }
                    }
                }
            }
            for ((wanted, _), found) in all.iter().zip(&server) {
                prop_assert!(wanted.is_met_by(found));
            }
        }
    }
}
