//! The way to the controller. A controller that is late or is one no longer may be cut off from the
//! other brokers, and name itself for minutes. So another broker is asked next, which passes
//! requests on.

use super::Admin;
use crate::error::ClientError;
use kafkalite_connection::{Cluster, ConnectionError, NodeId, Wanted};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::Request;

/// A request under way to a controller, which is suspected unless it answers.
struct Asking<'a> {
    cluster: &'a Cluster,
    controller: NodeId,
    answered: bool,
}

impl Drop for Asking<'_> {
    /// The request failed on its way, or the call ended before the answer.
    fn drop(&mut self) {
        if !self.answered {
            self.cluster.suspect(self.controller);
            self.cluster.request_refresh();
        }
    }
}

impl Admin {
    /// Sends a request to the controller, or to any broker where there is none to speak to: brokers
    /// without ZooKeeper pass it on.
    pub(super) async fn to_controller<R: Request>(
        &self,
        build: impl FnOnce(i16) -> R,
    ) -> Result<R::Response, ClientError> {
        let mut image = self.cluster.image();
        if image.brokers().next().is_none() {
            image = self.cluster.refresh(Wanted::Brokers).await?;
        }
        let may_be_asked =
            |id: &NodeId| image.broker(*id).is_some() && !self.cluster.is_suspected(*id);
        let answer = match image.controller().filter(may_be_asked) {
            Some(controller) => {
                let mut asking = Asking { cluster: &self.cluster, controller, answered: false };
                let answer = self.cluster.send(controller, build).await;
                asking.answered = !answer.as_ref().is_err_and(ConnectionError::is_transport);
                answer
            }
            None => self.cluster.send_any(build).await,
        };
        let (_, response) = answer?;
        Ok(response)
    }

    /// Asks who the controller is: one that was asked is it no longer. If a broker still names that
    /// one, another broker is asked. The next attempt reports the error if that fails.
    pub(super) async fn look_for_controller(&self) {
        let former = self.cluster.image().controller();
        let told = self.cluster.refresh(Wanted::Brokers).await;
        if told.is_ok_and(|image| image.controller() == former) {
            self.suspect_controller();
            let _ = self.cluster.refresh(Wanted::Brokers).await;
        }
    }

    /// Suspects a controller that could not make a change in time: the next attempt asks another
    /// broker, if there is one.
    pub(super) fn note_late<'a>(&self, errors: impl IntoIterator<Item = &'a ClientError>) {
        let mut codes = errors.into_iter().map(ClientError::code);
        if codes.any(|code| code == Some(ErrorCode::RequestTimedOut)) {
            self.suspect_controller();
            self.cluster.request_refresh();
        }
    }

    fn suspect_controller(&self) {
        if let Some(node) = self.cluster.image().controller() {
            self.cluster.suspect(node);
        }
    }
}
