//! Questions to the daemon of the router.

use std::path::Path;

use ringway_node::control::{
    Client, ClientError, CountsToLeave, NamedCount, Reply, Request, TallyFound,
};
use tokio::time::timeout;

use crate::limits::ANSWER;

/// Leaves counts; gives the names of those that some router has now.
pub(crate) async fn leave(
    control: &Path,
    counts: Vec<NamedCount>,
    expires: u64,
) -> Result<Vec<String>, String> {
    let replies = ask(control, Request::Count(CountsToLeave { counts, expires })).await?;
    let left = replies.into_iter().filter_map(|reply| match reply {
        Reply::CountLeft(left) if left.copies > 0 => Some(left.name),
        _ => None,
    });
    Ok(left.collect())
}

/// Reads what routers have counted under a name.
pub(crate) async fn tally(control: &Path, name: String) -> Result<TallyFound, String> {
    let replies = ask(control, Request::Tally { name }).await?;
    let found = replies.into_iter().find_map(|reply| match reply {
        Reply::Tally(found) => Some(found),
        _ => None,
    });
    let found = found.ok_or_else(|| "the daemon has answered something else".to_owned())?;
    // Those who keep it may have been hidden.
    if found.answers == 0 {
        return Err("no router that keeps it answers".to_owned());
    }
    Ok(found)
}

async fn ask(control: &Path, request: Request) -> Result<Vec<Reply>, String> {
    let asked = async { Client::request(control, &request).await?.all().await };
    match timeout(ANSWER, asked).await {
        Ok(replies) => replies.map_err(|error: ClientError| error.to_string()),
        Err(_) => Err("the daemon does not answer".to_owned()),
    }
}
