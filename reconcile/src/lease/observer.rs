//! Whether a Lease is held, judged by one's own clock alone.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

/// What an observer knows of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Nobody holds it: it was never taken, or given back.
    Free,
    /// Its holder renews it; without another renewal it expires at that moment of our clock.
    Held {
        /// When it expires unless it changes.
        until: Instant,
    },
    /// It has not changed for its whole duration.
    Expired {
        /// When it expired.
        since: Instant,
    },
}

impl Liveness {
    /// Whether somebody holds it and renews it.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    uid: Option<String>,
    holder: Option<String>,
    renewed: Option<Timestamp>,
    transitions: Option<i32>,
}

/// Watches one Lease over time. Feed it every state of the Lease that you read.
///
/// # Guarantees
/// - A Lease that is renewed in time is never called expired, whatever the clocks of the two nodes say.
/// - A Lease that stopped changing is called expired one duration after *this observer* first saw its last state. An
///   observer that has just started therefore waits a full duration before it calls anybody dead.
#[derive(Clone, Debug, Default)]
pub struct LeaseObserver {
    seen: Option<(Record, Instant)>,
}

impl LeaseObserver {
    /// Takes in the Lease as read at `now`, and says what is known of it.
    pub fn observe(&mut self, lease: &Lease, now: Instant) -> Liveness {
        let spec = lease.spec.as_ref();
        let holder = spec
            .and_then(|spec| spec.holder_identity.clone())
            .filter(|holder| !holder.is_empty());
        let record = Record {
            uid: lease.metadata.uid.clone(),
            holder,
            renewed: spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0),
            transitions: spec.and_then(|spec| spec.lease_transitions),
        };
        let free = record.holder.is_none();
        let since = match &self.seen {
            Some((last, since)) if *last == record => *since,
            _ => now,
        };
        self.seen = Some((record, since));
        if free {
            return Liveness::Free;
        }
        let seconds = spec
            .and_then(|spec| spec.lease_duration_seconds)
            .unwrap_or(15)
            .max(1);
        let until = since + Duration::from_secs(u64::try_from(seconds).unwrap_or(15));
        if now >= until {
            Liveness::Expired { since: until }
        } else {
            Liveness::Held { until }
        }
    }

    /// Who held it when it was last read.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.seen
            .as_ref()
            .and_then(|(record, _)| record.holder.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(holder: &str, renewed: i64) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(10),
                renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_with_a_clock_years_away_is_alive_while_it_renews() {
        let mut observer = LeaseObserver::default();
        for second in 0..100 {
            assert!(observer.observe(&lease("a", second), Instant::now()).is_held());
            tokio::time::advance(Duration::from_secs(9)).await;
        }
        assert_eq!(observer.holder(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn it_expires_a_duration_after_it_was_first_seen_unchanged() {
        let mut observer = LeaseObserver::default();
        let start = Instant::now();
        // Ancient by its own time; but we have only now seen it.
        assert!(observer.observe(&lease("a", 1), start).is_held());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(observer.observe(&lease("a", 1), Instant::now()).is_held());
        tokio::time::advance(Duration::from_secs(1)).await;
        let expired = Liveness::Expired {
            since: start + Duration::from_secs(10),
        };
        assert_eq!(observer.observe(&lease("a", 1), Instant::now()), expired);
        assert!(observer.observe(&lease("a", 2), Instant::now()).is_held());
        assert_eq!(observer.observe(&lease("", 2), Instant::now()), Liveness::Free);
    }
}
