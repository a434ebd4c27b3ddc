//! A promoted authority tells the one before that its time is over, as soon as that comes back.
//!
//! Members do so as well. But one that comes back at an address of its own may reach no member, and
//! it would invite and admit until then.

use rusqlite::params;

use super::store::Tables;
use super::{AuthorityError, SharedAuthority};
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::enrol;
use crate::limits::FORMER_RETRY;
use crate::statement::Statement;

/// Tells all that have not answered yet, for ever.
pub(super) async fn tell(authority: SharedAuthority) {
    let mut tick = tokio::time::interval(FORMER_RETRY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let read = authority.with(|authority| {
            // A standby has nothing to say, and a fenced one no right to.
            authority.check_current()?;
            Ok((
                Former(authority.store.tables()).all()?,
                authority.statement()?,
            ))
        });
        let Ok((former, statement)) = read.await else {
            continue;
        };
        for address in former {
            tell_one(&authority, &address, &statement).await;
        }
    }
}

async fn tell_one(authority: &SharedAuthority, address: &Endpoint, statement: &Statement) {
    let found = match address.resolve().await {
        Ok(found) => found,
        Err(error) => return tracing::debug!(%address, %error, "the authority before is not found"),
    };
    if let Err(error) = enrol::bring_to(found, statement, None).await {
        return tracing::debug!(%address, %error, "the authority before is not back");
    }
    tracing::warn!(%address, "the authority before is back, and was told that it is fenced");
    let address = address.clone();
    let told = authority.with(move |authority| {
        let told = Former(authority.store.tables()).told(&address);
        told.map_err(AuthorityError::from)
    });
    if let Err(error) = told.await {
        tracing::error!(%error, "the ring could not be changed");
    }
}

/// The authorities that have not been told yet.
struct Former<'a>(Tables<'a>);

impl Former<'_> {
    /// Where authorities of earlier terms were, that have not been told.
    fn all(&self) -> Result<Vec<Endpoint>, DatabaseError> {
        let fail = self.0.fail();
        let query = "SELECT enrol FROM former";
        let mut statement = self.0.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map([], |row| row.get::<_, String>(0))
            .map_err(&fail)?;
        let mut found = Vec::new();
        for row in rows {
            found.extend(row.map_err(&fail)?.parse::<Endpoint>().ok());
        }
        Ok(found)
    }

    fn told(&self, address: &Endpoint) -> Result<(), DatabaseError> {
        let forget = "DELETE FROM former WHERE enrol = ?1";
        let arguments = params![address.to_string()];
        let forgotten = self.0.connection.execute(forget, arguments);
        forgotten.map(|_| ()).map_err(self.0.fail())
    }
}
