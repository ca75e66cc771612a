//! The environment around a task: spaces, the step, saved states.

use crate::{Cursor, Simulation, Task};
use hotloop_env::{
    ActionView, Bound, BoxSpace, DType, Env, EnvError, EnvOptions, EnvRng, EnvSpec, Frame,
    ObservationMut, ResetCtx, Space, StateReader, StateWriter, Transition,
};

/// Longer than every observation of the family.
const LONGEST: usize = 512;

/// More than anybody means: a step of the environment would take seconds.
const MOST_SUBSTEPS: i64 = 10_000;

/// A task as an environment.
pub struct MuJoCo<T> {
    task: T,
    simulation: Simulation,
    /// The task's place after the last step. MuJoCo cannot derive it from the state: it is of the last substep's begin.
    place: [f64; 2],
    /// Numbers in an observation.
    length: usize,
}

impl<T: Task> MuJoCo<T> {
    /// The task with these options, at its model's initial state.
    ///
    /// # Errors
    /// If an option cannot be used, or the model cannot be loaded.
    pub fn new(options: &EnvOptions) -> Result<Self, EnvError> {
        let given = options.int("frame_skip");
        let substeps = u32::try_from(given).ok();
        let substeps = substeps.filter(|_| (1..=MOST_SUBSTEPS).contains(&given));
        let substeps = substeps.ok_or_else(|| {
            EnvError::new(format!(
                "frame_skip is {given}, expected 1 to {MOST_SUBSTEPS}"
            ))
        })?;
        let mut simulation = Simulation::new(T::MODEL, substeps, T::FORCES)?;
        simulation.restart(|_| {}, |_| {});
        let task = T::new(options, &simulation);
        let mut place = [0.0; LONGEST];
        let mut cursor = Cursor::new(&mut place);
        task.observe(&simulation, &mut cursor);
        Ok(Self {
            length: cursor.written(),
            place: task.place(&simulation),
            task,
            simulation,
        })
    }

    /// The simulation, to look at.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }
}

/// How the task's environment is made.
pub(crate) fn spec<T: Task>() -> EnvSpec {
    let spec = EnvSpec::new(T::ID, MuJoCo::<T>::new)
        .about(T::ABOUT)
        .time_limit(T::TIME_LIMIT)
        .option(
            "frame_skip",
            T::FRAME_SKIP,
            "steps of MuJoCo per step of the environment",
        );
    T::declare(spec)
}

impl<T: Task> Env for MuJoCo<T> {
    fn observation_space(&self) -> Space {
        Space::Box(BoxSpace {
            shape: vec![self.length],
            low: Bound::Uniform(f64::NEG_INFINITY),
            high: Bound::Uniform(f64::INFINITY),
            dtype: DType::F64,
            image: None,
        })
    }

    fn action_space(&self) -> Space {
        let ranges = self.simulation.model().actuator_ctrlrange();
        let side = |i: usize| {
            let bounds: Vec<f64> = ranges
                .iter()
                .map(|range| f64::from(range[i] as f32))
                .collect();
            match bounds.iter().all(|bound| *bound == bounds[0]) {
                true => Bound::Uniform(bounds[0]),
                false => Bound::Each(bounds),
            }
        };
        Space::boxed(side(0), side(1), &[ranges.len()])
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.task.start(&mut self.simulation, ctx.rng());
        self.place = self.task.place(&self.simulation);
        Ok(())
    }

    #[inline]
    fn step(&mut self, action: ActionView<'_>, _: &mut EnvRng) -> Result<Transition, EnvError> {
        let action = action.continuous();
        self.simulation.advance(action);
        let (before, dt) = (self.place, self.simulation.dt());
        self.place = self.task.place(&self.simulation);
        let velocity = [0, 1].map(|i| (self.place[i] - before[i]) / dt);
        let judgement = self.task.judge(&self.simulation, action, velocity);
        Ok(match judgement.terminated {
            true => Transition::terminated(judgement.reward),
            false => Transition::running(judgement.reward),
        })
    }

    #[inline]
    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let mut cursor = Cursor::new(out.slice()?);
        self.task.observe(&self.simulation, &mut cursor);
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        crate::draw::draw(&mut self.simulation, frame)?;
        Ok(true)
    }

    #[cfg(not(target_os = "linux"))]
    fn render(&mut self, _: &mut Frame) -> Result<bool, EnvError> {
        Err(EnvError::new(
            "MuJoCo draws on Linux only: elsewhere OpenGL needs a window",
        ))
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        self.simulation.save(out);
        for x in self.place {
            out.f64(x);
        }
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        self.simulation.load(state)?;
        for x in &mut self.place {
            *x = state.f64()?;
        }
        Ok(())
    }
}
