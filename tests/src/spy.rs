//! An algorithm that is PPO, but lets a test look at the rows, and spoil the loss.

use hotloop_learn::{Algorithm, LearnError, Ppo, algo::LossContext, net::Outputs, objective::Loss};
use hotloop_math::Rows;

type Look = dyn Fn(&LossContext<'_>, &Outputs) -> f64 + Send + Sync;
type Begin = dyn Fn() + Send + Sync;

/// PPO with a closure that sees every shard's rows before their loss is computed, and returns what that
/// loss is multiplied by. The discount is 0, so that the value target of a row is its own reward.
pub struct Spy {
    inner: Ppo,
    look: Box<Look>,
    begin: Box<Begin>,
}

impl Spy {
    /// Looks at every loss. The closure returns a factor: 1 leaves the loss alone.
    pub fn new(look: impl Fn(&LossContext<'_>, &Outputs) -> f64 + Send + Sync + 'static) -> Self {
        let inner = Ppo {
            gamma: 0.0,
            ..Ppo::default()
        };
        Self {
            inner,
            look: Box::new(look),
            begin: Box::new(|| ()),
        }
    }

    /// Only looks.
    pub fn looking(look: impl Fn(&LossContext<'_>) + Send + Sync + 'static) -> Self {
        Self::new(move |cx, _| {
            look(cx);
            1.0
        })
    }

    /// Calls `begin` as an update begins, on the learner's own thread.
    #[must_use]
    pub fn at_begin(mut self, begin: impl Fn() + Send + Sync + 'static) -> Self {
        self.begin = Box::new(begin);
        self
    }
}

impl Algorithm for Spy {
    fn name(&self) -> &'static str {
        "spy"
    }

    fn statistics(&self) -> &'static [&'static str] {
        self.inner.statistics()
    }

    fn estimate(&self, rows: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        (self.begin)();
        self.inner.estimate(rows, advantages, targets);
    }

    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        let factor = (self.look)(cx, outputs);
        let loss = self.inner.loss(cx, outputs)?;
        Ok(Loss {
            total: loss.total * factor,
            stats: loss.stats,
        })
    }
}
