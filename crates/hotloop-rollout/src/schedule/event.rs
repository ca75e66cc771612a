//! What a schedule is made of, and how it lies in the file.

/// One event of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// One call of the policy. `queue` is the lockstep worker whose groups these are, or 0.
    Batch {
        queue: u64,
        version: u64,
        bootstrap: bool,
        groups: Vec<u64>,
    },
    /// What the batch of this number saw.
    Check { batch: u64, hash: u64 },
    /// A lane was given up in its block's turn `turn`.
    GaveUp {
        lane: u64,
        turn: u64,
        resetting: bool,
    },
    /// The consumer received a segment.
    Received { group: u64 },
    /// The consumer was refused a grant to a group that it had granted `granted` segments before.
    Refused { group: u64, granted: u64 },
    /// The consumer published a version.
    Published { version: u64 },
}

/// Adds a number: seven bits a byte, lowest first, with the high bit set but in the last.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; `None` if the bytes end before it does.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

impl Event {
    /// Adds the event to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut numbers = |kind: u8, numbers: &[u64]| {
            out.push(kind);
            numbers.iter().for_each(|&number| put(out, number));
        };
        match self {
            Self::Batch {
                queue,
                version,
                bootstrap,
                groups,
            } => {
                let kind = if *bootstrap { 2 } else { 1 };
                numbers(kind, &[*queue, *version, groups.len() as u64]);
                groups.iter().for_each(|&group| put(out, group));
            }
            Self::Check { batch, hash } => numbers(3, &[*batch, *hash]),
            Self::GaveUp {
                lane,
                turn,
                resetting,
            } => numbers(if *resetting { 5 } else { 4 }, &[*lane, *turn]),
            Self::Received { group } => numbers(6, &[*group]),
            Self::Refused { group, granted } => numbers(7, &[*group, *granted]),
            Self::Published { version } => numbers(8, &[*version]),
        }
    }

    /// Takes an event off the front of `bytes`; `None` if it is not whole. An unknown kind is an error.
    pub(super) fn read(bytes: &mut &[u8]) -> Result<Option<Self>, u8> {
        let Some((&kind, rest)) = bytes.split_first() else {
            return Ok(None);
        };
        *bytes = rest;
        let mut next = || take(bytes);
        let event = match kind {
            1 | 2 => (|| {
                let (queue, version, n) = (next()?, next()?, next()?);
                let groups = (0..n).map(|_| next()).collect::<Option<_>>()?;
                Some(Self::Batch {
                    queue,
                    version,
                    bootstrap: kind == 2,
                    groups,
                })
            })(),
            3 => next()
                .zip(next())
                .map(|(batch, hash)| Self::Check { batch, hash }),
            4 | 5 => next().zip(next()).map(|(lane, turn)| Self::GaveUp {
                lane,
                turn,
                resetting: kind == 5,
            }),
            6 => next().map(|group| Self::Received { group }),
            7 => next()
                .zip(next())
                .map(|(group, granted)| Self::Refused { group, granted }),
            8 => next().map(|version| Self::Published { version }),
            unknown => return Err(unknown),
        };
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        vec![
            Event::Batch {
                queue: 1,
                version: 300,
                bootstrap: false,
                groups: vec![5, 0, 70_000],
            },
            Event::Check {
                batch: 0,
                hash: u64::MAX,
            },
            Event::Batch {
                queue: 0,
                version: 0,
                bootstrap: true,
                groups: vec![],
            },
            Event::GaveUp {
                lane: 4095,
                turn: 1 << 40,
                resetting: true,
            },
            Event::GaveUp {
                lane: 0,
                turn: 0,
                resetting: false,
            },
            Event::Received { group: 127 },
            Event::Refused {
                group: 128,
                granted: 3,
            },
            Event::Published { version: 9 },
        ]
    }

    #[test]
    fn events_come_back_and_a_cut_loses_only_the_last() {
        let (mut bytes, mut ends) = (vec![], vec![]);
        for event in events() {
            event.write(&mut bytes);
            ends.push(bytes.len());
        }
        for cut in 0..=bytes.len() {
            let (mut rest, mut read) = (&bytes[..cut], vec![]);
            while let Some(event) = Event::read(&mut rest).unwrap() {
                read.push(event);
            }
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(read, events()[..whole], "cut at {cut}");
        }
        assert_eq!(Event::read(&mut &[99u8][..]), Err(99));
    }
}
