//! The state of all lanes between two segments, as bytes for a checkpoint.

use crate::RolloutError;
use crate::slab::{Columns, SegmentBuf};
use hotloop_env::{EnvError, LaneTotals, Spaces, Stacks, StateReader, StateWriter};

/// The state of a rollout between two segments. A rollout that starts from it goes on exactly as the
/// one it was taken from, but for lanes whose environment cannot save: those start a new episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub(crate) groups: Vec<GroupSnapshot>,
}

/// The state of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GroupSnapshot {
    /// Rows decided on.
    pub(crate) decisions: u64,
    /// The observations that the next segment begins with; none before the first segment.
    pub(crate) boundary: Option<Boundary>,
    pub(crate) lanes: Vec<LaneSnapshot>,
}

/// A row between two segments: the last of one and the first of the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Boundary {
    /// With those of the rows before, as they are seen at once: all are of the row's episode.
    pub(crate) observations: Vec<u8>,
    pub(crate) masks: Vec<u8>,
    pub(crate) valid: Vec<u8>,
    pub(crate) starts: Vec<u8>,
}

/// The state of one lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LaneSnapshot {
    /// The position of the environment's random numbers.
    pub(crate) rng: u64,
    pub(crate) totals: LaneTotals,
    /// The environment, if it can save itself.
    pub(crate) env: Option<Vec<u8>>,
}

impl Boundary {
    /// Room for a row of `lanes`.
    pub(crate) fn new(columns: &Columns) -> Self {
        Self {
            observations: vec![0; columns.stack * columns.lanes * columns.observation],
            masks: vec![0; columns.lanes * columns.mask],
            valid: vec![0; columns.lanes],
            starts: vec![0; columns.lanes],
        }
    }

    /// Copies the row into row 0 of a segment.
    pub(crate) fn begin(&self, buf: &mut SegmentBuf) {
        buf.first_frames().copy_from_slice(&self.observations);
        buf.set_first_depths(buf.shape().stack - 1);
        let row = buf.first_row();
        row.masks.copy_from_slice(&self.masks);
        row.valid.copy_from_slice(&self.valid);
        buf.first_starts().copy_from_slice(&self.starts);
    }

    /// Keeps row `t` of a segment, its last.
    pub(crate) fn keep(&mut self, buf: &mut SegmentBuf, t: usize, spaces: &Spaces) {
        let row = buf.decision_row(t, true);
        let lanes = row.valid.len();
        Stacks::new(spaces, lanes, row.observations, row.depths).keep(&mut self.observations);
        self.masks.copy_from_slice(row.masks);
        self.valid.copy_from_slice(row.valid);
        self.starts.copy_from_slice(row.starts);
    }
}

impl GroupSnapshot {
    /// Lanes whose environment could not save begin a new episode: a reset is due in their next row.
    fn reset_unsaved(&mut self) {
        let Some(boundary) = &mut self.boundary else {
            return;
        };
        for (lane, valid) in self.lanes.iter_mut().zip(&mut boundary.valid) {
            // Where a reset is due anyway, the episode is over and counted already.
            if lane.env.is_none() && *valid != 0 {
                *valid = 0;
                lane.totals.episode_return = 0.0;
                lane.totals.episode_length = 0;
                lane.totals.episodes += 1;
            }
        }
    }
}

impl Snapshot {
    /// Refuses a snapshot of a rollout of another shape; otherwise makes it what the next begins with.
    pub(crate) fn fit(mut self, groups: usize, columns: &Columns) -> Result<Self, RolloutError> {
        let expect = |what: &str, found: usize, expected: usize| {
            if found == expected {
                return Ok(());
            }
            Err(RolloutError::Snapshot(format!(
                "it has {found} {what}, the rollout {expected}"
            )))
        };
        expect("groups", self.groups.len(), groups)?;
        for group in &mut self.groups {
            expect("lanes in a group", group.lanes.len(), columns.lanes)?;
            if let Some(boundary) = &group.boundary {
                let (lanes, found) = (columns.lanes, boundary);
                expect(
                    "bytes of observations",
                    found.observations.len(),
                    columns.stack * lanes * columns.observation,
                )?;
                expect("bytes of masks", found.masks.len(), lanes * columns.mask)?;
                expect("valid flags", found.valid.len(), lanes)?;
                expect("flags of starts", found.starts.len(), lanes)?;
            }
            group.reset_unsaved();
        }
        Ok(self)
    }
}

const MAGIC: &[u8] = b"hotloop rollout 2";

impl Snapshot {
    /// Bytes from which [`Snapshot::from_bytes`] makes the same snapshot.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = StateWriter::new();
        out.bytes(MAGIC);
        out.u64(self.groups.len() as u64);
        for group in &self.groups {
            out.u64(group.decisions);
            out.u8(group.boundary.is_some() as u8);
            if let Some(boundary) = &group.boundary {
                out.bytes(&boundary.observations);
                out.bytes(&boundary.masks);
                out.bytes(&boundary.valid);
                out.bytes(&boundary.starts);
            }
            out.u64(group.lanes.len() as u64);
            for lane in &group.lanes {
                out.u64(lane.rng);
                out.f64(lane.totals.episode_return);
                out.u32(lane.totals.episode_length);
                out.u32(lane.totals.failures);
                out.u64(lane.totals.episodes);
                out.u8(lane.env.is_some() as u8);
                if let Some(env) = &lane.env {
                    out.bytes(env);
                }
            }
        }
        out.into_bytes()
    }

    /// Reads what [`Snapshot::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RolloutError> {
        read(bytes).map_err(|error| RolloutError::Snapshot(error.to_string()))
    }
}

fn read(bytes: &[u8]) -> Result<Snapshot, EnvError> {
    let mut state = StateReader::new(bytes);
    if state.bytes()? != MAGIC {
        return Err("it is not a rollout's, or another version's".into());
    }
    let mut snapshot = Snapshot::default();
    for _ in 0..state.u64()? {
        let decisions = state.u64()?;
        let boundary = if state.u8()? != 0 {
            Some(Boundary {
                observations: state.bytes()?.to_vec(),
                masks: state.bytes()?.to_vec(),
                valid: state.bytes()?.to_vec(),
                starts: state.bytes()?.to_vec(),
            })
        } else {
            None
        };
        let mut lanes = vec![];
        for _ in 0..state.u64()? {
            lanes.push(LaneSnapshot {
                rng: state.u64()?,
                totals: LaneTotals {
                    episode_return: state.f64()?,
                    episode_length: state.u32()?,
                    failures: state.u32()?,
                    failures_before: 0,
                    episodes: state.u64()?,
                },
                env: if state.u8()? != 0 {
                    Some(state.bytes()?.to_vec())
                } else {
                    None
                },
            });
        }
        snapshot.groups.push(GroupSnapshot {
            decisions,
            boundary,
            lanes,
        });
    }
    state.finish()?;
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_the_same_snapshot_and_a_cut_is_an_error() {
        let snapshot = Snapshot {
            groups: vec![
                GroupSnapshot::default(),
                GroupSnapshot {
                    decisions: 7,
                    boundary: Some(Boundary {
                        observations: vec![1, 2],
                        masks: vec![],
                        valid: vec![1],
                        starts: vec![0],
                    }),
                    lanes: vec![LaneSnapshot {
                        rng: 3,
                        totals: LaneTotals {
                            episode_return: -0.5,
                            episode_length: 2,
                            failures: 1,
                            failures_before: 0,
                            episodes: 4,
                        },
                        env: Some(vec![9]),
                    }],
                },
            ],
        };
        let bytes = snapshot.to_bytes();
        assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot);
        for end in 0..bytes.len() {
            assert!(Snapshot::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(Snapshot::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
    }
}
