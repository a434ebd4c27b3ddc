//! What is kept of proofs against routers: the ring's owner may want to see them, and the next
//! start has to know.

use std::sync::Arc;

use ringway_overlay::{Chord, Proof, RingKey};

use crate::evidence::Evidence;
use crate::member::core::Core;

/// What a router that is convicted itself is to do.
const OWN_CONVICTION: &str = "either there are two copies of this home, or this program has an error; end all copies but \
                              one, then the ring's owner gives this one a new key: `ringway ring rotate NAME`";

/// A router has been proven to lie: the ring's owner may want to see it, and the next start has
/// to know.
pub(super) fn keep_evidence(core: &Core, proof: &Proof) {
    let own = &core.membership.certificate;
    let is_own = own.ring_key() == Some(proof.guilty());
    let certificate_of = |key: RingKey| {
        if own.ring_key() == Some(key) {
            Some(own.clone())
        } else {
            core.directory.cached_router(&key)
        }
    };
    let Some(certificate) = certificate_of(proof.guilty()) else {
        return;
    };
    let ring = &core.membership.ring;
    let evidence = match proof {
        Proof::TwoStories { first, second } => Evidence::new(ring, &certificate, first, second),
        Proof::FalseAccusation(accusation) => {
            let accused = certificate_of(accusation.accused());
            // Without it the file would prove nothing.
            if accusation.contradicts() && accused.is_none() {
                return;
            }
            Evidence::of_false_accusation(ring, &certificate, accusation, accused.as_ref())
        }
    };
    let state = Arc::clone(&core.state);
    tokio::task::spawn_blocking(move || {
        let name = certificate.name();
        match evidence.keep(state.home(), &certificate.member()) {
            Ok(path) if is_own => tracing::error!(
                %name, file = %path.display(),
                "other routers hold proof that this router lies, and do not use it: {OWN_CONVICTION}"
            ),
            Ok(path) => tracing::warn!(
                %name, file = %path.display(),
                "a router has signed what convicts it of a lie, and is not used any more; the ring's owner can judge the file: `ringway ring judge`"
            ),
            Err(error) => tracing::error!(%name, %error, "evidence could not be kept"),
        }
    });
}

/// Those who were proven to lie before this start.
pub(super) fn recall_evidence(core: &Core, chord: &mut Chord) {
    for evidence in Evidence::kept(core.state.home()) {
        if let Ok(guilty) = evidence.judge(&core.membership.ring)
            && core.directory.admit(guilty.certificate.as_bytes()).is_ok()
        {
            if let Some(accused) = &guilty.accused {
                // Where it has ended no member can say any more what its holder has signed: its
                // accuser is forgotten.
                core.directory.admit(accused.as_bytes()).ok();
            }
            chord.recall(core.now, guilty.proof);
        }
    }
}
