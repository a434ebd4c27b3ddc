//! Messages in several packets of which the rest never comes.

use super::*;
use crate::limits::{REASSEMBLY_BYTES, REASSEMBLY_BYTES_IN_ALL};

/// The bytes that a member's links hold, counted link by link.
fn held(links: &Links) -> usize {
    links.peers.values().map(Peer::reassembly_bytes).sum()
}

fn first_pieces(links: &mut Links, member: &MemberId) {
    for id in 0..16 {
        for index in 0..63 {
            links
                .peers
                .reassemble(member, id, (index, 64), vec![1; 60_000]);
        }
    }
}

#[test]
fn first_pieces_of_all_members_hold_bounded_bytes() {
    let owner = Identity::generate().unwrap();
    let count = 2 + u8::try_from(REASSEMBLY_BYTES_IN_ALL / REASSEMBLY_BYTES).unwrap();
    let members = (1..=count).map(|number| member(&owner, &format!("m{number}"), number));
    let mut net = Net::new(members.collect());
    let ids: Vec<MemberId> = net.members.iter().map(|m| m.certificate.member()).collect();
    for from in 1..usize::from(count) {
        net.connect(from, 0);
        net.settle();
    }
    let links = &mut net.members[0].links;
    let (honest, others) = ids[1..].split_first().unwrap();
    assert_eq!(
        links.peers.reassemble(honest, 1, (0, 2), vec![1; 1_000]),
        None
    );
    for sender in others {
        first_pieces(links, sender);
        assert!(links.peers.get(sender).unwrap().reassembly_bytes() <= REASSEMBLY_BYTES);
    }
    assert_eq!(links.peers.reassembly_bytes, held(links));
    assert!(held(links) > REASSEMBLY_BYTES_IN_ALL / 2);
    assert!(held(links) <= REASSEMBLY_BYTES_IN_ALL);
    let whole = links.peers.reassemble(honest, 1, (1, 2), vec![2; 1_000]);
    assert_eq!(
        whole.map(|whole| whole.len()),
        Some(2_000),
        "the smallest stays"
    );
    for sender in others {
        links.forget(sender, LinkEnd::Silent);
    }
    assert_eq!((links.peers.reassembly_bytes, held(links)), (0, 0));
}
