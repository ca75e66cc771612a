//! Both environments as the registry makes them: what they show, reward, and do at set steps.

#![allow(clippy::unwrap_used)] // Helpers of tests are not recognised as tests.

use hotloop_env::{
    AsyncVectorEnv, Block, Cause, Fault, LaneStates, OptionValue, Registry, Rows, RowsParts,
    Spaces, Stream, end_flags,
};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;
use tokio::time::Instant;

/// Two lanes, and what their turns left.
struct Lanes {
    block: Block,
    spaces: Spaces,
    states: LaneStates,
    valid: Vec<u8>,
    action: i32,
    faults: Vec<Fault>,
}

/// Of two lanes: observations that follow, rewards, ends, validity of the row.
type Row = (Vec<f32>, Vec<f32>, Vec<u8>, Vec<u8>);

impl Lanes {
    fn new(id: &str, options: &[(&str, OptionValue)]) -> Result<Self, String> {
        let mut registry = Registry::new();
        hotloop_synthetic::register(&mut registry);
        let spec = registry.get(id).unwrap();
        let given: BTreeMap<_, _> = options
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        let options = spec.options(&given).unwrap();
        let text = |error: hotloop_env::EnvError| error.to_string();
        Ok(Self {
            block: spec.make(&options, 2).map_err(text)?,
            spaces: spec.spaces(&options).map_err(text)?,
            states: LaneStates::new(1, Stream::Env, 0, 2),
            valid: vec![0; 2],
            action: 1,
            faults: vec![],
        })
    }

    async fn turn(&mut self) -> Row {
        let width = self.spaces.observation.record_bytes() / 4;
        let (mut observations, mut rewards) = (vec![0.0f32; 2 * width], vec![0.0; 2]);
        let (mut ends, mut next_valid) = (vec![0; 2], vec![0; 2]);
        let (mut returns, mut lengths) = (vec![0.0; 2], vec![0; 2]);
        let actions = [self.action; 2];
        let mut rows = Rows::new(RowsParts {
            spaces: &self.spaces,
            lanes: &mut self.states,
            actions: bytemuck::cast_slice(&actions),
            valid: &mut self.valid,
            rewards: &mut rewards,
            ends: &mut ends,
            episode_returns: &mut returns,
            episode_lengths: &mut lengths,
            next_observations: bytemuck::cast_slice_mut(&mut observations),
            next_masks: &mut [],
            next_valid: &mut next_valid,
            faults: &mut self.faults,
        });
        match &mut self.block {
            Block::Sync(block) => block.step(&mut rows),
            Block::Async(block) => {
                block.begin(&mut rows);
                poll_fn(|cx| block.poll(cx, &mut rows)).await;
            }
        }
        let valid = std::mem::replace(&mut self.valid, next_valid);
        (observations, rewards, ends, valid)
    }

    fn waiting(&self) -> Option<&dyn AsyncVectorEnv> {
        match &self.block {
            Block::Async(block) => Some(&**block),
            Block::Sync(_) => None,
        }
    }
}

fn paused(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

const IDS: [&str; 2] = ["Synthetic/Busy-v0", "Synthetic/Wait-v0"];

#[test]
fn the_task_is_to_take_the_last_action() {
    for id in IDS {
        paused(async {
            let options = [
                ("size", 3i64.into()),
                ("actions", 5i64.into()),
                ("length", 3i64.into()),
            ];
            let mut lanes = Lanes::new(id, &options).unwrap();
            assert_eq!(lanes.turn().await.0, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
            for (action, step) in [(4, 1.0), (0, 2.0), (2, 0.0)] {
                lanes.action = action;
                let (observations, rewards, ends, valid) = lanes.turn().await;
                assert_eq!(observations[..3], [step, step + 1.0, step + 2.0]);
                assert_eq!(rewards, [action as f32; 2]);
                let over = end_flags::TERMINATED | end_flags::EPISODE;
                assert_eq!(ends, [if step == 0.0 { over } else { 0 }; 2]);
                assert_eq!(valid, [1, 1]);
            }
        });
    }
}

#[test]
fn faults_come_every_so_many_steps_in_the_lane_that_has_them() {
    for id in IDS {
        paused(async {
            for (option, cause) in [("fail_every", Cause::Error), ("panic_every", Cause::Panic)] {
                let options = [
                    (option, 3i64.into()),
                    ("faulty_lane", 1i64.into()),
                    ("time", 0.0.into()),
                ];
                let mut lanes = Lanes::new(id, &options).unwrap();
                let mut lost = vec![];
                lanes.turn().await;
                for t in 0..9 {
                    let valid = lanes.turn().await.3;
                    assert_eq!(valid[0], 1);
                    if valid[1] == 0 {
                        lost.push(t);
                    }
                }
                // Each time it is another environment, which counts anew.
                assert_eq!(lost, [2, 5, 8], "{id} {option}");
                for fault in &lanes.faults {
                    assert_eq!((fault.lane, fault.cause, fault.in_a_row), (1, cause, 1));
                    assert!(fault.message.contains(&format!("{option}, step 3")));
                }
            }
        });
    }
}

#[test]
fn waits_take_their_time_and_no_thread() {
    paused(async {
        let options = [
            ("time", 20.0.into()),
            ("reset_time", 1000.0.into()),
            ("slow_lane", 1i64.into()),
            ("slow_factor", 3.0.into()),
        ];
        let mut lanes = Lanes::new("Synthetic/Wait-v0", &options).unwrap();
        let start = Instant::now();
        lanes.turn().await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        lanes.turn().await;
        assert_eq!(start.elapsed(), Duration::from_millis(1060));
    });
}

#[test]
fn a_wait_that_hangs_is_still_busy_after_an_hour() {
    paused(async {
        let options = [("hang_every", 1i64.into()), ("faulty_lane", 1i64.into())];
        let mut lanes = Lanes::new("Synthetic/Wait-v0", &options).unwrap();
        lanes.turn().await;
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, lanes.turn()).await.is_err());
        let block = lanes.waiting().unwrap();
        let step = Some(hotloop_env::FaultPhase::Step);
        assert_eq!((block.busy(0), block.busy(1)), (None, step));
    });
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    for (name, value) in [
        ("latency", "gaussian".into()),
        ("time", OptionValue::Float(-1.0)),
        ("slow_factor", f64::NAN.into()),
        ("size", 0i64.into()),
        ("fail_every", (-2i64).into()),
    ] {
        for id in IDS {
            let error = Lanes::new(id, &[(name, value.clone())]).err().unwrap();
            assert!(
                error.contains(id) && error.contains(&format!("{name:?}")),
                "{error}"
            );
        }
    }
    let swapped = [("latency", "uniform".into()), ("low", 60.0.into())];
    let error = Lanes::new(IDS[1], &swapped).err().unwrap();
    assert!(error.contains("low ≤ high is needed"), "{error}");
}
