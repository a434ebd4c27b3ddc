//! What the ring owner does, and may not do.

use std::net::SocketAddr;
use std::time::Duration;

use ringway_node::authority::{AddressChange, Authority, Server, Site};
use ringway_node::certificate::Role;
use ringway_node::config::Config;
use ringway_node::directory::Directory;
use ringway_node::enrol::{Locator, bring, join};
use ringway_node::state::{Membership, State};
use ringway_testbed::free_address;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::place::{Place, files};

/// A folder holds one ring.
#[test]
fn second_init_changes_nothing() {
    let place = Place::new();
    let before = files(&place.owner());
    let refused = Authority::init(&place.owner(), &place.options()).unwrap_err();
    assert!(
        refused.is_usage() && refused.to_string().contains("--dir"),
        "{refused}"
    );
    assert_eq!(files(&place.owner()), before);
}

#[test]
fn impossible_options_create_no_folder() {
    let place = Place::new();
    let folder = place.home("another");
    let unspecified: Site = "0.0.0.0:53".parse().unwrap();
    let wrong = [
        (|o: &mut ringway_node::authority::InitOptions, _| o.domain = "no domain".to_owned())
            as fn(&mut _, _),
        |o, _| o.successors = 1,
        |o, _| o.successors = 17,
        |o, _| o.group = 4,
        |o, _| o.group = 8,
        |o, _| o.group = 17,
        |o, address| o.dns = address,
        |o, address| o.enrol = address,
        |o, _| o.domain = "localhost".to_owned(),
    ];
    for change in wrong {
        let mut options = place.options();
        change(&mut options, unspecified.clone());
        let refused = Authority::init(&folder, &options).unwrap_err();
        assert!(refused.is_usage(), "{refused}");
        assert!(!folder.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_use_the_owners_group_size() {
    let place = Place::with(|options| options.group = 5);
    assert_eq!(place.authority().ring().group, 5);
    let _serving = place.serve().await;
    let invite = place.invite("oslo", Role::Router);
    let address = Some(free_address().unwrap());
    join(&place.home("oslo"), &invite, address).await.unwrap();
    let state = State::open(&place.home("oslo")).unwrap();
    let membership = state.membership().unwrap().unwrap();
    assert_eq!(membership.statement.group(), 5);
}

#[test]
fn zone_file_takes_ipv4_and_ipv6_servers() {
    let place = Place::new();
    let v4 = place.authority().zone_file().unwrap();
    assert!(v4.contains("\nns IN A 127.0.0.1\n"), "{v4}");
    let place = Place::with(|options| options.dns = "[::1]:7453".parse().unwrap());
    let v6 = place.authority().zone_file().unwrap();
    assert!(v6.contains("\nns IN AAAA ::1\n"), "{v6}");
}

#[test]
fn only_members_can_be_revoked() {
    let place = Place::new();
    let refused = place.authority().revoke("nobody").unwrap_err();
    assert!(
        refused.is_usage() && refused.to_string().contains("nobody"),
        "{refused}"
    );
}

#[test]
fn the_root_key_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    for (path, _) in files(&place.owner()) {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}

/// The earlier address stays for those that know no other, until a restart.
#[tokio::test(flavor = "multi_thread")]
async fn running_authority_follows_its_addresses() {
    let place = Place::new();
    let serving = place.serve().await;
    let before = place.invite("alice", Role::Leaf);
    let elsewhere = |address: SocketAddr| SocketAddr::from(([127, 0, 0, 2], address.port()));
    let change = AddressChange {
        dns: Some(elsewhere(place.dns).into()),
        enrol: Some(elsewhere(place.enrol).into()),
        ..AddressChange::default()
    };
    let address = place.authority().change_address(&change).unwrap();
    assert_eq!(address.former_dns, [place.dns.into()]);
    while TcpStream::connect(elsewhere(place.enrol)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (name, invite) in [("alice", before), ("bob", place.invite("bob", Role::Leaf))] {
        join(&place.home(name), &invite, None).await.unwrap();
        let state = State::open(&place.home(name)).unwrap();
        let statement = state.membership().unwrap().unwrap().statement;
        let contact = statement.contact().unwrap();
        assert_eq!(contact.dns, elsewhere(place.dns).into());
        let config = Config::load(&place.home(name)).unwrap();
        assert_eq!(config.node.resolver, Some(contact.dns.clone()));
    }
    serving.end().await;
    let _serving = place.serve().await;
    assert!(TcpStream::connect(elsewhere(place.enrol)).await.is_ok());
    assert!(TcpStream::connect(place.enrol).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn address_changed_while_it_starts_is_followed() {
    let place = Place::new();
    let bound = Server::bind(place.authority()).await.unwrap();
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], place.enrol.port()));
    let change = AddressChange {
        enrol: Some(elsewhere.into()),
        ..AddressChange::default()
    };
    place.authority().change_address(&change).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let handle = bound.handle();
    let running = tokio::spawn(bound.run(async { stopped.await.unwrap_or_default() }));
    // It answers once it serves.
    assert!(handle.beat().await.is_some());
    assert!(TcpStream::connect(elsewhere).await.is_ok());
    drop(stop);
    running.await.unwrap().unwrap();
}

/// A host name is what members are given, and resolved by each of them.
#[tokio::test(flavor = "multi_thread")]
async fn members_join_at_host_names() {
    let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
    let named = |address: SocketAddr| Site {
        advertised: format!("localhost:{}", address.port()).parse().unwrap(),
        listen: Some(address),
    };
    let place = Place::with(|options| {
        options.dns = named(dns);
        options.enrol = named(enrol);
    });
    let _serving = place.serve().await;
    let invite = place.invite("alice", Role::Leaf);
    join(&place.home("alice"), &invite, None).await.unwrap();
    let config = Config::load(&place.home("alice")).unwrap();
    let resolver = config.node.resolver.unwrap();
    assert_eq!(resolver, named(dns).advertised);
    let membership = State::open(&place.home("alice")).unwrap();
    let Membership {
        ring,
        domain,
        statement,
        certificate,
    } = membership.membership().unwrap().unwrap();
    // The record at `_enrol` has the name as well, and DNS is asked by its name.
    let locator = Locator::new(&domain, Some(resolver.clone()));
    let brought = bring(&locator, &statement, &certificate).await;
    assert!(matches!(brought, Ok(false)), "{brought:?}");
    let directory = Directory::new(ring, &domain, statement, Some(resolver)).unwrap();
    // The zone follows what was signed, a moment later.
    let found = loop {
        match directory.find("alice").await {
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            found => break found.unwrap(),
        }
    };
    assert_eq!(found.member(), certificate.member());
    let zone = place.authority().zone_file().unwrap();
    assert!(zone.contains("@ IN NS localhost.\n"), "{zone}");
}
