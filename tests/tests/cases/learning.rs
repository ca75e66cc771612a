//! What an update does with what it was given: staleness, schedules, kernels, minibatches.

use crate::{column, holds, last};
use hotloop::env::Registry;
use hotloop_env::{End, EnvSpec};
use hotloop_learn::{Algorithm, LearnError, algo::LossContext, net::Outputs, objective::Loss};
use hotloop_math::Rows;
use hotloop_tests::{Script, Spy, continued, trainer};
use std::sync::{Arc, Mutex};

fn spec() -> EnvSpec {
    Script::count(7, End::Truncated).spec()
}

/// Pulls the value down by the learning rate in every update, since Adam makes the same step of every
/// constant gradient: a value tells which version it was computed with.
struct Clock(Arc<Mutex<Vec<f64>>>);

impl Algorithm for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }
    fn statistics(&self) -> &'static [&'static str] {
        &[]
    }
    fn estimate(&self, _: &Rows<'_>, advantages: &mut [f32], targets: &mut [f32]) {
        advantages.fill(0.0);
        targets.fill(0.0);
    }
    fn loss(&self, cx: &LossContext<'_>, outputs: &Outputs) -> Result<Loss, LearnError> {
        let lag = (&cx.batch.old_values - &outputs.value.detach()) / 0.125;
        let (low, high) = (lag.min().double_value(&[]), lag.max().double_value(&[]));
        assert!(
            (high - low).abs() < 1e-3,
            "all rows are of one version: {low} to {high}"
        );
        self.0.lock().unwrap().push(high);
        let total = outputs.value.mean(tch::Kind::Float) + outputs.head.sum(tch::Kind::Float) * 0.0;
        Ok(Loss::new(total, &[]))
    }
}

/// How many versions the rows of each update were behind.
fn staleness(settings: &[&str], resume_at: Option<&str>) -> Vec<f64> {
    // Without hidden layers, and where all observations are 0, the value is a bias alone.
    let blank = Script::count(7, End::Truncated)
        .hooked(|_| Ok(hotloop_tests::Twist::Observation(vec![0.0])))
        .spec();
    let lags = Arc::new(Mutex::new(vec![]));
    let base = [
        "network.hidden=[]",
        "algo.learning_rate=0.125",
        "algo.adam_eps=1e-12",
    ];
    let settings = [&base[..], settings].concat();
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let first = [&settings[..], &["steps=200"]].concat();
    let first = [&first[..], resume_at.as_slice()].concat();
    let builder = trainer(&blank, &first)
        .run_dir(&run)
        .algorithm(Clock(Arc::clone(&lags)));
    builder.build().unwrap().train().unwrap();
    if resume_at.is_some() {
        let builder = continued(&blank, &run, &["steps=200"]);
        builder
            .algorithm(Clock(Arc::clone(&lags)))
            .build()
            .unwrap()
            .train()
            .unwrap();
    }
    let lags = lags.lock().unwrap();
    lags.iter()
        .map(|lag| (lag * 1000.0).round() / 1000.0)
        .collect()
}

#[test]
fn staleness_is_none_in_sync_mode_and_exactly_one_in_overlap_mode() {
    assert_eq!(staleness(&["rollout.mode=sync"], None), [0.0; 8]);
    let one_behind = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    assert_eq!(staleness(&["rollout.mode=overlap"], None), one_behind);
    // Two steps per update are two eighths; a version is one whole update all the same.
    let lags = staleness(&["rollout.mode=overlap", "algo.epochs=2"], None);
    assert_eq!(lags[..4], [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(lags[4..6], [2.0, 3.0]);
    // Checkpoints and a resume change nothing.
    assert_eq!(
        staleness(&["rollout.mode=overlap", "checkpoint.every=3"], None),
        one_behind
    );
    assert_eq!(
        staleness(&["rollout.mode=overlap"], Some("steps=80")),
        one_behind
    );
    assert_eq!(
        staleness(&["rollout.mode=sync"], Some("steps=80")),
        [0.0; 8]
    );
}

#[test]
fn br_59_a_schedule_goes_on_after_a_resume() {
    let linear = [
        "algo.learning_rate=3e-4",
        "algo.learning_rate_schedule=linear",
    ];
    let spec = Script::count(7, End::Terminated).spec();
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str| trainer(&spec, &linear).run_dir(dir.path().join(name));
    let whole = run("whole").build().unwrap().train().unwrap();
    let rates = column(&whole, "learning_rate");
    for (update, rate) in rates.iter().enumerate() {
        let expected = 3e-4 * (1.0 - update as f64 / 10.0);
        assert!(
            (rate - expected).abs() < 1e-12,
            "{update}: {rate} {expected}"
        );
    }

    let stop = hotloop::StopHandle::new();
    let handle = stop.clone();
    let at_six = hotloop_tests::Watch(move |update: &hotloop_telemetry::Update| {
        if update.update == 6 {
            handle.stop();
        }
    });
    let path = dir.path().join("run");
    let first = trainer(&spec, &linear)
        .run_dir(&path)
        .stop(stop)
        .sink(at_six);
    assert_eq!(first.build().unwrap().train().unwrap().updates, 6);
    let resumed = continued(&spec, &path, &[])
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(column(&resumed, "learning_rate"), rates);
    assert_eq!(resumed.weights_hash, whole.weights_hash);

    // More steps: the schedule runs over all of the new plan, from where the run stands.
    let longer = continued(&spec, &path, &["steps=640"])
        .build()
        .unwrap()
        .train()
        .unwrap();
    let rates = column(&longer, "learning_rate");
    assert_eq!(rates.len(), 20);
    assert!((rates[10] - 3e-4 * 0.5).abs() < 1e-12, "{rates:?}");
}

#[test]
fn br_59_a_schedule_never_passes_its_end() {
    // Rows that are not valid make the run longer than planned: 24 of 32 rows count, so that 320 steps
    // take 14 updates, where 10 were planned.
    let settings = [
        "algo.learning_rate_schedule=linear",
        "algo.clip_schedule=linear",
    ];
    let spec = Script::count(3, End::Truncated).spec();
    let dir = tempfile::tempdir().unwrap();
    let run = trainer(&spec, &settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    let rates = column(&run.train().unwrap(), "learning_rate");
    assert_eq!(rates.len(), 14);
    assert!(rates[..10].iter().all(|rate| *rate > 0.0));
    assert_eq!(rates[10..], [0.0; 4]);
}

#[test]
fn fast_kernels_are_plain_libtorch_to_a_hundred_thousandth() {
    let mut registry = Registry::new();
    hotloop_classic::register(&mut registry);
    for (env, settings) in [
        ("CartPole-v1", &["network.hidden=[64, 64]"][..]),
        (
            "CartPole-v1",
            &["network.hidden=[64, 64]", "network.shared=true"],
        ),
        (
            "CartPole-v1",
            &["network.hidden=[16, 32]", "network.activation=relu"],
        ),
        (
            "Pendulum-v1",
            &["network.hidden=[64, 64]", "normalize.observations=true"],
        ),
        (
            "CartPole-v1",
            &[
                "network.hidden=[16]",
                "network.recurrent=lstm",
                "network.recurrent_size=12",
                "algo.sequence=5",
            ],
        ),
    ] {
        let spec = registry.get(env).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let weights = |name: &str, fast: &str| -> Vec<(String, Vec<f32>)> {
            let base = [
                "rollout.envs=16",
                "rollout.horizon=16",
                "steps=256",
                "algo.shards=2",
            ];
            let more = [
                "algo.epochs=2",
                "algo.minibatches=2",
                "algo.entropy=0.01",
                fast,
            ];
            let run = dir.path().join(name);
            trainer(&spec, &[&base, &more, settings].concat())
                .run_dir(&run)
                .build()
                .unwrap()
                .train()
                .unwrap();
            let saved = last(&run);
            let named = saved
                .tensors()
                .iter()
                .filter(|t| t.name.starts_with("weights."));
            let mut weights: Vec<_> = named
                .map(|t| {
                    (
                        t.name.clone(),
                        saved.f32s(&t.name, &t.shape).unwrap().to_vec(),
                    )
                })
                .collect();
            weights.sort_by(|a, b| a.0.cmp(&b.0));
            weights
        };
        let (fast, plain) = (
            weights("fast", "network.fast=true"),
            weights("plain", "network.fast=false"),
        );
        assert_eq!(fast.len(), plain.len());
        for ((name, fast), (_, plain)) in fast.iter().zip(&plain) {
            for (a, b) in fast.iter().zip(plain) {
                assert!((a - b).abs() < 1e-5, "{env} {settings:?} {name}: {a} {b}");
            }
        }
    }
}

#[test]
fn br_22_the_first_ratio_of_an_update_is_one() {
    for settings in [&["network.fast=true"][..], &["network.fast=false"]] {
        for spec in [hotloop_tests::masked(), hotloop_tests::mirror()] {
            let dir = tempfile::tempdir().unwrap();
            let run = trainer(&spec, settings)
                .run_dir(dir.path().join("run"))
                .build()
                .unwrap();
            let report = run.train().unwrap();
            // With one step an update the ratio is that of the rollout's own weights.
            let (kl, clipped) = (
                column(&report, "approx_kl"),
                column(&report, "clip_fraction"),
            );
            assert!(kl.iter().all(|kl| kl.abs() < 1e-6), "{kl:?}");
            assert!(clipped.iter().all(|c| *c == 0.0), "{clipped:?}");
        }
    }
}

#[test]
fn br_21_every_row_is_used_once_an_epoch() {
    // 32 rows less the 4 final ones in 4 minibatches, 3 times.
    let seen = Arc::new(Mutex::new(vec![]));
    let spy = Spy::looking({
        let seen = Arc::clone(&seen);
        move |cx| {
            let rows = Vec::<f32>::try_from(cx.batch.observations.reshape([-1])).unwrap();
            seen.lock().unwrap().push((cx.progress.update, rows));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "algo.epochs=3",
        "algo.minibatches=4",
        "algo.shards=2",
        "threads=1",
    ];
    let run = trainer(&spec(), &settings)
        .run_dir(dir.path().join("run"))
        .algorithm(spy);
    let report = run.build().unwrap().train().unwrap();
    let seen = seen.lock().unwrap();
    for (update, rows) in column(&report, "rows").into_iter().enumerate() {
        let mut epochs: Vec<Vec<f32>> = vec![];
        let shards: Vec<_> = seen.iter().filter(|s| s.0 == update as u64).collect();
        // Four minibatches of two shards make an epoch.
        for epoch in shards.chunks(8) {
            let mut all: Vec<f32> = epoch.iter().flat_map(|s| s.1.clone()).collect();
            assert_eq!(all.len() as f64, rows);
            all.sort_by(f32::total_cmp);
            epochs.push(all);
        }
        assert_eq!(epochs.len(), 3);
        assert!(epochs.iter().all(|epoch| *epoch == epochs[0]));
    }
}

#[test]
fn br_21_a_batch_of_one_row_trains() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "rollout.envs=1",
        "rollout.groups=1",
        "rollout.horizon=1",
        "steps=20",
        "normalize.observations=true",
        "normalize.rewards=true",
    ];
    let run = trainer(&spec(), &settings)
        .run_dir(dir.path().join("run"))
        .build()
        .unwrap();
    let report = run.train().unwrap();
    assert_eq!(report.env_steps, 20);
    // After 7 steps comes a final observation, an update without a row.
    assert_eq!(
        column(&report, "rows")[..9],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    );
    assert_eq!(column(&report, "skipped").pop(), Some(0.0));
}

#[test]
fn the_target_kl_ends_an_update_early() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "algo.epochs=10",
        "algo.target_kl=1e-9",
        "algo.learning_rate=0.05",
    ];
    let run = trainer(&hotloop_tests::mirror(), &settings).run_dir(dir.path().join("run"));
    let epochs = column(&run.build().unwrap().train().unwrap(), "epochs");
    assert!(epochs.iter().all(|epochs| *epochs == 2.0), "{epochs:?}");
}

#[test]
fn br_26_the_entropy_bonus_keeps_entropy_up() {
    let dir = tempfile::tempdir().unwrap();
    let entropy = |name: &str, coef: &str| {
        let settings = [
            coef,
            "algo.learning_rate=0.01",
            "algo.normalize_advantages=false",
        ];
        let run = trainer(&hotloop_tests::mirror(), &settings).run_dir(dir.path().join(name));
        let entropy = column(&run.build().unwrap().train().unwrap(), "entropy");
        // That of a standard normal distribution to begin with: ½ ln(2πe).
        assert!((entropy[0] - 1.418_938_5).abs() < 1e-5, "{entropy:?}");
        entropy[entropy.len() - 1]
    };
    let (without, with) = (
        entropy("a", "algo.entropy=0"),
        entropy("b", "algo.entropy=100"),
    );
    assert!(with > 1.45 && with > without, "{with} {without}");
}

#[test]
fn br_21_minibatches_that_do_not_divide_are_refused() {
    let error = trainer(&spec(), &["algo.minibatches=5"])
        .build()
        .err()
        .unwrap();
    assert!(error.is_usage());
    holds(
        &error.to_string(),
        &["algo.minibatches = 5", "32 rows", "4 does"],
    );
}
