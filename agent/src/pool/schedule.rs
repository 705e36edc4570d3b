//! When a pool is to be scrubbed.

use std::time::Duration;

use jiff::Timestamp;

/// Once a month, on the first.
const DEFAULT: &str = "0 0 1 * *";

/// Over how long the scrubs of pools without a schedule of their own are spread, so that not all disks of a cluster are
/// read through in the same night.
const SPREAD: Duration = Duration::from_secs(21 * 24 * 3600);

/// The first time after `last` at which a scrub is to begin.
///
/// `salt` is the pool's own: it always gives the same time of the month.
pub(super) fn next(schedule: Option<&str>, last: Timestamp, salt: u64) -> Result<Timestamp, String> {
    let (fields, spread) = match schedule.filter(|text| !text.is_empty()) {
        None => (DEFAULT, salt % SPREAD.as_secs()),
        Some(text) => (fields(text), 0),
    };
    // Fields and a time zone is what the parser takes. The spread is taken off first and put on again, so that a pool that
    // was scrubbed at its own time of this month is not due again before its own time of the next.
    let spread = Duration::from_secs(spread);
    let crontab = cronexpr::parse_crontab(&format!("{fields} UTC")).map_err(|error| error.to_string())?;
    let last = last.checked_sub(spread).map_err(|error| error.to_string())?;
    let next = crontab.find_next(last).map_err(|error| error.to_string())?;
    let next = next.timestamp().checked_add(spread);
    next.map_err(|error| error.to_string())
}

/// The five fields that a word stands for.
fn fields(schedule: &str) -> &str {
    match schedule {
        "@hourly" => "0 * * * *",
        "@daily" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" => "0 0 1 1 *",
        fields => fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn words_and_fields() {
        let last = at("2026-11-18T10:30:00Z");
        for (schedule, expected) in [
            ("@daily", "2026-11-19T00:00:00Z"),
            ("@weekly", "2026-11-22T00:00:00Z"),
            ("@monthly", "2026-12-01T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("0 2 * * 0", "2026-11-22T02:00:00Z"),
            ("30 4 15 * *", "2026-12-15T04:30:00Z"),
            ("0 2 * * SUN", "2026-11-22T02:00:00Z"),
        ] {
            assert_eq!(next(Some(schedule), last, 7), Ok(at(expected)), "{schedule}");
        }
    }

    #[test]
    fn nonsense_is_told() {
        for schedule in ["61 * * * *", "0 25 * * *", "* *", "0 0 31 2 *x"] {
            assert!(
                next(Some(schedule), at("2026-11-18T10:30:00Z"), 0).is_err(),
                "{schedule}"
            );
        }
    }

    #[test]
    fn pools_without_a_schedule_take_turns_and_keep_to_them() {
        let mut days = std::collections::BTreeSet::new();
        for salt in (0..40).map(|pool| pool * 0x9e37_79b9) {
            let first = next(None, at("2026-11-18T10:30:00Z"), salt).unwrap();
            let second = next(None, first, salt).unwrap();
            let between = second.duration_since(first).as_secs() / 86400;
            assert!((28..=31).contains(&between), "{first} and then {second}");
            // Scrubbed a little late: the next is at its time all the same.
            let late = first.checked_add(Duration::from_secs(36 * 3600)).unwrap();
            assert_eq!(next(None, late, salt), Ok(second));
            days.insert(first.as_second() / 86400);
        }
        assert!(days.len() > 10, "{days:?}");
    }
}
