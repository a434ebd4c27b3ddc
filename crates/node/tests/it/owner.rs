//! What the ring owner does, and may not do.

use ringway_node::authority::Authority;

use crate::place::{Place, files};

#[test]
fn a_folder_holds_one_ring_and_a_second_init_changes_nothing() {
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
fn options_that_cannot_work_are_refused_before_anything_is_made() {
    let place = Place::new();
    let folder = place.home("another");
    let unspecified = "0.0.0.0:53".parse().unwrap();
    let wrong = [
        (|o: &mut ringway_node::authority::InitOptions, _| o.domain = "no domain".to_owned())
            as fn(&mut _, _),
        |o, _| o.successors = 1,
        |o, _| o.successors = 17,
        |o, address| o.dns = address,
        |o, address| o.enrol = address,
    ];
    for change in wrong {
        let mut options = place.options();
        change(&mut options, unspecified);
        let refused = Authority::init(&folder, &options).unwrap_err();
        assert!(refused.is_usage(), "{refused}");
        assert!(!folder.exists());
    }
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
