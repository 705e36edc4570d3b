//! Seeds: chosen at random, always told, and given back to replay a failure.

use std::fmt;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// Names the seed to replay; `cargo xtask test SUITE --seed N` sets it.
pub const SEED_VARIABLE: &str = "CSTOR_SEED";

/// A seed of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    suite: &'static str,
    value: u64,
}

impl Seed {
    /// The seed that was asked for, or a new one; either is told.
    #[must_use]
    pub fn choose(suite: &'static str) -> Self {
        let asked = std::env::var(SEED_VARIABLE)
            .ok()
            .and_then(|text| text.parse().ok());
        // Short enough to be typed.
        let seed = Self {
            suite,
            value: asked.unwrap_or_else(|| u64::from(rand::random::<u32>())),
        };
        #[expect(
            clippy::print_stdout,
            reason = "without the seed, a failure cannot be replayed"
        )]
        {
            println!("{seed}");
        }
        seed
    }

    /// Its value.
    #[must_use]
    pub fn value(self) -> u64 {
        self.value
    }

    /// The randomness that comes of it.
    #[must_use]
    pub fn rng(self) -> StdRng {
        StdRng::seed_from_u64(self.value)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "replay by `cargo xtask test {} --seed {}`",
            self.suite, self.value
        )
    }
}
