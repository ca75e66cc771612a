//! What follows from the configuration: sizes and schedules that nobody sets by hand.

use super::choices::{Mode, Recurrent, ScheduleKind, Scheduler};
use super::keys::{Config, RolloutSettings};
use hotloop_env::EnvSpec;
use hotloop_math::Schedule;

impl ScheduleKind {
    /// The schedule that starts at `start`.
    #[must_use]
    pub fn starting_at(self, start: f64) -> Schedule {
        match self {
            Self::Constant => Schedule::Constant(start),
            Self::Linear => Schedule::Linear { start, end: 0.0 },
        }
    }
}

impl Config {
    /// The same configuration with the values that are left to hotloop (`auto` of the rollout, 0 passes)
    /// replaced by what they stand for with this algorithm and this environment: what a run works with
    /// and keeps.
    #[must_use]
    pub fn settled(&self, spec: &EnvSpec) -> Self {
        let mut config = self.clone();
        if config.algo.epochs == 0 {
            config.algo.epochs = match config.algo.name.as_str() {
                "a2c" | "impala" => 1,
                _ => 4,
            };
        }
        let threads = config.threads();
        let rollout = &mut config.rollout;
        if rollout.mode == Mode::Auto {
            rollout.mode = match config.algo.name.as_str() {
                "appo" | "impala" => Mode::Async,
                _ => Mode::Sync,
            };
        }
        if rollout.scheduler == Scheduler::Auto {
            // Environments that share a process are stepped one after the other; lockstep then costs no more,
            // and gives the same run for the same seed.
            rollout.scheduler = match spec.waits() && !spec.has_costly_blocks() {
                true => Scheduler::FirstReady,
                false => Scheduler::Lockstep,
            };
        }
        if rollout.envs_per_actor == 0 {
            let first_ready = rollout.scheduler == Scheduler::FirstReady;
            if spec.has_costly_blocks() {
                // While one block of a thread waits for inference the other is to step.
                let (lanes, blocks) = match first_ready {
                    true => (rollout.envs, 2 * threads),
                    false => (rollout.lanes_per_group(), threads),
                };
                rollout.envs_per_actor = even_part(lanes, lanes.div_ceil(blocks));
            } else if spec.waits() && first_ready {
                // An actor waits for the slowest of its environments.
                rollout.envs_per_actor = 1;
            }
        }
        config
    }

    /// Rows of one batch: what an update trains on. In async mode there may be more, up to
    /// [`largest_batch`](Self::largest_batch).
    #[must_use]
    pub fn batch(&self) -> usize {
        self.rollout.envs * self.rollout.horizon
    }

    /// Rows of one sequence that a network with a memory is trained over.
    #[must_use]
    pub fn sequence(&self) -> usize {
        match self.algo.sequence {
            0 => self.rollout.horizon,
            rows => rows,
        }
    }

    /// The most rows that an update needs room for: in async mode the last segment may go past the batch, and
    /// where a network remembers, the last sequence of a lane is filled up.
    #[must_use]
    pub fn largest_batch(&self) -> usize {
        let groups = match self.rollout.scheduler {
            Scheduler::FirstReady => self.rollout.envs / self.rollout.lanes_per_actor(),
            _ => self.rollout.groups,
        };
        let rows = match self.rollout.mode {
            Mode::Async => self.batch() + self.batch().div_ceil(groups.max(1)),
            _ => self.batch(),
        };
        match self.network.recurrent {
            Recurrent::None => rows,
            Recurrent::Gru | Recurrent::Lstm => {
                let (horizon, sequence) = (self.rollout.horizon.max(1), self.sequence().max(1));
                rows.div_ceil(horizon) * horizon.next_multiple_of(sequence)
            }
        }
    }

    /// Updates that the whole run makes at most: ⌈steps / batch⌉. Schedules run over them.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.steps.div_ceil(self.batch().max(1) as u64)
    }

    /// Whether some hyperparameter changes over the run, so that updates depend on `steps`.
    #[must_use]
    pub fn changes_over_the_run(&self) -> bool {
        let algo = &self.algo;
        [
            algo.learning_rate_schedule,
            algo.clip_schedule,
            algo.entropy_schedule,
        ]
        .contains(&ScheduleKind::Linear)
    }

    /// Threads to use: `threads`, or all that this process is allowed (affinity and container limits
    /// respected).
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }
}

impl RolloutSettings {
    /// Lanes of one group.
    #[must_use]
    pub fn lanes_per_group(&self) -> usize {
        self.envs / self.groups.max(1)
    }

    /// Lanes of one actor: `envs_per_actor`, or the largest divisor of a group up to 64 that leaves a
    /// group at least four actors to spread over threads.
    #[must_use]
    pub fn lanes_per_actor(&self) -> usize {
        if self.envs_per_actor > 0 {
            return self.envs_per_actor;
        }
        let lanes = self.lanes_per_group();
        even_part(lanes, lanes.div_ceil(4).min(64))
    }

    /// Lanes of one first-ready batch: `max_batch`, or half of all.
    #[must_use]
    pub fn batch_limit(&self) -> usize {
        match self.max_batch {
            0 => self.envs.div_ceil(2).max(self.lanes_per_actor()),
            n => n,
        }
    }

    /// Segments of one group that the mode needs: one that is filled, and where steps and updates
    /// overlap one more that is trained on.
    #[must_use]
    pub fn segments_needed(&self) -> usize {
        match self.mode {
            Mode::Auto | Mode::Sync => 1,
            Mode::Overlap | Mode::Async => 2,
        }
    }

    /// Segments of one group: `segments`, or what the mode can use. More than a few versions behind,
    /// rows teach little: async mode takes 4 at most.
    #[must_use]
    pub fn segments_per_group(&self) -> usize {
        match (self.segments, self.mode) {
            (0, Mode::Async) => self.max_staleness.min(3) as usize + 1,
            (0, _) => self.segments_needed(),
            (n, _) => n,
        }
    }
}

/// The largest divisor of `lanes` that is at most `most`.
fn even_part(lanes: usize, most: usize) -> usize {
    (1..=most)
        .rev()
        .find(|n| lanes.is_multiple_of(*n))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::{Registry, Space, Spaces};

    /// What is settled for an environment that does not wait.
    fn settled(algo: &str, change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config::new("Still-v0");
        config.algo.name = algo.into();
        change(&mut config);
        let spaces = |_: &_| Ok(Spaces::new(Space::discrete(2), Space::discrete(2))?);
        let mut registry = Registry::new();
        registry.add(EnvSpec::vector(
            "Still-v0",
            |_, _| Err("none".into()),
            spaces,
        ));
        config.settled(&registry.get("Still-v0").unwrap())
    }

    #[test]
    fn costly_blocks_are_few_and_even_whatever_the_scheduler() {
        let none = |_: &_| Err("none".into());
        let spec = EnvSpec::asynchronous_vector("Far-v0", |_, _| Err("none".into()), none);
        for (scheduler, threads, expected) in [
            (Scheduler::Auto, 2, (Scheduler::Lockstep, 16)),
            (Scheduler::FirstReady, 2, (Scheduler::FirstReady, 16)),
            (Scheduler::Auto, 3, (Scheduler::Lockstep, 8)),
        ] {
            let mut config = Config::new("Far-v0");
            (config.rollout.scheduler, config.threads) = (scheduler, threads);
            let rollout = config.settled(&spec).rollout;
            assert_eq!((rollout.scheduler, rollout.envs_per_actor), expected);
        }
    }

    /// What is settled of `scheduler`, `mode` and `envs_per_actor`.
    fn settle(algo: &str, scheduler: Scheduler) -> (Scheduler, Mode, usize) {
        let rollout = settled(algo, |config| config.rollout.scheduler = scheduler).rollout;
        (rollout.scheduler, rollout.mode, rollout.envs_per_actor)
    }

    #[test]
    fn auto_is_settled_by_algorithm_and_environment() {
        let auto = Scheduler::Auto;
        assert_eq!(settle("ppo", auto), (Scheduler::Lockstep, Mode::Sync, 0));
        assert_eq!(settle("appo", auto), (Scheduler::Lockstep, Mode::Async, 0));
        let chosen = Scheduler::FirstReady;
        assert_eq!(settle("ppo", chosen), (chosen, Mode::Sync, 0));
    }

    #[test]
    fn passes_are_settled_by_the_algorithm_unless_set() {
        for (algo, passes) in [("ppo", 4), ("appo", 4), ("a2c", 1), ("impala", 1)] {
            assert_eq!(settled(algo, |_| {}).algo.epochs, passes, "{algo}");
        }
        assert_eq!(
            settled("ppo", |config| config.algo.epochs = 9).algo.epochs,
            9
        );
    }

    #[test]
    fn actors_share_a_group_evenly() {
        for (envs, groups, per_actor) in
            [(1024, 2, 64), (64, 2, 8), (6, 2, 1), (14, 1, 2), (1, 1, 1)]
        {
            let rollout = RolloutSettings {
                envs,
                groups,
                ..RolloutSettings::default()
            };
            assert_eq!(rollout.lanes_per_actor(), per_actor, "{envs} in {groups}");
            assert_eq!(rollout.lanes_per_group() % per_actor, 0);
        }
    }

    #[test]
    fn there_is_room_for_sequences_that_do_not_divide_the_horizon() {
        let mut config = Config::default();
        (config.rollout.envs, config.rollout.groups) = (6, 2);
        (config.rollout.horizon, config.algo.sequence) = (11, 4);
        assert_eq!(config.largest_batch(), 6 * 11);
        config.network.recurrent = Recurrent::Gru;
        // Three sequences of four rows for each lane; in async mode half as many lanes more.
        assert_eq!(config.largest_batch(), 6 * 12);
        config.rollout.mode = Mode::Async;
        assert_eq!(config.largest_batch(), 9 * 12);
    }

    #[test]
    fn the_last_update_may_go_past_the_steps() {
        let config = Config {
            steps: 2049,
            ..Config::default()
        };
        assert_eq!((config.batch(), config.updates()), (2048, 2));
    }
}
