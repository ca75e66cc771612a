//! Estimators and running statistics against naive definitions, on generated data.

use hotloop_math::{Rows, RunningMoments, gae, n_step};
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
