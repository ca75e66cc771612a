//! Gradients of one minibatch on several threads, the same to the last bit on any number of them.
//!
//! A minibatch is cut into a configured number of contiguous shards; each is differentiated on its
//! own, by whichever thread is free, and the results are added in shard order. The number of shards
//! is part of the configuration and shapes the result; the number of threads is not and does not.

use crate::{
    algo::{Algorithm, BoundLoss, LossContext, Minibatch, Progress},
    error::LearnError,
    kernels,
    net::{ActorCritic, Outputs},
    objective::Loss,
    params::Params,
    pool::Pool,
};
use std::sync::{Arc, Barrier};
use tch::{Device, Kind, Tensor};

/// One shard's work, with everything it needs: libtorch's handles cannot be lent across threads.
struct Job {
    net: Arc<ActorCritic>,
    params: Params,
    algorithm: Arc<dyn Algorithm>,
    rows: Minibatch,
    index: Tensor,
    advantages: Tensor,
    progress: Progress,
    grads: Params,
}

/// A minibatch as it is drawn from a batch: which rows, and their advantages within the minibatch.
/// The copying is done by the shards' threads.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// The whole batch.
    pub rows: &'a Minibatch,
    /// Which of its [units](Minibatch::units), `[m]` i64.
    pub index: &'a Tensor,
    /// The advantages of their rows, normalized over the minibatch if they are to be,
    /// `[m · unit]` f32.
    pub advantages: &'a Tensor,
    /// How many of their rows are valid.
    pub valid_count: f64,
}

/// A shard's statistics, and its gradient arena, which comes home to be used again.
type Done = (Params, Vec<f64>);

impl Job {
    fn run(mut self) -> Result<Done, LearnError> {
        let batch = Minibatch {
            advantages: self.advantages,
            ..self.rows.select(&self.index)
        };
        let cx = LossContext {
            head: &self.net.spec().head,
            batch: &batch,
            progress: self.progress,
        };
        let bound = BoundLoss {
            algorithm: &*self.algorithm,
            cx,
        };
        let stats = self.net.gradient(
            &self.params,
            &batch.observations,
            batch.sequences.as_ref(),
            &bound,
            &mut self.grads,
        )?;
        Ok((self.grads, stats))
    }
}

/// Threads that compute gradients by shards. Dropping it joins them.
#[derive(Debug)]
pub struct GradientPool {
    pool: Pool,
    shards: usize,
    spare: Vec<Params>,
}

impl GradientPool {
    /// Starts `threads` threads (no more than shards, and none for a single shard, which its caller computes) of
    /// one intra-op thread each, named `learner-0`, `learner-1`, ….
    ///
    /// # Errors
    /// If `threads` or `shards` is 0, or a thread cannot be started.
    pub fn new(threads: usize, shards: usize) -> Result<Self, LearnError> {
        if threads == 0 || shards == 0 {
            return Err(LearnError::Spec {
                what: "gradient pool",
                reason: format!("{threads} threads and {shards} shards; each must be at least 1"),
            });
        }
        Ok(Self {
            pool: Pool::new(if shards == 1 { 0 } else { threads.min(shards) })?,
            shards,
            spare: Vec::new(),
        })
    }

    /// Number of threads running.
    pub fn threads(&self) -> usize {
        self.pool.threads().len()
    }

    /// Number of shards a minibatch is cut into.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The threads, for other work.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Takes the memory that a shard of so many units of `rows` needs on every thread, by a gradient of
    /// what the network says about them.
    ///
    /// # Errors
    /// If the network fails, or panics.
    pub(crate) fn rehearse(
        &mut self,
        net: &Arc<ActorCritic>,
        params: &Params,
        rows: &Minibatch,
        units: i64,
    ) -> Result<(), LearnError> {
        let together = Arc::new(Barrier::new(self.threads()));
        // One piece alone would be done by the caller, which several shards never are.
        let pieces = self.threads().max(self.shards.min(2));
        let work = (0..pieces).map(|_| {
            let (net, params) = (Arc::clone(net), params.share());
            let (rows, together) = (rows.slice(0, units), Arc::clone(&together));
            let mut grads = self.arena(&params);
            move || {
                // Nobody takes two.
                together.wait();
                let index = Tensor::arange(units, (Kind::Int64, rows.valid.device()));
                let drawn = rows.select(&index);
                let whole = |outputs: &Outputs| {
                    let sum = outputs.head.sum(Kind::Float) + outputs.value.sum(Kind::Float);
                    Ok(Loss::new(sum, &[]))
                };
                let sequences = drawn.sequences.as_ref();
                net.gradient(&params, &drawn.observations, sequences, &whole, &mut grads)?;
                Ok(grads)
            }
        });
        let work = work.collect();
        for done in self.pool.run(work) {
            self.spare.push(done?);
        }
        Ok(())
    }

    /// An arena for a shard's gradient.
    fn arena(&mut self, params: &Params) -> Params {
        self.spare
            .pop()
            .filter(|p| p.layout() == params.layout() && p.device() == params.device())
            .unwrap_or_else(|| Params::zeros(Arc::clone(params.layout()), params.device()))
    }

    /// The gradient of `algorithm`'s loss over a minibatch, written into `grads`; returns the
    /// statistics. `params` must not be written until this returns.
    ///
    /// # Errors
    /// The first shard's error in shard order: rows that do not fit, or a panic, with its text.
    pub fn gradient(
        &mut self,
        net: &Arc<ActorCritic>,
        params: &Params,
        algorithm: &Arc<dyn Algorithm>,
        draw: Draw<'_>,
        progress: Progress,
        grads: &mut Params,
    ) -> Result<Vec<f64>, LearnError> {
        let (units, shards) = (draw.index.numel() as i64, self.shards as i64);
        let unit = draw.rows.unit();
        let mut work = Vec::with_capacity(self.shards);
        for i in 0..shards {
            let (start, end) = (i * units / shards, (i + 1) * units / shards);
            if start == end {
                continue;
            }
            let job = Job {
                net: Arc::clone(net),
                params: params.share(),
                algorithm: Arc::clone(algorithm),
                rows: Minibatch {
                    valid_count: draw.valid_count,
                    ..draw.rows.share()
                },
                index: draw.index.narrow(0, start, end - start),
                advantages: draw
                    .advantages
                    .narrow(0, start * unit, (end - start) * unit),
                progress,
                grads: self.arena(params),
            };
            work.push(move || job.run());
        }
        let mut total: Option<Vec<f64>> = None;
        for done in self.pool.run(work) {
            let (part, stats) = done?;
            match &mut total {
                None => {
                    grads.copy_from(&part)?;
                    total = Some(stats);
                }
                Some(sums) => {
                    sums.iter_mut().zip(stats).for_each(|(a, b)| *a += b);
                    add(grads, &part)?;
                }
            }
            self.spare.push(part);
        }
        total.ok_or_else(|| LearnError::Spec {
            what: "minibatch",
            reason: "it has no rows".into(),
        })
    }
}

fn add(grads: &mut Params, part: &Params) -> Result<(), LearnError> {
    if grads.device() == Device::Cpu {
        // SAFETY: `grads` is borrowed mutably, and the part's worker has handed it back.
        unsafe { kernels::add_assign(grads.host_mut(), part.host()) };
    } else {
        let _ = tch::no_grad(|| grads.flat().shallow_clone().f_add_(part.flat()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algo::Ppo,
        dist::HeadSpec,
        net::{Activation, MlpSpec},
    };
    use hotloop_math::Rows;

    fn net() -> Arc<ActorCritic> {
        let spec = MlpSpec {
            inputs: 4,
            hidden: vec![32, 32],
            activation: Activation::Tanh,
            shared: true,
            head: HeadSpec::categorical(3),
            fast: true,
        };
        Arc::new(ActorCritic::new(spec).unwrap())
    }

    fn batch(n: i64) -> Minibatch {
        let f = |k: i64, a: f64| (Tensor::arange(n * k, (Kind::Float, Device::Cpu)) * a).sin();
        Minibatch {
            observations: f(4, 0.7).view([n, 4]),
            actions: Tensor::arange(n, (Kind::Int, Device::Cpu))
                .remainder(3)
                .view([n, 1]),
            old_log_probs: f(1, 0.1) * 0.1 - 1.1,
            old_values: f(1, 0.2),
            advantages: f(1, 0.3),
            targets: f(1, 0.5),
            valid: Tensor::ones([n], (Kind::Uint8, Device::Cpu)),
            masks: None,
            valid_count: n as f64,
            sequences: None,
        }
    }

    fn all(n: i64) -> Tensor {
        Tensor::arange(n, (Kind::Int64, Device::Cpu))
    }

    fn draw<'a>(rows: &'a Minibatch, index: &'a Tensor) -> Draw<'a> {
        Draw {
            rows,
            index,
            advantages: &rows.advantages,
            valid_count: rows.valid_count,
        }
    }

    fn ppo() -> Arc<dyn Algorithm> {
        Arc::new(Ppo::default())
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let (net, batch) = (net(), batch(101));
        let params = net.init(1, Device::Cpu).unwrap();
        let run = |threads, shards| {
            let mut pool = GradientPool::new(threads, shards).unwrap();
            let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
            let mut stats = vec![];
            // The second round works on used arenas.
            for _ in 0..2 {
                stats = pool
                    .gradient(
                        &net,
                        &params,
                        &ppo(),
                        draw(&batch, &all(101)),
                        Progress::default(),
                        &mut grads,
                    )
                    .unwrap();
            }
            let bits: Vec<u32> = grads
                .to_vec()
                .unwrap()
                .iter()
                .map(|g| g.to_bits())
                .collect();
            (bits, stats)
        };
        let four = run(1, 4);
        for threads in [2, 3, 4] {
            assert_eq!(run(threads, 4), four);
        }
        let value = |bits: &u32| f64::from(f32::from_bits(*bits));
        for (a, b) in run(1, 1).0.iter().zip(&four.0) {
            assert!(
                (value(a) - value(b)).abs() < 1e-6,
                "shards add up to the whole"
            );
        }
        // More shards than rows: the empty ones are left out.
        assert_eq!(run(2, 101), run(2, 500));
    }

    #[test]
    fn threads_are_named_counted_and_bounded_by_shards() {
        let pool = GradientPool::new(8, 3).unwrap();
        assert_eq!((pool.threads(), pool.shards()), (3, 3));
        let names: Vec<_> = pool
            .pool()
            .threads()
            .iter()
            .map(|t| t.thread().name().unwrap())
            .collect();
        assert_eq!(names, ["learner-0", "learner-1", "learner-2"]);
        assert_eq!(GradientPool::new(8, 1).unwrap().threads(), 0);
        assert!(GradientPool::new(0, 1).is_err() && GradientPool::new(1, 0).is_err());
    }

    /// Panics on shards whose first advantage is negative.
    struct Faulty;

    impl Algorithm for Faulty {
        fn name(&self) -> &'static str {
            "faulty"
        }
        fn statistics(&self) -> &'static [&'static str] {
            &[]
        }
        fn estimate(&self, _: &Rows<'_>, _: &mut [f32], _: &mut [f32]) {}
        fn loss(&self, cx: &LossContext<'_>, o: &Outputs) -> Result<Loss, LearnError> {
            assert!(cx.batch.advantages.double_value(&[0]) >= 0.0, "boom-42");
            Ok(Loss::new(o.value.sum(Kind::Float), &[]))
        }
    }

    #[test]
    fn a_panic_in_a_shard_is_an_error_and_the_pool_goes_on() {
        let (net, mut b) = (net(), batch(8));
        let params = net.init(1, Device::Cpu).unwrap();
        let mut pool = GradientPool::new(2, 2).unwrap();
        let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
        let faulty: Arc<dyn Algorithm> = Arc::new(Faulty);
        b.advantages = Tensor::from_slice(&[1f32, 1., 1., 1., -1., 1., 1., 1.]);
        let progress = Progress::default();
        let e = pool
            .gradient(
                &net,
                &params,
                &faulty,
                draw(&b, &all(8)),
                progress,
                &mut grads,
            )
            .unwrap_err();
        assert!(
            matches!(&e, LearnError::ShardPanicked { shard: 1, .. }),
            "{e}"
        );
        assert!(e.to_string().contains("boom-42"), "{e}");
        b.advantages = b.advantages.abs();
        pool.gradient(
            &net,
            &params,
            &faulty,
            draw(&b, &all(8)),
            progress,
            &mut grads,
        )
        .unwrap();
        pool.gradient(
            &net,
            &params,
            &ppo(),
            draw(&b, &all(8)),
            progress,
            &mut grads,
        )
        .unwrap();
        assert!(
            pool.gradient(
                &net,
                &params,
                &ppo(),
                draw(&b, &all(0)),
                progress,
                &mut grads
            )
            .is_err()
        );
    }
}
