//! What a policy remembers of each lane, beside inference.
//!
//! One row of f32 per lane, on the device of the workers, who gather the rows of a batch, change them
//! and scatter them back: nothing of it travels to the actors. What a row means is the network's
//! business; here it is only zero where an episode starts.

use crate::{device, error::LearnError};
use std::ops::Range;
use tch::{Device, Kind, Tensor};

/// The states of all lanes. [`StateStore::share`] makes a handle on the same rows for every worker.
///
/// A lane is in one batch at a time; workers that gather and scatter lanes of their own batches touch
/// different rows and need no lock.
#[derive(Debug)]
pub struct StateStore {
    /// `[lanes, width]`.
    rows: Tensor,
}

/// Which lanes a batch is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lanes<'a> {
    /// Lanes in succession.
    Run(Range<usize>),
    /// Any lanes, each once.
    Each(&'a [i64]),
}

impl Lanes<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Run(range) => range.len(),
            Self::Each(lanes) => lanes.len(),
        }
    }

    /// Their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        let (run, each) = match self {
            Self::Run(range) => (range.clone(), &[][..]),
            Self::Each(lanes) => (0..0, *lanes),
        };
        run.map(|lane| lane as i64).chain(each.iter().copied())
    }
}

impl StateStore {
    /// Bytes that the states of `lanes` lanes of `width` elements take.
    pub fn bytes(lanes: usize, width: usize) -> usize {
        lanes.saturating_mul(width).saturating_mul(size_of::<f32>())
    }

    /// A store of zeros.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(lanes: usize, width: usize, device: Device) -> Result<Self, LearnError> {
        let shape = [lanes as i64, width as i64];
        let rows = Tensor::f_zeros(shape, (Kind::Float, device))?;
        device::settle(device);
        Ok(Self { rows })
    }

    /// Another handle on the same rows.
    pub fn share(&self) -> Self {
        Self {
            rows: self.rows.shallow_clone(),
        }
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        self.rows.size()[0] as usize
    }

    /// Elements of one lane's state.
    pub fn width(&self) -> usize {
        self.rows.size()[1] as usize
    }

    /// Bytes that this store takes.
    pub fn size(&self) -> usize {
        Self::bytes(self.lanes(), self.width())
    }

    /// A copy `[n, width]` of the rows of `lanes`; zeros where `starts` (`[n]`) is 1.
    ///
    /// # Errors
    /// If a lane is not of this store, `starts` is of another length, or the device fails.
    pub fn gather(&self, lanes: &Lanes<'_>, starts: &[u8]) -> Result<Tensor, LearnError> {
        self.check(lanes, starts.len(), "starts")?;
        let _guard = tch::no_grad_guard();
        let mut rows = match lanes {
            Lanes::Run(range) => self.run(range)?.copy(),
            Lanes::Each(each) => self.rows.f_index_select(0, &self.index(each))?,
        };
        if starts.iter().any(|&start| start != 0) {
            let starts = Tensor::from_slice(starts).to_device(self.rows.device());
            let _ = rows.f_masked_fill_(&starts.f_ne(0)?.f_unsqueeze(1)?, 0.0)?;
        }
        Ok(rows)
    }

    /// Writes `states` `[n, width]` into the rows of `lanes`, except where `keep` (`[n]`) is 0: those
    /// rows stay as they are.
    ///
    /// # Errors
    /// If a lane is not of this store, a length differs, or the device fails.
    pub fn scatter(
        &self,
        lanes: &Lanes<'_>,
        keep: &[u8],
        states: &Tensor,
    ) -> Result<(), LearnError> {
        self.check(lanes, keep.len(), "rows to write")?;
        let expected = [lanes.len() as i64, self.width() as i64];
        if states.size() != expected {
            return Err(LearnError::Shape {
                what: "states to store".into(),
                expected: format!("{expected:?}"),
                found: format!("{:?}", states.size()),
            });
        }
        let _guard = tch::no_grad_guard();
        let mut rows = self.rows.shallow_clone();
        match lanes {
            Lanes::Run(range) if keep.iter().all(|&k| k != 0) => {
                self.run(range)?.f_copy_(states)?;
            }
            Lanes::Each(each) if keep.iter().all(|&k| k != 0) => {
                let _ = rows.f_index_copy_(0, &self.index(each), states)?;
            }
            _ => {
                let kept = (0..lanes.len()).filter(|&i| keep[i] != 0);
                let (from, to): (Vec<i64>, Vec<i64>) = kept
                    .map(|i| {
                        let lane = match lanes {
                            Lanes::Run(range) => (range.start + i) as i64,
                            Lanes::Each(each) => each[i],
                        };
                        (i as i64, lane)
                    })
                    .unzip();
                let states = states.f_index_select(0, &self.index(&from))?;
                let _ = rows.f_index_copy_(0, &self.index(&to), &states)?;
            }
        }
        Ok(())
    }

    /// A copy `[n, width]` of the rows of the lanes in `index`, `[n]` i64 on the device of the store.
    pub(crate) fn select(&self, index: &Tensor) -> Result<Tensor, LearnError> {
        Ok(tch::no_grad(|| self.rows.f_index_select(0, index))?)
    }

    /// Overwrites the rows of the lanes in `index`, each of which is there once, as [`select`](Self::select) takes it.
    pub(crate) fn replace(&self, index: &Tensor, states: &Tensor) -> Result<(), LearnError> {
        let mut rows = self.rows.shallow_clone();
        let _ = tch::no_grad(|| rows.f_index_copy_(0, index, states))?;
        Ok(())
    }

    /// All rows, `[lanes, width]`, for a checkpoint.
    ///
    /// # Errors
    /// If the device fails.
    pub fn save(&self) -> Result<Vec<f32>, LearnError> {
        let host = self.rows.f_to_device(Device::Cpu)?;
        let mut rows = vec![0.0; self.lanes() * self.width()];
        host.f_copy_data(&mut rows, host.numel())?;
        Ok(rows)
    }

    /// Overwrites all rows with those that [`StateStore::save`] gave.
    ///
    /// # Errors
    /// If they are of another store, or the device fails.
    pub fn restore(&self, saved: &[f32]) -> Result<(), LearnError> {
        if saved.len() != self.rows.numel() {
            return Err(LearnError::Shape {
                what: "saved states".into(),
                expected: format!("{:?}", self.rows.size()),
                found: format!("{} elements", saved.len()),
            });
        }
        let saved = Tensor::from_slice(saved).view_as(&self.rows);
        tch::no_grad(|| self.rows.shallow_clone().f_copy_(&saved))?;
        device::settle(self.rows.device());
        Ok(())
    }

    fn run(&self, range: &Range<usize>) -> Result<Tensor, LearnError> {
        let (start, len) = (range.start as i64, range.len() as i64);
        Ok(self.rows.f_narrow(0, start, len)?)
    }

    fn index(&self, lanes: &[i64]) -> Tensor {
        Tensor::from_slice(lanes).to_device(self.rows.device())
    }

    fn check(&self, lanes: &Lanes<'_>, len: usize, what: &str) -> Result<(), LearnError> {
        let end = match lanes {
            Lanes::Run(range) => range.end,
            Lanes::Each(each) => each.iter().max().map_or(0, |&lane| lane as usize + 1),
        };
        if end > self.lanes() {
            return Err(LearnError::Spec {
                what: "state store",
                reason: format!("lane {} of a store of {}", end - 1, self.lanes()),
            });
        }
        if len == lanes.len() {
            return Ok(());
        }
        Err(LearnError::Shape {
            what: what.into(),
            expected: format!("{} for as many lanes", lanes.len()),
            found: len.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(lanes: usize, width: usize) -> StateStore {
        let store = StateStore::new(lanes, width, Device::Cpu).unwrap();
        let rows: Vec<f32> = (1..=lanes * width).map(|x| x as f32).collect();
        store.restore(&rows).unwrap();
        store
    }

    fn flat(t: &Tensor) -> Vec<f32> {
        Vec::<f32>::try_from(t.contiguous().view(-1)).unwrap()
    }

    #[test]
    fn a_batch_gathers_its_lanes_and_zeros_where_an_episode_starts() {
        let store = numbered(4, 2);
        let run = store.gather(&Lanes::Run(1..3), &[0, 1]).unwrap();
        assert_eq!(flat(&run), [3.0, 4.0, 0.0, 0.0]);
        let each = store.gather(&Lanes::Each(&[3, 0]), &[0, 0]).unwrap();
        assert_eq!(flat(&each), [7.0, 8.0, 1.0, 2.0]);
        // What was gathered is a copy.
        let _ = run.shallow_clone().fill_(9.0);
        assert_eq!(store.save().unwrap()[2], 3.0);
        assert_eq!(StateStore::bytes(4, 2), 32);
        assert_eq!((store.lanes(), store.width(), store.size()), (4, 2, 32));
    }

    #[test]
    fn only_the_rows_that_are_kept_are_written_whoever_shares_the_store() {
        let new = Tensor::from_slice(&[-1f32, -2.0, -3.0, -4.0]).view([2, 2]);
        for (lanes, keep, expected) in [
            (
                Lanes::Run(1..3),
                [1, 1],
                [1., 2., -1., -2., -3., -4., 7., 8.],
            ),
            (Lanes::Run(1..3), [0, 1], [1., 2., 3., 4., -3., -4., 7., 8.]),
            (
                Lanes::Each(&[3, 0]),
                [1, 1],
                [-3., -4., 3., 4., 5., 6., -1., -2.],
            ),
            (
                Lanes::Each(&[3, 0]),
                [1, 0],
                [1., 2., 3., 4., 5., 6., -1., -2.],
            ),
            (
                Lanes::Each(&[3, 0]),
                [0, 0],
                [1., 2., 3., 4., 5., 6., 7., 8.],
            ),
        ] {
            let store = numbered(4, 2);
            store.share().scatter(&lanes, &keep, &new).unwrap();
            assert_eq!(store.save().unwrap(), expected, "{lanes:?} {keep:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let store = numbered(4, 2);
        let error = store.gather(&Lanes::Run(3..5), &[0, 0]).unwrap_err();
        assert!(
            error.to_string().contains("lane 4 of a store of 4"),
            "{error}"
        );
        assert!(store.gather(&Lanes::Each(&[1]), &[0, 0]).is_err());
        let states = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
        assert!(store.scatter(&Lanes::Run(0..2), &[1, 1], &states).is_err());
    }
}
