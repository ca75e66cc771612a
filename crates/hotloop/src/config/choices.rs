//! The values of those keys that choose between names.

use super::section::choice;

choice! {
    /// How lanes meet inference.
    Scheduler {
        /// First-ready for environments that wait, lockstep for all others.
        #[default]
        Auto,
        /// A group of lanes moves as one.
        Lockstep,
        /// Inference takes the lanes that are ready.
        FirstReady,
    }
}

choice! {
    /// How rollout and update follow each other.
    Mode {
        /// Async for the algorithms that are made for it, sync for all others.
        #[default]
        Auto,
        /// Nothing steps during an update.
        Sync,
        /// The next rollout runs during the update.
        Overlap,
        /// Rollouts and updates go at their own pace.
        Async,
    }
}

choice! {
    /// What happens when an environment fails.
    OnFault {
        /// It is rebuilt and the run goes on.
        #[default]
        Restart,
        /// The run ends.
        Fail,
    }
}

choice! {
    /// How images are read.
    Body {
        /// By the network that fits their size, or none.
        #[default]
        Auto,
        /// By none: they are vectors.
        Mlp,
        /// The convolution of Young & Tian 2019, for small images.
        SmallCnn,
        /// The convolutions of Mnih et al. 2015.
        NatureCnn,
        /// The two convolutions of Mnih et al. 2013, a third of the work.
        ShallowCnn,
        /// The residual network of Espeholt et al. 2018.
        ImpalaResnet,
    }
}

choice! {
    /// The memory of a policy.
    Recurrent {
        /// It sees the observation alone.
        #[default]
        None,
        /// A gated recurrent unit.
        Gru,
        /// Long short-term memory.
        Lstm,
    }
}

choice! {
    /// In what numbers the policy acts.
    InferenceDtype {
        /// Single precision.
        #[default]
        F32,
        /// Half the bits, 8 of them the mantissa's.
        Bf16,
    }
}

choice! {
    /// Where the deviation of box actions comes from.
    LogStd {
        /// A weight of its own for each dimension.
        #[default]
        Free,
        /// The network's output.
        State,
    }
}

choice! {
    /// The unit in which values are learned.
    ValueScale {
        /// That of the rewards.
        #[default]
        None,
        /// Running mean and deviation of the targets.
        Running,
        /// The same, with the outputs kept as these move.
        Popart,
    }
}

choice! {
    /// The nonlinearity of hidden layers.
    Activation {
        /// Hyperbolic tangent.
        #[default]
        Tanh,
        /// Rectified linear unit.
        Relu,
    }
}

choice! {
    /// How a hyperparameter changes over the updates of a run.
    ScheduleKind {
        /// Not at all.
        #[default]
        Constant,
        /// In a straight line to 0.
        Linear,
    }
}
