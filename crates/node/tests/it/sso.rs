//! Members that join because their people have signed in at an issuer, and all that does not make
//! one. The issuer is a small one of the testbed, which can be told to do wrong.

use std::time::Duration;

use ringway_node::authority::MemberState;
use ringway_node::certificate::Role;
use ringway_node::enrol::{JoinError, SignInOptions, SignInPrompt, SignedInAs, join, sign_in};
use ringway_node::sso::{JoinLink, Settings};
use ringway_testbed::{CLIENT, Fault, Issuer, free_address};
use serde_json::{Value, json};

use crate::place::{Place, Serving};

/// A ring whose people sign in.
struct Sso {
    place: Place,
    serving: Serving,
    issuer: Issuer,
}

fn ada() -> Value {
    json!({
        "sub": "ada-1", "groups": ["staff"], "email": "ada@example.org", "email_verified": true,
        "preferred_username": "ada",
    })
}

fn options(machine: &str) -> SignInOptions {
    SignInOptions {
        machine: machine.to_owned(),
        listen: None,
        advertise: None,
        at: None,
        resolver: None,
    }
}

impl Sso {
    async fn new(change: impl FnOnce(&mut Settings)) -> Sso {
        Sso::of(Place::new(), change).await
    }

    async fn of(place: Place, change: impl FnOnce(&mut Settings)) -> Sso {
        let issuer = Issuer::start(true).unwrap();
        let serving = place.serve().await;
        let sso = Sso {
            place,
            serving,
            issuer,
        };
        let mut settings = sso.settings();
        change(&mut settings);
        sso.serving.handle.set_sign_in(Some(settings)).unwrap();
        sso
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.issuer.url(), vec!["staff".to_owned()]);
        settings.secret = Some(CLIENT.1.to_owned().into());
        settings
    }

    fn link(&self) -> JoinLink {
        self.place.authority().join_link()
    }

    /// Joins with the home `machine`, and signs in as whom the claims say.
    async fn join(&self, machine: &str, claims: Value) -> Result<SignedInAs, JoinError> {
        let mut options = options(machine);
        options.resolver = Some(self.place.dns.into());
        self.join_with(&options, claims).await
    }

    async fn join_with(
        &self,
        options: &SignInOptions,
        claims: Value,
    ) -> Result<SignedInAs, JoinError> {
        let act = |prompt: &SignInPrompt| {
            assert!(prompt.url.starts_with(&self.issuer.url()), "{prompt:?}");
            self.issuer.sign_in(&prompt.code, claims.clone()).unwrap();
        };
        self.joining(&options.machine, &self.link(), options, act)
            .await
    }

    /// Joins with that home, and does `act` as the person.
    async fn joining(
        &self,
        home: &str,
        link: &JoinLink,
        options: &SignInOptions,
        act: impl FnMut(&SignInPrompt),
    ) -> Result<SignedInAs, JoinError> {
        sign_in(&self.place.home(home), link, options, act).await
    }

    /// Why that brings no certificate for the machine `laptop`.
    async fn in_vain(&self, act: impl FnMut(&SignInPrompt)) -> String {
        let (link, options) = (self.link(), options("laptop"));
        let joined = self.joining("laptop", &link, &options, act).await;
        joined.unwrap_err().to_string()
    }

    /// Why that brings no certificate; no one has become a member by it.
    async fn refused(&self, machine: &str, claims: Value) -> String {
        let before = self.place.authority().members().unwrap().len();
        let refused = self.join(machine, claims).await.unwrap_err();
        let after = self.place.authority().members().unwrap().len();
        assert_eq!(before, after, "{refused}");
        refused.to_string()
    }
}

#[tokio::test]
async fn person_of_the_group_joins() {
    let sso = Sso::new(|_| {}).await;
    let joined = sso.join("laptop", ada()).await.unwrap();
    assert_eq!(joined.joined.name, "ada-laptop");
    assert_eq!((joined.joined.role.as_str(), joined.until), ("leaf", None));
    assert_eq!(joined.person, "ada@example.org");
    let members = sso.place.authority().members().unwrap();
    let entry = members[0].sso.clone().unwrap();
    assert_eq!(
        (entry.person.as_str(), entry.subject.as_str()),
        ("ada@example.org", "ada-1")
    );
    assert_eq!(
        (entry.issuer, entry.groups),
        (sso.issuer.url(), vec!["staff".to_owned()])
    );
    assert_eq!(members[0].state, MemberState::Active);
    // As many as the issuer wants to be asked, and no more.
    assert_eq!(sso.issuer.counts(), (1, 0));
}

#[tokio::test]
async fn both_kinds_of_signatures_are_verified() {
    let sso = Sso::new(|_| {}).await;
    sso.join("curve", ada()).await.unwrap();
    sso.issuer.change_keys(false).unwrap();
    sso.join("rsa", ada()).await.unwrap();
}

#[tokio::test]
async fn keys_may_change_while_a_person_signs_in() {
    let sso = Sso::new(|_| {}).await;
    let act = |prompt: &SignInPrompt| {
        sso.issuer.change_keys(true).unwrap();
        sso.issuer.sign_in(&prompt.code, ada()).unwrap();
    };
    let joined = sso
        .joining("laptop", &sso.link(), &options("laptop"), act)
        .await;
    assert_eq!(joined.unwrap().joined.name, "ada-laptop");
}

#[tokio::test]
async fn forged_tokens_make_no_member() {
    let sso = Sso::new(|_| {}).await;
    for (n, (fault, expected)) in [
        (Fault::OtherAudience, "Invalid audiences"),
        (Fault::TwoAudiences, "not a trusted audience"),
        (Fault::OtherIssuer, "Invalid issuer"),
        (Fault::Expired, "expired at"),
        (Fault::Old, "before this sign-in"),
        (Fault::Tomorrow, "compare the clocks"),
        (Fault::NoSignature, "No signature"),
        (Fault::SharedSecret, "algorithm `HS256`"),
        (Fault::OtherKey, "verify"),
        (Fault::Changed, "verify"),
        (Fault::OtherNonce, "nonce"),
        (Fault::NoToken, "no ID token"),
    ]
    .into_iter()
    .enumerate()
    {
        sso.issuer.set_fault(fault);
        let refused = sso.refused(&format!("m{n}"), ada()).await;
        assert!(refused.contains("does not verify"), "{fault:?}: {refused}");
        assert!(refused.contains(expected), "{fault:?}: {refused}");
    }
    sso.issuer.set_fault(Fault::None);
    sso.join("laptop", ada()).await.unwrap();
}

#[tokio::test]
async fn faulty_issuers_are_named() {
    let sso = Sso::new(|_| {}).await;
    for (n, (fault, expected)) in [
        (Fault::NoDeviceGrant, "no device authorization grant"),
        (Fault::OtherDiscovery, "unexpected issuer"),
        (Fault::Redirects, "redirects to http://192.0.2.1"),
        (Fault::Endless, "longer than"),
        (Fault::Pages, "does not answer"),
    ]
    .into_iter()
    .enumerate()
    {
        sso.issuer.set_fault(fault);
        let refused = sso.refused(&format!("m{n}"), ada()).await;
        assert!(refused.contains(expected), "{fault:?}: {refused}");
    }
}

#[tokio::test]
async fn code_that_runs_out_is_told() {
    let sso = Sso::new(|_| {}).await;
    sso.issuer.set_fault(Fault::ShortCodes);
    let refused = sso.in_vain(|_| {}).await;
    assert!(refused.contains("has run out before"), "{refused}");
}

#[tokio::test]
async fn issuer_that_is_off_is_named() {
    let gone = free_address().unwrap();
    let sso = Sso::new(|settings| settings.issuer = format!("http://{gone}/")).await;
    let refused = sso.refused("laptop", ada()).await;
    assert!(
        refused.contains("does not answer the ring's authority"),
        "{refused}"
    );
    assert!(refused.contains(&gone.to_string()), "{refused}");
}

#[tokio::test]
async fn wrong_secret_is_the_owners_matter() {
    let sso = Sso::new(|settings| settings.secret = Some("wrong".to_owned().into())).await;
    let refused = sso.refused("laptop", ada()).await;
    assert!(refused.contains("invalid_client"), "{refused}");
    assert!(refused.contains("oidc-secret"), "{refused}");
}

#[tokio::test]
async fn other_groups_make_no_member() {
    let sso = Sso::new(|_| {}).await;
    let mut eve = ada();
    eve["groups"] = json!(["students", "Staff"]);
    let refused = sso.refused("m1", eve.clone()).await;
    assert!(
        refused.contains("in no group that may join this ring (staff)"),
        "{refused}"
    );
    eve.as_object_mut().unwrap().remove("groups");
    let refused = sso.refused("m2", eve).await;
    assert!(refused.contains("claim `groups`"), "{refused}");
}

#[tokio::test]
async fn refused_sign_in_makes_no_member() {
    let sso = Sso::new(|_| {}).await;
    let refused = sso
        .in_vain(|prompt| sso.issuer.deny(&prompt.code).unwrap())
        .await;
    assert!(refused.contains("refused at the issuer"), "{refused}");
}

#[tokio::test]
async fn slow_down_is_obeyed() {
    let sso = Sso::new(|_| {}).await;
    sso.issuer.set_fault(Fault::SlowDown);
    sso.join("laptop", ada()).await.unwrap();
    assert_eq!(sso.issuer.counts(), (1, 0));
}

#[tokio::test]
async fn link_of_another_ring_is_refused() {
    let sso = Sso::new(|_| {}).await;
    let mut link = sso.link();
    link.ring = Place::new().authority().join_link().ring;
    let options = options("laptop");
    let joined = sso.joining("laptop", &link, &options, |_| panic!("it was begun"));
    let refused = joined.await.unwrap_err().to_string();
    assert!(
        refused.contains("is not this ring's authority"),
        "{refused}"
    );
}

#[tokio::test]
async fn authority_that_moved_is_found_by_dns() {
    let sso = Sso::new(|_| {}).await;
    let mut link = sso.link();
    link.enrol = free_address().unwrap().into();
    let mut options = options("laptop");
    options.resolver = Some(sso.place.dns.into());
    let act = |prompt: &SignInPrompt| sso.issuer.sign_in(&prompt.code, ada()).unwrap();
    sso.joining("laptop", &link, &options, act).await.unwrap();
}

#[tokio::test]
async fn names_and_machines_are_bounded() {
    let sso = Sso::new(|settings| settings.machines = 2).await;
    sso.join("one", ada()).await.unwrap();
    // Another person of the same name part would pass for her.
    let mut other = ada();
    other["sub"] = json!("ada-2");
    let refused = sso.refused("two", other).await;
    assert!(
        refused.contains("another person are named `ada`"),
        "{refused}"
    );
    sso.join("three", ada()).await.unwrap();
    let refused = sso.refused("four", ada()).await;
    assert!(refused.contains("has 2 machines"), "{refused}");
    assert!(refused.contains("ada-one, ada-three"), "{refused}");
    sso.place.authority().revoke("ada-one").unwrap();
    sso.join("five", ada()).await.unwrap();
    let mut taken = options("three");
    taken.listen = Some(free_address().unwrap());
    taken.machine = "six".to_owned();
    let refused = sso.join_with(&taken, ada()).await.unwrap_err().to_string();
    assert!(refused.contains("only leaves"), "{refused}");
}

#[tokio::test]
async fn invited_names_are_kept() {
    let sso = Sso::new(|settings| settings.names = "{machine}".parse().unwrap()).await;
    let invite = sso.place.invite("server", Role::Leaf);
    let refused = sso.refused("server", ada()).await;
    assert!(refused.contains("belongs to another member"), "{refused}");
    join(&sso.place.home("invited"), &invite, None)
        .await
        .unwrap();
    // A member that was invited is not taken over by a person that has its home.
    let act = |prompt: &SignInPrompt| sso.issuer.sign_in(&prompt.code, ada()).unwrap();
    let joined = sso
        .joining("invited", &sso.link(), &options("other"), act)
        .await;
    let refused = joined.unwrap_err().to_string();
    assert!(refused.contains("member `server`"), "{refused}");
}

#[tokio::test]
async fn person_signs_in_again_before_its_end() {
    let again = Duration::from_secs(3_600);
    let sso = Sso::new(|settings| settings.again = Some(again)).await;
    let first = sso.join("laptop", ada()).await.unwrap();
    let member = &sso.place.authority().members().unwrap()[0];
    // No certificate outlasts the sign-in.
    assert_eq!(Some(member.expires), first.until);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let second = sso.join("laptop", ada()).await.unwrap();
    assert!(second.stays && second.until > first.until);
    let mut eve = ada();
    eve["sub"] = json!("eve-1");
    let refused = sso.refused("laptop", eve).await;
    assert!(
        refused.contains("another person has signed in"),
        "{refused}"
    );
    let mut left = ada();
    left["groups"] = json!([]);
    let refused = sso.refused("laptop", left).await;
    assert!(refused.contains("in no group"), "{refused}");
}

#[tokio::test]
async fn ended_member_signs_in_and_stays() {
    let again = Duration::from_secs(10);
    let sso = Sso::new(|settings| settings.again = Some(again)).await;
    let first = sso.join("laptop", ada()).await.unwrap();
    tokio::time::sleep(again + Duration::from_millis(1_500)).await;
    let second = sso.join("laptop", ada()).await.unwrap();
    assert!(second.joined.again && !second.stays);
    assert_eq!(first.joined.member, second.joined.member);
    assert_eq!(first.joined.name, second.joined.name);
}

#[tokio::test]
async fn changed_settings_close_sign_ins() {
    let sso = Sso::new(|_| {}).await;
    let act = |prompt: &SignInPrompt| {
        sso.issuer.sign_in(&prompt.code, ada()).unwrap();
        // The same again change nothing.
        sso.serving
            .handle
            .set_sign_in(Some(sso.settings()))
            .unwrap();
        let mut settings = sso.settings();
        settings.machines = 4;
        sso.serving.handle.set_sign_in(Some(settings)).unwrap();
    };
    let refused = sso.in_vain(act).await;
    assert!(refused.contains("does not know this sign-in"), "{refused}");
    sso.serving.handle.set_sign_in(None).unwrap();
    let refused = sso.refused("laptop", ada()).await;
    assert!(refused.contains("ask its owner for an invite"), "{refused}");
}

#[tokio::test]
async fn begun_sign_ins_are_few() {
    let gone = free_address().unwrap();
    let sso = Sso::new(|settings| settings.issuer = format!("http://{gone}/")).await;
    // Each costs the issuer some requests, whether it answers or not.
    for _ in 0..60 {
        let refused = sso.in_vain(|_| {}).await;
        if refused.contains("try again in a minute") {
            return;
        }
    }
    panic!("sign-ins without end");
}
