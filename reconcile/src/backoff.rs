//! How long to wait after failures in a row.

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::SmallRng;

/// Exponential back-off with jitter, kept per object and reset by success.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The longest wait after the first failure. Each further failure doubles it.
    pub base: Duration,
    /// The longest wait of all.
    pub cap: Duration,
    /// The longest wait once a trigger named a failing object. The world changed, so it is worth another try; but
    /// our own failing attempts cause triggers too, and those must not make it a busy loop.
    pub triggered_cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(300),
            triggered_cap: Duration::from_secs(15),
        }
    }
}

impl Backoff {
    /// The wait after `failures` failures in a row: between half of the exponential delay and all of it, so that
    /// objects that failed together do not come back together.
    #[must_use]
    pub fn delay(&self, failures: u32, rng: &mut SmallRng) -> Duration {
        let exponent = failures.saturating_sub(1).min(20);
        let longest = self.base.saturating_mul(1 << exponent).min(self.cap);
        longest.mul_f64(rng.random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn it_grows_to_the_cap_and_jitters() {
        let backoff = Backoff::default();
        let mut rng = SmallRng::seed_from_u64(1);
        for failures in 1..100 {
            let longest = backoff
                .base
                .saturating_mul(1 << (failures - 1).min(20))
                .min(backoff.cap);
            let delay = backoff.delay(failures, &mut rng);
            assert!(
                delay >= longest / 2 && delay <= longest,
                "{failures}: {delay:?} of {longest:?}"
            );
        }
        let delays: std::collections::BTreeSet<_> = (0..20).map(|_| backoff.delay(3, &mut rng)).collect();
        assert!(delays.len() > 10, "no jitter: {delays:?}");
    }
}
