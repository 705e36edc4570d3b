//! Leases: who leads, and who is alive.
//!
//! # Why not wall clocks
//! A Lease carries its holder's wall-clock time, and the clocks of two nodes may be minutes apart. So nobody compares
//! that time with its own clock. An observer remembers *when, on its own monotonic clock, it last saw the Lease
//! change*, and calls it expired once it has not changed for the duration the Lease itself states
//! ([`LeaseObserver`]). A holder counts the time since it *sent* the last renewal that went through, and gives up
//! well before an observer could take over.
//!
//! # How it can die
//!
//! | what dies | what follows |
//! |---|---|
//! | the leader's process | its Lease stops changing; a candidate takes over one lease duration after it last saw it change |
//! | the leader's way to the API server | renewals fail; after the renew deadline (shorter than the duration) it stops its controllers and exits |
//! | the leader, paused (VM frozen, swapped out) | a candidate takes over; when the leader goes on, its clock shows that the deadline passed before it does anything else through the engine, and its next renewal meets a foreign holder. What it did in between is *not* fenced: every effect is safe on its own (`act` checks the real thing, API writes carry a resource version) |
//! | a renewal's response | it is sent again, meets a conflict with our own identity in the object, and goes on |
//! | somebody deletes the Lease | the holder makes it anew; whoever is first holds it, the other sees a foreign holder and stops |
//! | the agent | its heartbeat stops changing and the controller, after the duration, knows that nothing is known of the node |

mod election;
mod heartbeat;
mod observer;

pub use election::{Election, ElectionConfig, Leadership};
pub use heartbeat::{Heartbeat, HeartbeatConfig};
pub use observer::{LeaseObserver, Liveness};

use std::future::Future;
use std::time::Duration;

use kube::core::Status;

/// Why a Lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server refused, or could not be reached.
    #[error("{doing} Lease {lease}")]
    Api {
        /// What we were doing.
        doing: &'static str,
        /// Namespace and name of the Lease.
        lease: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("{doing} Lease {lease}: no answer within {} s", deadline.as_secs())]
    Deadline {
        /// What we were doing.
        doing: &'static str,
        /// Namespace and name of the Lease.
        lease: String,
        /// How long we waited.
        deadline: Duration,
    },
}

impl LeaseError {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => Some(Status::clone(status).code),
                _ => None,
            },
            Self::Deadline { .. } => None,
        }
    }
}

async fn within<T>(
    doing: &'static str,
    lease: &str,
    deadline: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, LeaseError> {
    match tokio::time::timeout(deadline, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(LeaseError::Api {
            doing,
            lease: lease.into(),
            source: Box::new(source),
        }),
        Err(_elapsed) => Err(LeaseError::Deadline {
            doing,
            lease: lease.into(),
            deadline,
        }),
    }
}
