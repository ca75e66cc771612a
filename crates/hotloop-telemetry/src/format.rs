//! Numbers as people read them.

use std::time::Duration;

/// `950`, `12.3k`, `1.20M`, `3.45G`: three figures.
pub(crate) fn count(x: f64) -> String {
    // Scaled to the unit in which three figures do not round up to four.
    let (scaled, unit) = match x.abs() {
        a if a < 999.5 => (x, ""),
        a if a < 999.5e3 => (x / 1e3, "k"),
        a if a < 999.5e6 => (x / 1e6, "M"),
        _ => (x / 1e9, "G"),
    };
    let decimals = match scaled.abs() {
        _ if unit.is_empty() => 0,
        a if a < 9.995 => 2,
        a if a < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{unit}")
}

/// `0:07`, `12:30`, `3:07:30`.
pub(crate) fn clock(duration: Duration) -> String {
    let s = duration.as_secs();
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    if h > 0 {
        format!("{h}:{m:02}:{s:02}")
    } else {
        format!("{m}:{s:02}")
    }
}

/// `47%` of a share from 0 to 1.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_figures() {
        for (x, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (999_499.0, "999k"),
            (999_999.0, "1.00M"),
            (1_200_000.0, "1.20M"),
            (67.8e6, "67.8M"),
            (3.45e9, "3.45G"),
        ] {
            assert_eq!(count(x), text);
        }
    }

    #[test]
    fn clocks_show_hours_when_there_are_any() {
        assert_eq!(clock(Duration::from_secs(7)), "0:07");
        assert_eq!(clock(Duration::from_secs(750)), "12:30");
        assert_eq!(clock(Duration::from_secs(11_250)), "3:07:30");
    }
}
