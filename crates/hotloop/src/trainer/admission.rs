//! Who may fill the next segment in asynchronous training.
//!
//! What is granted and what waits to be trained on are bounded together, so that neither memory nor
//! staleness grows when the learner lags: actors without a ticket sleep.

use std::collections::BTreeSet;

/// The bound, and how many of its segments each group uses.
pub(super) struct Admission {
    /// Most rows that are granted or wait for an update.
    room: usize,
    /// Rows of a whole segment.
    segment: usize,
    /// Rows received that no update has taken yet.
    held: usize,
    groups: Vec<Group>,
    /// The groups with a free segment, the next to be granted first.
    ready: BTreeSet<Turn>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    free: usize,
    tickets: usize,
    granted: u64,
}

/// Whoever has the fewest tickets comes first, and of those who was granted least: none starves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    tickets: usize,
    granted: u64,
    group: usize,
}

impl Admission {
    /// For `groups` groups with `segments` segments of `segment` rows each, all of them free.
    pub(super) fn new(groups: usize, segments: usize, segment: usize, room: usize) -> Self {
        let group = Group {
            free: segments,
            tickets: 0,
            granted: 0,
        };
        let mut admission = Self {
            room,
            segment,
            held: 0,
            groups: vec![group; groups],
            ready: BTreeSet::new(),
        };
        admission.ready.extend((0..groups).map(|group| Turn {
            tickets: 0,
            granted: 0,
            group,
        }));
        admission
    }

    /// The group to be granted a segment, while `outstanding` rows are granted already; none if there
    /// is no room or no group has a free segment.
    pub(super) fn next(&mut self, outstanding: usize) -> Option<usize> {
        if outstanding + self.held + self.segment > self.room {
            return None;
        }
        let group = self.ready.first()?.group;
        self.change(group, |group| {
            group.free -= 1;
            group.tickets += 1;
            group.granted += 1;
        });
        Some(group)
    }

    /// `group` did not take the segment: its lanes are all set aside, and it takes none any more.
    pub(super) fn refused(&mut self, group: usize) {
        self.change(group, |group| {
            group.tickets -= 1;
            group.free = 0;
        });
    }

    /// A segment of `group` with so many rows was received.
    pub(super) fn received(&mut self, group: usize, rows: usize) {
        self.held += rows;
        self.change(group, |group| group.tickets -= 1);
    }

    /// A segment of `group` with so many rows was trained on, and its memory is free.
    pub(super) fn returned(&mut self, group: usize, rows: usize) {
        self.held -= rows;
        self.change(group, |group| group.free += 1);
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Group)) {
        let group = &mut self.groups[index];
        let turn = |group: &Group| Turn {
            tickets: group.tickets,
            granted: group.granted,
            group: index,
        };
        self.ready.remove(&turn(group));
        change(group);
        if group.free > 0 {
            self.ready.insert(turn(group));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All groups that are granted, with the rows outstanding.
    fn grant(admission: &mut Admission, outstanding: &mut usize) -> Vec<usize> {
        let mut granted = vec![];
        while let Some(group) = admission.next(*outstanding) {
            *outstanding += 10;
            granted.push(group);
        }
        granted
    }

    #[test]
    fn what_is_granted_and_what_waits_are_bounded_together() {
        let (mut admission, mut outstanding) = (Admission::new(2, 3, 10, 45), 0);
        assert_eq!(grant(&mut admission, &mut outstanding), [0, 1, 0, 1]);
        // Received, but not trained on: there is room for none.
        outstanding -= 10;
        admission.received(1, 10);
        assert_eq!(grant(&mut admission, &mut outstanding), [0usize; 0]);
        admission.returned(1, 10);
        assert_eq!(grant(&mut admission, &mut outstanding), [1]);
        // A short one leaves the more room.
        outstanding -= 10;
        admission.received(0, 5);
        assert_eq!(grant(&mut admission, &mut outstanding), [0]);
    }

    #[test]
    fn no_group_has_more_than_its_segments() {
        let (mut admission, mut outstanding) = (Admission::new(2, 2, 10, 1000), 0);
        assert_eq!(grant(&mut admission, &mut outstanding), [0, 1, 0, 1]);
        admission.received(0, 10);
        assert_eq!(grant(&mut admission, &mut outstanding), [0usize; 0]);
        admission.returned(0, 10);
        assert_eq!(grant(&mut admission, &mut outstanding), [0]);
    }

    #[test]
    fn a_group_that_takes_no_segments_leaves_its_room_to_the_others() {
        let (mut admission, mut outstanding) = (Admission::new(2, 3, 10, 40), 0);
        assert_eq!(admission.next(0), Some(0));
        outstanding += 10;
        assert_eq!(admission.next(outstanding), Some(1));
        admission.refused(1);
        assert_eq!(grant(&mut admission, &mut outstanding), [0, 0]);
        // Also when one that it had filled before comes back.
        admission.received(0, 10);
        admission.returned(0, 10);
        assert_eq!(admission.next(20), Some(0));
    }

    #[test]
    fn br_52_every_group_gets_its_turn_when_there_is_room_for_few() {
        let (mut admission, mut outstanding) = (Admission::new(5, 2, 10, 20), 0);
        let mut turns = [0; 5];
        for _ in 0..50 {
            for group in grant(&mut admission, &mut outstanding) {
                turns[group] += 1;
                outstanding -= 10;
                admission.received(group, 10);
                admission.returned(group, 10);
            }
        }
        let most = turns.iter().max().unwrap();
        assert!(turns.iter().all(|n| n + 1 >= *most), "{turns:?}");
    }
}
