//! Estimators and running statistics against naive definitions, on generated data.

use hotloop_math::{Rows, RunningMoments, VTrace, gae, n_step, vtrace};
use proptest::prelude::*;

/// One row of one lane as generated: what happens after its action.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    Goes,
    Terminates,
    Invalid,
}

#[derive(Debug)]
struct Batch {
    lanes: usize,
    rewards: Vec<f32>,
    values: Vec<f32>,
    terminated: Vec<u8>,
    valid: Vec<u8>,
}

impl Batch {
    fn rows(&self) -> Rows<'_> {
        Rows::new(
            self.lanes,
            &self.rewards,
            &self.values,
            &self.terminated,
            &self.valid,
        )
    }

    /// A lane as (reward, value, value of the next row, terminated, trace cut, valid) per row, in f64.
    fn lane(&self, lane: usize) -> Vec<(f64, f64, f64, bool, bool, bool)> {
        let at = |t: usize| t * self.lanes + lane;
        (0..self.rewards.len() / self.lanes)
            .map(|t| {
                let terminated = self.terminated[at(t)] != 0;
                (
                    f64::from(self.rewards[at(t)]),
                    f64::from(self.values[at(t)]),
                    f64::from(self.values[at(t + 1)]),
                    terminated,
                    terminated || self.valid[at(t + 1)] == 0,
                    self.valid[at(t)] != 0,
                )
            })
            .collect()
    }
}

fn batch() -> impl Strategy<Value = Batch> {
    let row =
        prop_oneof![6 => Just(Row::Goes), 1 => Just(Row::Terminates), 1 => Just(Row::Invalid)];
    (1usize..12, 1usize..20).prop_flat_map(move |(steps, lanes)| {
        let (n, all) = (steps * lanes, (steps + 1) * lanes);
        (
            prop::collection::vec(row.clone(), all),
            prop::collection::vec(-10.0f32..10.0, n),
            prop::collection::vec(-10.0f32..10.0, all),
        )
            .prop_map(move |(rows, rewards, values)| Batch {
                lanes,
                terminated: rows[..n]
                    .iter()
                    .map(|&r| u8::from(r == Row::Terminates))
                    .collect(),
                valid: rows.iter().map(|&r| u8::from(r != Row::Invalid)).collect(),
                rewards,
                values,
            })
    })
}

proptest! {
    #[test]
    fn gae_is_the_discounted_sum_of_td_errors(b in batch(), g in 0.0f32..1.0, l in 0.0f32..1.0) {
        let n = b.rewards.len();
        let (mut advantages, mut targets) = (vec![f32::NAN; n], vec![f32::NAN; n]);
        gae(&b.rows(), g, l, &mut advantages, &mut targets);
        let (g, l) = (f64::from(g), f64::from(l));
        for lane in 0..b.lanes {
            let rows = b.lane(lane);
            for t in 0..rows.len() {
                let mut expected = 0.0;
                let mut weight = 1.0;
                for &(reward, value, next, terminated, cut, valid) in &rows[t..] {
                    if !valid {
                        break; // only row t itself: a trace never reaches an invalid row
                    }
                    expected += weight * (reward + if terminated { 0.0 } else { g * next } - value);
                    if cut {
                        break;
                    }
                    weight *= g * l;
                }
                let i = t * b.lanes + lane;
                prop_assert!((f64::from(advantages[i]) - expected).abs() < 1e-3);
                let target = f64::from(advantages[i]) + rows[t].1;
                prop_assert!((f64::from(targets[i]) - target).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn n_step_is_the_bootstrapped_sum(b in batch(), g in 0.0f32..1.0, n in 1usize..6) {
        let mut returns = vec![f32::NAN; b.rewards.len()];
        n_step(&b.rows(), g, n, &mut returns);
        let g = f64::from(g);
        for lane in 0..b.lanes {
            let rows = b.lane(lane);
            for t in 0..rows.len() {
                let mut expected = 0.0;
                let mut weight = 1.0;
                let last = (t + n).min(rows.len()) - 1;
                for (k, &(reward, value, next, terminated, cut, valid)) in rows.iter().enumerate().skip(t) {
                    if !valid {
                        expected = value;
                        break;
                    }
                    expected += weight * reward;
                    weight *= g;
                    if terminated {
                        break;
                    }
                    if cut || k == last {
                        expected += weight * next;
                        break;
                    }
                }
                prop_assert!((f64::from(returns[t * b.lanes + lane]) - expected).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn gae_with_lambda_one_is_the_longest_n_step_return(b in batch(), g in 0.0f32..1.0) {
        let n = b.rewards.len();
        let (mut advantages, mut targets) = (vec![0.0; n], vec![0.0; n]);
        gae(&b.rows(), g, 1.0, &mut advantages, &mut targets);
        let mut returns = vec![0.0; n];
        n_step(&b.rows(), g, b.rows().steps(), &mut returns);
        for (target, ret) in targets.iter().zip(&returns) {
            prop_assert!((target - ret).abs() < 1e-3);
        }
    }

    #[test]
    fn vtrace_on_policy_is_gae_and_with_lambda_one_the_longest_n_step_return(
        b in batch(), g in 0.0f32..1.0, l in 0.0f32..1.0,
    ) {
        let n = b.rewards.len();
        let [mut a, mut targets, mut of_gae, mut gae_targets, mut returns] =
            [(); 5].map(|()| vec![f32::NAN; n]);
        let ones = vec![0.0; n];
        let rows = b.rows();
        vtrace(
            &rows.with_log_ratios(&ones),
            &VTrace { gamma: g, lambda: l, ..VTrace::default() },
            &mut a,
            &mut targets,
        );
        gae(&rows, g, l, &mut of_gae, &mut gae_targets);
        for (found, expected) in targets.iter().zip(&gae_targets) {
            prop_assert!((found - expected).abs() < 1e-3);
        }
        let full = VTrace { gamma: g, ..VTrace::default() };
        vtrace(&rows, &full, &mut a, &mut targets);
        n_step(&rows, g, rows.steps(), &mut returns);
        for i in 0..n {
            prop_assert!((targets[i] - returns[i]).abs() < 1e-3);
            // The advantage is that of the whole return, as GAE's with λ = 1.
            prop_assert!((a[i] - (returns[i] - b.values[i])).abs() < 1e-3);
        }
    }

    #[test]
    fn vtrace_is_the_sum_of_weighted_td_errors(
        b in batch(),
        ratios in prop::collection::vec(0.05f32..5.0, 240),
        g in 0.0f32..1.0, l in 0.0f32..1.0,
        rho in 0.2f32..3.0, c in 0.2f32..3.0, pg in 0.2f32..3.0,
    ) {
        let n = b.rewards.len();
        let (mut advantages, mut targets) = (vec![f32::NAN; n], vec![f32::NAN; n]);
        let log_ratios: Vec<f32> = ratios[..n].iter().map(|w| w.ln()).collect();
        let by = VTrace { gamma: g, lambda: l, rho_clip: rho, c_clip: c, rho_pg_clip: Some(pg) };
        vtrace(&b.rows().with_log_ratios(&log_ratios), &by, &mut advantages, &mut targets);
        let [g, l, rho, c, pg] = [g, l, rho, c, pg].map(f64::from);
        for lane in 0..b.lanes {
            let rows = b.lane(lane);
            let ratio = |t: usize| f64::from(ratios[t * b.lanes + lane]);
            let target = |t: usize| {
                let (mut sum, mut weight) = (rows[t].1, 1.0);
                for (k, &(reward, value, next, terminated, cut, valid)) in rows.iter().enumerate().skip(t) {
                    if !valid {
                        break;
                    }
                    let td = reward + if terminated { 0.0 } else { g * next } - value;
                    sum += weight * ratio(k).min(rho) * td;
                    if cut {
                        break;
                    }
                    weight *= g * l * ratio(k).min(c);
                }
                sum
            };
            for (t, &(reward, value, next, terminated, cut, valid)) in rows.iter().enumerate() {
                let i = t * b.lanes + lane;
                prop_assert!((f64::from(targets[i]) - target(t)).abs() < 2e-3 * (1.0 + target(t).abs()));
                let q = if cut || t + 1 == rows.len() { next } else { target(t + 1) };
                let advantage = reward + if terminated { 0.0 } else { g * q } - value;
                let expected = if valid { ratio(t).min(pg) * advantage } else { 0.0 };
                prop_assert!((f64::from(advantages[i]) - expected).abs() < 2e-3 * (1.0 + expected.abs()));
            }
        }
    }

    #[test]
    fn moments_do_not_depend_on_the_partition(
        xs in prop::collection::vec((-1e3f32..1e3, any::<bool>()), 1..60),
        offset in prop_oneof![Just(0.0f32), Just(1e5)],
        cut in any::<prop::sample::Index>(),
    ) {
        let rows: Vec<f32> = xs.iter().map(|x| x.0 + offset).collect();
        let valid: Vec<u8> = xs.iter().map(|x| u8::from(x.1)).collect();
        let mut whole = RunningMoments::new(1);
        whole.update(&rows, &valid, 1);
        let cut = cut.index(rows.len());
        let (mut a, mut b) = (RunningMoments::new(1), RunningMoments::new(1));
        a.update(&rows[..cut], &valid[..cut], 1);
        b.update(&rows[cut..], &valid[cut..], 1);
        let mut b_first = b.clone();
        b_first.merge(&a);
        a.merge(&b);
        // As many lanes as rows: every lane is one row long.
        let mut lanes = RunningMoments::new(1);
        lanes.update(&rows, &valid, rows.len());
        for other in [a, b_first, lanes] {
            prop_assert_eq!(other.count(), whole.count());
            prop_assert!((other.mean()[0] - whole.mean()[0]).abs() < 1e-9 * (1.0 + f64::from(offset)));
            prop_assert!((other.variance(0) - whole.variance(0)).abs() < 1e-9 * (1.0 + whole.variance(0)));
        }
    }
}
