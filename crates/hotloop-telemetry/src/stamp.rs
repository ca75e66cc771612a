//! The time of day as people and file names write it.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in Coordinated Universal Time, to the second. A time before 1970 reads as 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl Stamp {
    /// The stamp of a moment.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        let seconds = time
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let (year, month, day) = civil(seconds / 86_400);
        Self {
            year,
            month,
            day,
            second_of_day: seconds % 86_400,
        }
    }

    /// `2026-01-31T09:05:07Z` (RFC 3339).
    #[must_use]
    pub fn rfc3339(&self) -> String {
        let (h, m, s) = self.clock();
        let Self {
            year, month, day, ..
        } = self;
        format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
    }

    /// `20260131-090507`, which sorts by time and is safe in file names.
    #[must_use]
    pub fn file_name(&self) -> String {
        let (h, m, s) = self.clock();
        let Self {
            year, month, day, ..
        } = self;
        format!("{year:04}{month:02}{day:02}-{h:02}{m:02}{s:02}")
    }

    fn clock(&self) -> (u64, u64, u64) {
        let s = self.second_of_day;
        (s / 3600, s / 60 % 60, s % 60)
    }
}

/// Year, month and day of a day counted from 1970-01-01 in the Gregorian calendar, by Hinnant's
/// `civil_from_days` ("chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that the leap day is the last of its year.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Stamp {
        Stamp::new(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn known_moments() {
        assert_eq!(at(0).rfc3339(), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400).rfc3339(), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_164_800).rfc3339(), "2024-02-29T00:00:00Z");
        assert_eq!(at(1_735_689_599).rfc3339(), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400).rfc3339(), "2100-03-01T00:00:00Z");
        assert_eq!(at(1_735_689_599).file_name(), "20241231-235959");
    }

    #[test]
    fn a_clock_before_its_epoch_is_no_failure() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Stamp::new(before), at(0));
    }
}
