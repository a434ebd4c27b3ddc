//! An authority whose folder was restored from a backup, as its members meet it.

use ringway_node::certificate::Role;
use ringway_node::enrol::{Locator, bring, join};
use ringway_node::state::{Membership, State};

use crate::place::{Place, files};

fn membership(place: &Place, name: &str) -> Membership {
    let state = State::open(&place.home(name)).unwrap();
    state.membership().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_bring_what_a_restored_authority_has_forgotten() {
    let place = Place::new();
    let serving = place.serve().await;
    let invite = place.invite("alice", Role::Leaf);
    join(&place.home("alice"), &invite, None).await.unwrap();
    serving.end().await;
    let backup = files(&place.owner());
    let serving = place.serve().await;
    let invite = place.invite("bob", Role::Leaf);
    join(&place.home("bob"), &invite, None).await.unwrap();
    place.authority().revoke("alice").unwrap();
    let invite = place.invite("carol", Role::Leaf);
    join(&place.home("carol"), &invite, None).await.unwrap();
    let carol = membership(&place, "carol");
    serving.end().await;

    for (path, _) in files(&place.owner()) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, content) in backup {
        std::fs::write(&path, content).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, private).unwrap();
    }
    let _serving = place.serve().await;
    let late = place.invite("dora", Role::Leaf);
    for name in ["carol", "bob"] {
        let certificate = membership(&place, name).certificate;
        let locator = Locator::new("ring.test", Some(place.dns.into()));
        let brought = bring(&locator, &carol.statement, &certificate).await;
        assert!(brought.unwrap(), "{name}");
    }
    let refused = place.authority().revoke("alice").unwrap_err().to_string();
    assert!(refused.contains("ring recover"), "{refused}");
    let refused = join(&place.home("dora"), &late, None).await.unwrap_err();
    assert!(refused.to_string().contains("ring recover"), "{refused}");

    let recovered = place.authority().recover().unwrap();
    assert_eq!(recovered.ended, ["alice"]);
    assert_eq!(recovered.members, ["bob", "carol"]);
    join(&place.home("dora"), &late, None).await.unwrap();
    let dora = membership(&place, "dora");
    let alice = membership(&place, "alice").certificate;
    assert!(dora.statement.revokes(alice.serial()));
    assert!(dora.statement.number() > carol.statement.number());
}
