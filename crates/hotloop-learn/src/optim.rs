//! Adam on a flat arena, with global-norm clipping and a guard against gradients that are not finite.

use crate::{
    error::LearnError,
    kernels::{self, AdamStep},
    params::{ParamLayout, Params},
};
use std::sync::Arc;
use tch::{Device, Kind};

/// Settings of [`Adam`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamSpec {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Largest global gradient norm; larger gradients are scaled down to it.
    pub max_grad_norm: Option<f64>,
    /// How many steps in a row may be skipped for gradients that are not finite.
    pub max_skips: u64,
}

impl Default for AdamSpec {
    /// The usual values for PPO: eps 1e-5, norm 0.5.
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-5,
            max_grad_norm: Some(0.5),
            max_skips: 10,
        }
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Whether the step was taken; otherwise the gradient was not finite and nothing changed.
    pub applied: bool,
}

/// Counters of [`Adam`], for a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AdamCounters {
    /// Steps taken.
    pub steps: u64,
    /// Steps skipped in all.
    pub skipped: u64,
    /// Steps skipped since the last one taken.
    pub skipped_in_a_row: u64,
}

/// Adam (Kingma & Ba 2015), in PyTorch's arrangement of the formula.
#[derive(Debug)]
pub struct Adam {
    spec: AdamSpec,
    first: Params,
    second: Params,
    counters: AdamCounters,
}

impl Adam {
    /// An optimiser that has not stepped, for arenas of `layout` on `device`.
    pub fn new(spec: AdamSpec, layout: &Arc<ParamLayout>, device: Device) -> Self {
        Self {
            spec,
            first: Params::zeros(Arc::clone(layout), device),
            second: Params::zeros(Arc::clone(layout), device),
            counters: AdamCounters::default(),
        }
    }

    /// Moments of the gradient, first and second, for a checkpoint.
    pub fn moments(&self) -> (&Params, &Params) {
        (&self.first, &self.second)
    }

    /// The counters, for a checkpoint and the log.
    pub fn counters(&self) -> AdamCounters {
        self.counters
    }

    /// Goes on from saved moments and counters.
    ///
    /// # Errors
    /// If a layout differs from this optimiser's.
    pub fn restore(
        &mut self,
        first: &Params,
        second: &Params,
        counters: AdamCounters,
    ) -> Result<(), LearnError> {
        self.first.copy_from(first)?;
        self.second.copy_from(second)?;
        self.counters = counters;
        Ok(())
    }

    /// One step with learning rate `lr`. A gradient that is not finite changes neither weights nor
    /// moments nor the step count; the report says so.
    ///
    /// # Errors
    /// If that happened more than `max_skips` times in a row, or the arenas do not fit.
    pub fn step(
        &mut self,
        params: &mut Params,
        grads: &Params,
        lr: f64,
    ) -> Result<StepReport, LearnError> {
        let fits =
            |p: &Params| p.layout() == self.first.layout() && p.device() == self.first.device();
        if !fits(params) || !fits(grads) {
            return Err(LearnError::Shape {
                what: "arena handed to Adam".into(),
                expected: format!("the optimiser's layout on {:?}", self.first.device()),
                found: format!(
                    "{} elements on {:?}",
                    grads.layout().total(),
                    grads.device()
                ),
            });
        }
        let host = params.device() == Device::Cpu;
        let grad_norm = if host {
            // SAFETY: the gradients are borrowed here and written by nobody meanwhile.
            kernels::sum_squares(unsafe { grads.host() }).sqrt()
        } else {
            grads
                .flat()
                .f_to_kind(Kind::Double)?
                .f_norm()?
                .double_value(&[])
        };
        if !grad_norm.is_finite() {
            self.counters.skipped += 1;
            self.counters.skipped_in_a_row += 1;
            let skipped = self.counters.skipped_in_a_row;
            if skipped > self.spec.max_skips {
                return Err(LearnError::Diverged {
                    skipped,
                    norm: grad_norm,
                });
            }
            return Ok(StepReport {
                grad_norm,
                applied: false,
            });
        }
        self.counters.skipped_in_a_row = 0;
        self.counters.steps += 1;
        let constants = self.constants(grad_norm, lr);
        if host {
            // SAFETY: weights and moments are borrowed mutably, the gradients are read only, and
            // the four arenas are separate memory.
            unsafe {
                let (w, m) = (params.host_mut(), self.first.host_mut());
                kernels::adam(w, m, self.second.host_mut(), grads.host(), &constants);
            }
        } else {
            self.on_device(params, grads, &constants)?;
        }
        Ok(StepReport {
            grad_norm,
            applied: true,
        })
    }

    fn constants(&self, grad_norm: f64, lr: f64) -> AdamStep {
        let s = &self.spec;
        let powered = |beta: f64| 1.0 - beta.powf(self.counters.steps as f64);
        // The 1e-6 is PyTorch's, so that clipped steps agree with it.
        let scale = s
            .max_grad_norm
            .map_or(1.0, |max| (max / (grad_norm + 1e-6)).min(1.0));
        AdamStep {
            beta1: s.beta1 as f32,
            beta2: s.beta2 as f32,
            step_size: (lr / powered(s.beta1)) as f32,
            inv_sqrt_bias2: (1.0 / powered(s.beta2).sqrt()) as f32,
            eps: s.eps as f32,
            grad_scale: scale as f32,
        }
    }

    /// The same arithmetic as the kernel's, on tensors.
    fn on_device(
        &mut self,
        params: &mut Params,
        grads: &Params,
        c: &AdamStep,
    ) -> Result<(), LearnError> {
        let _guard = tch::no_grad_guard();
        let f = |x: f32| f64::from(x);
        let g = grads.flat() * f(c.grad_scale);
        let (mut m, mut v) = (
            self.first.flat().shallow_clone(),
            self.second.flat().shallow_clone(),
        );
        m += (&g - &m) * (1.0 - f(c.beta1));
        v *= f(c.beta2);
        v += g.f_square()? * (1.0 - f(c.beta2));
        let denominator = v.f_sqrt()? * f(c.inv_sqrt_bias2) + f(c.eps);
        let mut w = params.flat().shallow_clone();
        w -= m.f_div(&denominator)? * f(c.step_size);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Tensor, nn::OptimizerConfig as _};

    fn layout(n: i64) -> Arc<ParamLayout> {
        let mut layout = ParamLayout::default();
        layout.push("w", &[n]);
        Arc::new(layout)
    }

    fn arena(elements: &[f32]) -> Params {
        Params::from_slice(layout(elements.len() as i64), elements, Device::Cpu).unwrap()
    }

    #[test]
    fn steps_agree_with_libtorchs_adam_on_both_paths() {
        let n = 37i64;
        let grads = |step: usize| -> Vec<f32> {
            (0..n as usize)
                .map(|i| ((i * 7 + step * 13) % 23) as f32 / 23.0 - 0.4)
                .collect()
        };
        let vs = tch::nn::VarStore::new(Device::Cpu);
        let w = vs.root().zeros("w", &[n]);
        let mut theirs = tch::nn::Adam {
            eps: 1e-5,
            ..Default::default()
        }
        .build(&vs, 0.01)
        .unwrap();
        let spec = AdamSpec {
            max_grad_norm: Some(0.5),
            ..Default::default()
        };
        let mut ours = Adam::new(spec, &layout(n), Device::Cpu);
        let mut tensors = Adam::new(spec, &layout(n), Device::Cpu);
        let (mut params, mut params2) =
            (arena(&vec![0.0; n as usize]), arena(&vec![0.0; n as usize]));
        for step in 0..200 {
            // Every other gradient is small, so that clipping is both on and off.
            let scale = if step % 2 == 0 { 1.0 } else { 0.05 };
            let g: Vec<f32> = grads(step).iter().map(|g| g * scale).collect();
            theirs.zero_grad();
            (&w * Tensor::from_slice(&g)).sum(Kind::Float).backward();
            theirs.clip_grad_norm(0.5);
            theirs.step();
            let g = arena(&g);
            let report = ours.step(&mut params, &g, 0.01).unwrap();
            assert!(report.applied);
            tensors.counters.steps += 1;
            let c = tensors.constants(report.grad_norm, 0.01);
            tensors.on_device(&mut params2, &g, &c).unwrap();
        }
        for p in [&params, &params2] {
            let worst = (p.flat() - &w).abs().max().double_value(&[]);
            assert!(worst < 1e-5, "{worst}");
        }
        assert!(
            w.abs().max().double_value(&[]) > 0.1,
            "the weights must have moved"
        );
    }

    #[test]
    fn br_29_a_gradient_that_is_not_finite_changes_nothing() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut adam = Adam::new(AdamSpec::default(), &layout(2), Device::Cpu);
            let mut w = arena(&[1.0, 2.0]);
            let report = adam.step(&mut w, &arena(&[bad, 1.0]), 0.1).unwrap();
            assert!(!report.applied && !report.grad_norm.is_finite());
            assert_eq!(w.to_vec().unwrap(), [1.0, 2.0]);
            assert_eq!(adam.moments().0.to_vec().unwrap(), [0.0, 0.0]);
            assert_eq!(adam.moments().1.to_vec().unwrap(), [0.0, 0.0]);
            let counters = AdamCounters {
                steps: 0,
                skipped: 1,
                skipped_in_a_row: 1,
            };
            assert_eq!(adam.counters(), counters);

            // [3, 4] with max norm 0.5 becomes [0.3, 0.4], and training goes on.
            let report = adam.step(&mut w, &arena(&[3.0, 4.0]), 0.1).unwrap();
            assert_eq!(
                report,
                StepReport {
                    grad_norm: 5.0,
                    applied: true
                }
            );
            let first = adam.moments().0.to_vec().unwrap();
            assert!(
                (first[0] - 0.03).abs() < 1e-6 && (first[1] - 0.04).abs() < 1e-6,
                "{first:?}"
            );
            assert_eq!(
                (adam.counters().steps, adam.counters().skipped_in_a_row),
                (1, 0)
            );
            assert!(w.to_vec().unwrap()[0] < 1.0);
        }
    }

    #[test]
    fn br_29_too_many_skips_in_a_row_are_an_error() {
        let spec = AdamSpec {
            max_skips: 2,
            ..Default::default()
        };
        let mut adam = Adam::new(spec, &layout(1), Device::Cpu);
        let (mut w, bad, good) = (arena(&[1.0]), arena(&[f32::NAN]), arena(&[1.0]));
        for g in [&bad, &bad, &good, &bad, &bad] {
            adam.step(&mut w, g, 0.1).unwrap();
        }
        let e = adam.step(&mut w, &bad, 0.1).unwrap_err();
        assert!(matches!(e, LearnError::Diverged { skipped: 3, .. }), "{e}");
        assert!(w.is_finite().unwrap());
        assert_eq!(adam.counters().skipped, 5);
    }

    #[test]
    fn a_restored_optimiser_continues_bit_for_bit() {
        let spec = AdamSpec::default();
        let (mut a, mut w) = (
            Adam::new(spec, &layout(2), Device::Cpu),
            arena(&[1.0, -1.0]),
        );
        a.step(&mut w, &arena(&[0.5, -0.1]), 0.01).unwrap();
        let mut b = Adam::new(spec, &layout(2), Device::Cpu);
        let (m, v) = a.moments();
        b.restore(m, v, a.counters()).unwrap();
        let mut w2 = w.duplicate();
        a.step(&mut w, &arena(&[0.3, 0.2]), 0.01).unwrap();
        b.step(&mut w2, &arena(&[0.3, 0.2]), 0.01).unwrap();
        assert_eq!(w.to_vec().unwrap(), w2.to_vec().unwrap());
        let other = Adam::new(spec, &layout(3), Device::Cpu);
        assert!(
            b.restore(other.moments().0, other.moments().1, a.counters())
                .is_err()
        );
    }
}
