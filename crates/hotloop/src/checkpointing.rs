//! What of a run is in a checkpoint, and how it comes back: everything that the next update depends on.

use crate::Error;
use crate::interface::Interface;
use crate::trainer::Progress;
use hotloop_env::Spaces;
use hotloop_learn::{
    AdamCounters, LearnError, Learner, Normalizer, Params, PolicyStore, StateStore, checkpoint,
    checkpoint::{Snapshot, TensorData},
    net::Activation,
};
use hotloop_math::{MomentsError, ReturnScaler, RunningMoments, TargetScale};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The checkpoint that a run goes on from.
pub(crate) const LAST: &str = "last";
/// The policy with the best evaluation during training.
pub(crate) const BEST: &str = "best";

/// The numbers of a run that are not tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    updates: u64,
    env_steps: u64,
    episodes: u64,
    faults: u64,
    #[serde(default)]
    lost: u64,
    wall_s: f64,
    best_return: Option<f64>,
    adam: AdamCounters,
    /// Of the network's hidden layers, if they have one to choose: what the shapes of weights do not tell.
    #[serde(default)]
    activation: Option<Activation>,
    /// What the policy was made for.
    #[serde(default)]
    interface: Option<Interface>,
}

/// A version as overlapped rollouts act with it while the learner is one ahead.
pub(crate) struct Acting {
    params: Params,
    normalizer: Normalizer,
}

impl Acting {
    /// The learner's version as it is now, kept while it trains on.
    pub(crate) fn of(learner: &Learner) -> Self {
        Self {
            params: learner.params().duplicate(),
            normalizer: learner.normalizer().clone(),
        }
    }
}

/// Everything that a checkpoint is made of.
pub(crate) struct Contents<'a> {
    /// Those of the environment.
    pub(crate) spaces: &'a Spaces,
    /// Weights, optimiser and statistics.
    pub(crate) learner: &'a Learner,
    /// Counters and the last returns.
    pub(crate) progress: &'a Progress,
    /// Seconds of training so far.
    pub(crate) wall_s: f64,
    /// The version that the next rollout acts with, if it is not the learner's.
    pub(crate) acting: Option<&'a Acting>,
    /// The state of all lanes, and what is remembered of them; without it a resumed run starts new episodes.
    pub(crate) rollout: Option<&'a (hotloop_rollout::Snapshot, Option<&'a StateStore>)>,
}

/// Writes a checkpoint into `dir`.
pub(crate) fn save(dir: &Path, name: &str, contents: &Contents<'_>) -> Result<(), Error> {
    let Contents {
        learner, progress, ..
    } = contents;
    let mut snapshot = Snapshot::default();
    let (first, second) = learner.adam().moments();
    snapshot.push_params("weights", learner.params())?;
    snapshot.push_params("adam.first", first)?;
    snapshot.push_params("adam.second", second)?;
    push_normalizer(&mut snapshot, "normalize", learner.normalizer())?;
    if let Some(acting) = contents.acting {
        snapshot.push_params("acting.weights", &acting.params)?;
        push_normalizer(&mut snapshot, "acting.normalize", &acting.normalizer)?;
    }
    for (name, window) in [
        ("last.returns", &progress.returns),
        ("last.lengths", &progress.lengths),
    ] {
        let values: Vec<f64> = window.iter().collect();
        snapshot.push(name, &[values.len()], TensorData::F64(values))?;
    }
    if let Some((rollout, states)) = contents.rollout {
        let bytes = rollout.to_bytes();
        snapshot.push("rollout", &[bytes.len()], TensorData::U8(bytes))?;
        if let Some(states) = states {
            let shape = [states.lanes(), states.width()];
            snapshot.push("states", &shape, TensorData::F32(states.save()?))?;
        }
    }
    let state = State {
        updates: learner.updates(),
        env_steps: progress.env_steps,
        episodes: progress.episodes,
        faults: progress.faults,
        lost: progress.lost,
        wall_s: contents.wall_s,
        best_return: progress.best_return,
        adam: learner.adam().counters(),
        activation: learner.net().spec().body.activation(),
        interface: Some(Interface::of(contents.spaces)),
    };
    snapshot.state = serde_json::to_value(state).map_err(|e| refuse(dir, name, e))?;
    checkpoint::save(dir, name, &snapshot)?;
    Ok(())
}

/// Whether there is a checkpoint of this name.
pub(crate) fn exists(dir: &Path, name: &str) -> bool {
    dir.join(format!("{name}.json")).exists()
}

/// What [`load`] found beside the learner's own state.
pub(crate) struct Loaded {
    pub(crate) progress: Progress,
    pub(crate) wall_s: f64,
    pub(crate) rollout: Option<hotloop_rollout::Snapshot>,
    /// What a recurrent network remembers of the lanes.
    pub(crate) states: Option<Vec<f32>>,
    snapshot: Snapshot,
}

/// Reads a checkpoint from `dir` into `learner`, which acts in these spaces.
pub(crate) fn load(
    dir: &Path,
    name: &str,
    spaces: &Spaces,
    learner: &mut Learner,
) -> Result<Loaded, Error> {
    let snapshot = checkpoint::load(dir, name)?;
    let state: State =
        serde_json::from_value(snapshot.state.clone()).map_err(|e| refuse(dir, name, e))?;
    let activation = learner.net().spec().body.activation();
    if let (Some(then), Some(now)) = (state.activation, activation)
        && then != now
    {
        let reason = format!(
            "it was trained with network.activation = {then:?}, which is {now:?} now; leave it as it \
             was, or start a new run"
        )
        .to_lowercase();
        return Err(refuse(dir, name, reason));
    }
    let (mut params, mut first, mut second) = (
        learner.params().duplicate(),
        learner.params().duplicate(),
        learner.params().duplicate(),
    );
    snapshot.restore_params("weights", &mut params)?;
    snapshot.restore_params("adam.first", &mut first)?;
    snapshot.restore_params("adam.second", &mut second)?;
    let mut normalizer = learner.normalizer().clone();
    restore_normalizer(&snapshot, "normalize", &mut normalizer, dir, name)?;
    // What has changed in shape has been told by its tensor.
    let then = state.interface.as_ref();
    if let Some(reason) = then.and_then(|then| then.changed(&Interface::of(spaces))) {
        return Err(refuse(dir, name, reason));
    }
    learner.restore(
        state.updates,
        &params,
        (&first, &second, state.adam),
        normalizer,
    )?;

    let mut progress = Progress {
        env_steps: state.env_steps,
        episodes: state.episodes,
        faults: state.faults,
        lost: state.lost,
        best_return: state.best_return,
        ..Progress::default()
    };
    for (name, window) in [
        ("last.returns", &mut progress.returns),
        ("last.lengths", &mut progress.lengths),
    ] {
        if let Some(values) = find(&snapshot, name) {
            snapshot
                .f64s(name, &values)?
                .iter()
                .for_each(|value| window.push(*value));
        }
    }
    let rollout = match find(&snapshot, "rollout") {
        Some(shape) => Some(hotloop_rollout::Snapshot::from_bytes(
            snapshot.u8s("rollout", &shape)?,
        )?),
        None => None,
    };
    let states = match find(&snapshot, "states") {
        Some(shape) => Some(snapshot.f32s("states", &shape)?.to_vec()),
        None => None,
    };
    Ok(Loaded {
        progress,
        wall_s: state.wall_s,
        rollout,
        states,
        snapshot,
    })
}

impl Loaded {
    /// Publishes the learner's version, and the one before it, with which an overlapped rollout acts: as
    /// the checkpoint holds it, or else the learner's in its place.
    pub(crate) fn publish(
        &self,
        dir: &Path,
        learner: &mut Learner,
        store: &PolicyStore,
    ) -> Result<(), Error> {
        if let Some(before) = learner.updates().checked_sub(1) {
            let mut params = learner.params().duplicate();
            let mut normalizer = learner.normalizer().clone();
            if self
                .snapshot
                .tensors()
                .iter()
                .any(|t| t.name.starts_with("acting."))
            {
                self.snapshot
                    .restore_params("acting.weights", &mut params)?;
                restore_normalizer(
                    &self.snapshot,
                    "acting.normalize",
                    &mut normalizer,
                    dir,
                    LAST,
                )?;
                learner.follow(&normalizer);
            }
            store.publish(before, &params, &normalizer)?;
        }
        learner.publish(store)?;
        Ok(())
    }
}

fn push_normalizer(
    snapshot: &mut Snapshot,
    prefix: &str,
    normalizer: &Normalizer,
) -> Result<(), LearnError> {
    let (observations, returns, values) = normalizer.parts();
    if let Some(scale) = values {
        snapshot.push(
            format!("{prefix}.values.updates"),
            &[1],
            TensorData::U64(vec![scale.updates()]),
        )?;
        snapshot.push(
            format!("{prefix}.values.moments"),
            &[2],
            TensorData::F64(vec![scale.mean(), scale.variance()]),
        )?;
    }
    if let Some(moments) = observations {
        push_moments(snapshot, &format!("{prefix}.observations"), moments)?;
    }
    if let Some(scaler) = returns {
        push_moments(snapshot, &format!("{prefix}.returns"), scaler.moments())?;
        let lanes = scaler.returns().to_vec();
        snapshot.push(
            format!("{prefix}.returns.lanes"),
            &[lanes.len()],
            TensorData::F64(lanes),
        )?;
    }
    Ok(())
}

fn push_moments(
    snapshot: &mut Snapshot,
    prefix: &str,
    moments: &RunningMoments,
) -> Result<(), LearnError> {
    let n = moments.features();
    snapshot.push(
        format!("{prefix}.count"),
        &[1],
        TensorData::U64(vec![moments.count()]),
    )?;
    snapshot.push(
        format!("{prefix}.mean"),
        &[n],
        TensorData::F64(moments.mean().to_vec()),
    )?;
    snapshot.push(
        format!("{prefix}.m2"),
        &[n],
        TensorData::F64(moments.m2().to_vec()),
    )
}

/// Statistics that the configuration asks for must be in the file: weights that were trained on
/// normalized observations mean nothing without them.
fn restore_normalizer(
    snapshot: &Snapshot,
    prefix: &str,
    normalizer: &mut Normalizer,
    dir: &Path,
    name: &str,
) -> Result<(), Error> {
    let (observations, returns, values) = normalizer.parts();
    // The other way round as well: weights that saw normalized numbers mean nothing without.
    for (part, setting, wanted) in [
        (
            "observations.count",
            "normalize.observations = true, which is false now",
            observations.is_some(),
        ),
        (
            "returns.count",
            "normalize.rewards = true, which is false now",
            returns.is_some(),
        ),
        (
            "values.updates",
            "another normalize.values than \"none\", which it is now",
            values.is_some(),
        ),
    ] {
        if !wanted && find(snapshot, &format!("{prefix}.{part}")).is_some() {
            let reason =
                format!("it was trained with {setting}; leave it as it was, or start a new run");
            return Err(refuse(dir, name, reason));
        }
    }
    let moments = |prefix: &str, features: usize| -> Result<RunningMoments, Error> {
        let count = snapshot.u64s(&format!("{prefix}.count"), &[1])?[0];
        let mean = snapshot
            .f64s(&format!("{prefix}.mean"), &[features])?
            .to_vec();
        let m2 = snapshot
            .f64s(&format!("{prefix}.m2"), &[features])?
            .to_vec();
        RunningMoments::from_parts(count, mean, m2).map_err(|e| refuse(dir, name, e))
    };
    let observations = match observations {
        Some(old) => Some(moments(&format!("{prefix}.observations"), old.features())?),
        None => None,
    };
    let returns = match returns {
        Some(old) => {
            let mut lanes = snapshot
                .f64s(&format!("{prefix}.returns.lanes"), &[old.returns().len()])?
                .to_vec();
            if find(snapshot, "rollout").is_none() {
                // The returns of episodes that nobody goes on with.
                lanes.fill(0.0);
            }
            let moments = moments(&format!("{prefix}.returns"), 1)?;
            let scaler = ReturnScaler::from_parts(old.gamma(), lanes, moments)
                .map_err(|e: MomentsError| refuse(dir, name, e))?;
            Some(scaler)
        }
        None => None,
    };
    let values = match values {
        Some(_) => {
            let updates = snapshot.u64s(&format!("{prefix}.values.updates"), &[1])?[0];
            let moments = snapshot.f64s(&format!("{prefix}.values.moments"), &[2])?;
            let scale = TargetScale::from_parts(updates, moments[0], moments[1])
                .map_err(|e| refuse(dir, name, e))?;
            Some(scale)
        }
        None => None,
    };
    normalizer.restore(observations, returns, values);
    Ok(())
}

/// The shape of a tensor that may be missing.
fn find(snapshot: &Snapshot, name: &str) -> Option<Vec<usize>> {
    snapshot
        .tensors()
        .iter()
        .find(|t| t.name == name)
        .map(|t| t.shape.clone())
}

fn refuse(dir: &Path, name: &str, reason: impl ToString) -> Error {
    LearnError::Checkpoint {
        path: dir.join(format!("{name}.json")),
        reason: reason.to_string(),
    }
    .into()
}
