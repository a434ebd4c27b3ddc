//! Members that reach DNS of their ring, and not the port at which members enrol.

use super::*;

#[test]
fn certificates_are_renewed_where_only_dns_answers() {
    let Some(network) = Network::or_skip("renewal by DNS").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let ring = started(lan.routers(&["oslo", "lima"]).lifetime("90s"));
    for words in [
        "add table ip shut",
        "add chain ip shut in { type filter hook input priority 0 ; }",
        "add rule ip shut in tcp dport 7410 reject with tcp reset",
    ] {
        let words: Vec<&str> = ["nft"].into_iter().chain(words.split(' ')).collect();
        lan.host("owner").check(&words).unwrap();
    }
    for name in ["oslo", "lima"] {
        let member = ring.member(name).unwrap();
        let serial = || Ok::<_, TestbedError>(member.status()?["serial"].as_u64());
        let first = serial().unwrap();
        let renewed = wait_until(DEADLINE, || match serial()? > first {
            true => Ok(()),
            false => Err(TestbedError("it has no newer certificate".to_owned())),
        });
        renewed.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
        assert!(member.status().unwrap()["not_renewed"].is_null());
    }
}
