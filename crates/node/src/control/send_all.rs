//! The request to send several files and folders, or some to several members.

use std::path::PathBuf;

use ringway_client::send_all::{Handed, SendAll};
use ringway_dtl::Priority;

use super::descriptor::Caller;
use super::message::Reply;
use super::server::{Answers, Failure, NOT_HANDED, Services, Steering};
use crate::limits::SEND_PEERS;
use crate::transfer::{self, Form};

impl Services {
    pub(super) async fn send_all(
        &self,
        all: SendAll,
        caller: Caller,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let steering = self.steering(&all.priority, all.by, &caller)?;
        let priority = match steering {
            Steering::Fixed(priority) => priority,
            Steering::By { .. } => Priority::SCAVENGER,
        };
        let paths: Vec<PathBuf> = all.paths.into_iter().map(|path| path.0).collect();
        if paths.iter().any(|path| !path.is_absolute()) {
            return Err(Failure::Usage("paths must be absolute".to_owned()));
        }
        if all.peers.len() > SEND_PEERS {
            let text = format!("one command sends to at most {SEND_PEERS} members");
            return Err(Failure::Usage(text));
        }
        let not_handed = || Failure::Usage(NOT_HANDED.to_owned());
        let is_own = caller.is_own();
        let form = match (all.handed, caller.take_file()) {
            (Handed::Nothing, _) if is_own => Form::AtPaths,
            (Handed::File, Some(file)) => Form::File(file),
            (Handed::Bundle { head }, Some(file)) => Form::Bundle(file, head),
            _ => return Err(not_handed()),
        };
        let mut peers = Vec::new();
        for peer in &all.peers {
            peers.push(self.find(peer).await?);
        }
        let all = transfer::SendAll {
            paths,
            name: all.name,
            form,
            priority,
            direct: all.direct,
        };
        let (transfers, own) = (self.transfers.clone(), self.certificate.clone());
        // Folders are looked at, and a list that was handed over is read.
        let sending = tokio::task::spawn_blocking(move || transfers.send_all(all, &peers, &own));
        let sent = sending.await;
        for status in sent.map_err(|error| Failure::Failed(error.to_string()))?? {
            let status = match steering {
                Steering::Fixed(_) => status,
                Steering::By { by, most } => self.transfers.set_deadline(&status.id, by, most)?,
            };
            answers.send(&Reply::Transfer(Box::new(status))).await?;
        }
        Ok(())
    }
}
