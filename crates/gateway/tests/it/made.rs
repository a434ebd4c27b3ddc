//! The samples that the program makes for itself are classified as they say.

use ringway_gateway::{Confidence, classify_file, samples};

#[test]
fn exactly_the_expected_flows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut flows = Vec::new();
    for path in samples::write(folder.path()).unwrap() {
        let summary = classify_file(&path, &mut |flow| flows.push(flow)).unwrap();
        assert_eq!(
            summary.counters.packets,
            summary.counters.in_flows,
            "{}",
            path.display()
        );
    }
    let expected = samples::expected();
    assert_eq!(flows.len(), expected.len());
    for one in expected {
        let flow = flows
            .iter()
            .find(|flow| one.is_flow_of(flow))
            .unwrap_or_else(|| panic!("no flow {one:?}"));
        assert_eq!(flow.app, one.app, "{flow:?}");
        assert!(
            flow.confidence >= Confidence::Likely || flow.app == "unknown",
            "{flow:?}"
        );
    }
}

#[test]
fn details_are_told() {
    let folder = tempfile::tempdir().unwrap();
    samples::write(folder.path()).unwrap();
    let mut details = Vec::new();
    let mut note = |flow: ringway_gateway::FlowRecord| details.push((flow.app, flow.details));
    for file in ["made-web.pcap", "made-bittorrent.pcap"] {
        classify_file(&folder.path().join(file), &mut note).unwrap();
    }
    let of = |app: &str| {
        details
            .iter()
            .find(|(name, _)| name == app)
            .map(|(_, details)| details.clone())
            .unwrap()
    };
    assert_eq!(of("dns").query.as_deref(), Some("www.example.com"));
    assert_eq!(of("tls").sni.as_deref(), Some("www.example.com"));
    assert_eq!(of("http").host.as_deref(), Some("www.example.com"));
    assert_eq!(
        of("bittorrent").host.as_deref(),
        Some("tracker.example.org")
    );
}

#[test]
fn record_is_flat_with_the_promised_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = samples::write(folder.path()).unwrap().remove(0);
    let mut first = None;
    classify_file(&path, &mut |flow| {
        first.get_or_insert(flow);
    })
    .unwrap();
    let value = serde_json::to_value(first.unwrap()).unwrap();
    let object = value.as_object().unwrap();
    for field in [
        "schema",
        "file",
        "l4",
        "client_ip",
        "client_port",
        "server_ip",
        "server_port",
        "app",
        "confidence",
        "packets",
        "bytes",
        "evidence",
        "host",
    ] {
        assert!(object.contains_key(field), "{field} is missing in {value}");
    }
    assert!(
        object
            .values()
            .all(|field| !field.is_object() && !field.is_array()),
        "{value}"
    );
    assert_eq!(value["l4"], "tcp");
    assert_eq!(value["confidence"], "certain");
    assert_eq!(value["client_ip"], "10.0.0.5");
}
