//! The rows of one gradient step, as columns.

use crate::{dist::HeadSpec, dist::tensor::shaped, error::LearnError, memory};
use tch::{Device, Kind, Tensor};

/// Rows to train on, one tensor per column, all of `n` rows on one device.
///
/// Rows with `valid = 0` enter no loss and no statistic; their observations must be finite all the
/// same, because a product with a zero gradient does not remove a NaN. Whoever gathers the rows best
/// leaves invalid ones out.
#[derive(Debug)]
pub struct Minibatch {
    /// What the network is evaluated on, `[n, inputs]` f32.
    pub observations: Tensor,
    /// Stored actions, `[n, action_len]` i32: choices, and the bits of real numbers (`view_dtype` reads them).
    pub actions: Tensor,
    /// Log-probabilities of the actions when they were chosen, `[n]` f32.
    pub old_log_probs: Tensor,
    /// Values when the actions were chosen, `[n]` f32.
    pub old_values: Tensor,
    /// Advantages, `[n]` f32, normalized over the whole minibatch if they are to be.
    pub advantages: Tensor,
    /// Value targets, `[n]` f32.
    pub targets: Tensor,
    /// 1 where a row is to be trained on, `[n]` u8.
    pub valid: Tensor,
    /// Action masks, `[n, mask_len]` u8, 0 forbids.
    pub masks: Option<Tensor>,
    /// Valid rows of the whole minibatch, of which this may be a shard. At least 1.
    pub valid_count: f64,
    /// Which rows follow each other, for networks that remember; `None` if each stands for itself.
    pub sequences: Option<Sequences>,
}

/// Rows as sequences of equal length K: row `i · K + k` is step `k` of sequence `i`. Short sequences end
/// in rows with `valid = 0`. Such rows, and those between valid ones, go through the network like any
/// other: what it remembers of them is what it remembered in the rollout.
#[derive(Debug)]
pub struct Sequences {
    /// Rows of one sequence, K.
    pub length: i64,
    /// 1 where a row is the first of an episode, so that nothing is remembered from before it; `[n]` u8.
    pub starts: Tensor,
    /// What the network remembers before the first row of each sequence, `[n / K, state]` f32; zero
    /// where that row starts an episode.
    pub states: Tensor,
}

impl Sequences {
    /// Checks that these are sequences of `rows` rows, with states of `state` elements.
    ///
    /// # Errors
    /// Naming what does not fit.
    pub fn check(&self, rows: i64, state: i64) -> Result<(), LearnError> {
        shaped("episode starts", &self.starts, &[rows], Kind::Uint8)?;
        let (found, length) = (self.states.size(), self.length);
        if length < 1 || rows % length != 0 || found != [rows / length, state] {
            return Err(LearnError::Shape {
                what: "initial states of sequences".into(),
                expected: format!("[{rows} rows / {length} each, {}]", state.max(0)),
                found: format!("{found:?}"),
            });
        }
        Ok(())
    }
}

impl Minibatch {
    /// Number of rows.
    pub fn rows(&self) -> i64 {
        self.valid.size().first().copied().unwrap_or(0)
    }

    /// What a minibatch is drawn and cut by: its sequences, or else its rows.
    pub fn units(&self) -> i64 {
        self.rows() / self.unit()
    }

    /// Rows of one unit.
    pub fn unit(&self) -> i64 {
        self.sequences.as_ref().map_or(1, |s| s.length)
    }

    /// Units `start .. start + len` as views; the valid count stays that of the whole.
    pub fn slice(&self, start: i64, len: i64) -> Self {
        self.by_units(|t| t.narrow(0, start, len))
    }

    /// Another handle on the same rows.
    pub fn share(&self) -> Self {
        self.map(Tensor::shallow_clone, Tensor::shallow_clone)
    }

    /// The units at `index` (`[k]` i64), copied; the valid count stays that of the whole.
    pub fn select(&self, index: &Tensor) -> Self {
        self.by_units(|t| t.index_select(0, index))
    }

    /// A copy of the rows on `device`. Of pinned memory it may go on after this returns.
    pub fn copied_to(&self, device: Device) -> Self {
        let copy = |t: &Tensor| t.to_device_(device, t.kind(), true, true);
        self.map(copy, copy)
    }

    /// The bytes of all columns.
    pub(crate) fn bytes(&self) -> usize {
        let columns = [
            &self.observations,
            &self.actions,
            &self.old_log_probs,
            &self.old_values,
            &self.advantages,
            &self.targets,
            &self.valid,
        ];
        let sequences = self.sequences.iter();
        columns
            .into_iter()
            .chain(&self.masks)
            .chain(sequences.flat_map(|s| [&s.starts, &s.states]))
            .map(|column| column.numel() * column.kind().elt_size_in_bytes())
            .sum()
    }

    /// The rows with room for `units` more behind them.
    pub(crate) fn grown(&self, units: i64) -> Self {
        self.by_units(|t| {
            let mut more = t.size();
            more[0] = units;
            Tensor::cat(&[t, &Tensor::ones(&more[..], (t.kind(), t.device()))], 0)
        })
    }

    /// Applies `f` to every column with one entry per unit along its first dimension.
    fn by_units(&self, f: impl Fn(&Tensor) -> Tensor) -> Self {
        let length = self.unit();
        let whole = |t: &Tensor| {
            let mut grouped = t.size();
            grouped.splice(..1, [-1, length]);
            f(&t.view(&grouped[..])).flatten(0, 1)
        };
        if self.sequences.is_none() {
            self.map(&f, &f)
        } else {
            self.map(whole, &f)
        }
    }

    /// Applies `f` to every column of rows and `of_sequences` to that of sequences.
    fn map(&self, f: impl Fn(&Tensor) -> Tensor, of_sequences: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            observations: f(&self.observations),
            actions: f(&self.actions),
            old_log_probs: f(&self.old_log_probs),
            old_values: f(&self.old_values),
            advantages: f(&self.advantages),
            targets: f(&self.targets),
            valid: f(&self.valid),
            masks: self.masks.as_ref().map(&f),
            valid_count: self.valid_count,
            sequences: self.sequences.as_ref().map(|s| Sequences {
                length: s.length,
                starts: f(&s.starts),
                states: of_sequences(&s.states),
            }),
        }
    }

    /// Checks every column against the number of rows and the action distribution.
    ///
    /// # Errors
    /// Naming the first column that does not fit, with its shape and the one expected.
    pub fn check(&self, head: &HeadSpec) -> Result<(), LearnError> {
        let n = self.rows();
        shaped(
            "actions",
            &self.actions,
            &[n, head.action_len() as i64],
            Kind::Int,
        )?;
        for (what, t) in [
            ("old log-probs", &self.old_log_probs),
            ("old values", &self.old_values),
            ("advantages", &self.advantages),
            ("value targets", &self.targets),
        ] {
            shaped(what, t, &[n], Kind::Float)?;
        }
        shaped("valid flags", &self.valid, &[n], Kind::Uint8)?;
        if let Some(masks) = &self.masks {
            shaped(
                "action masks",
                masks,
                &[n, head.mask_len() as i64],
                Kind::Uint8,
            )?;
        }
        if let Some(sequences) = &self.sequences {
            let state = sequences.states.size().get(1).copied().unwrap_or(-1);
            sequences.check(n, state)?;
        }
        if self.valid_count >= 1.0 {
            return Ok(());
        }
        Err(LearnError::Spec {
            what: "minibatch",
            reason: format!(
                "its valid row count is {}, a loss needs at least 1",
                self.valid_count
            ),
        })
    }

    /// Whether every column is dense host memory.
    pub(crate) fn is_dense_host(&self) -> bool {
        let dense = |t: &Tensor| t.device() == Device::Cpu && t.is_contiguous();
        [
            &self.old_log_probs,
            &self.old_values,
            &self.advantages,
            &self.targets,
        ]
        .into_iter()
        .all(memory::is_dense_host_f32)
            && dense(&self.actions)
            && dense(&self.valid)
            && self.masks.as_ref().is_none_or(dense)
    }
}
