//! How others talk to the member's task.
//!
//! A command is a value of the type that its service names, in a box; each service adds its own
//! methods to the handle, in its own file.

use std::any::Any;

use tokio::sync::{mpsc, oneshot};

use crate::limits::COMMANDS;

/// A command for one of the services: the one that has a command of this type.
pub(super) type Command = Box<dyn Any + Send>;

/// A way to talk to the member's task. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MemberHandle {
    commands: mpsc::Sender<Command>,
}

impl MemberHandle {
    pub(super) fn channel() -> (MemberHandle, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        (MemberHandle { commands }, receiver)
    }

    /// Gives a command to its service and waits for the reply; none when the member is stopping.
    pub(super) async fn ask<C: Send + 'static, T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> C,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Box::new(command(reply))).await.ok()?;
        answer.await.ok()
    }

    /// Gives a command to its service, which has no reply to it.
    pub(super) async fn tell<C: Send + 'static>(&self, command: C) {
        if self.commands.send(Box::new(command)).await.is_err() {
            tracing::debug!("the member's task has ended");
        }
    }
}
