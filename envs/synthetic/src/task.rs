//! What both environments have in common: the task, and the faults.

use hotloop_env::{
    EnvError, EnvOptions, EnvSpec, ImageLayout, ObservationMut, ResetCtx, Space, StateReader,
    StateWriter, Transition,
};

/// The task of an environment, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    size: usize,
    /// Height and width of an image of `size` channels; 0 for `size` numbers.
    pixels: usize,
    actions: usize,
    length: u32,
    faulty_lane: i64,
    fail_every: u64,
    panic_every: u64,
    hang_every: u64,
    /// The lane that it is in, known from the first reset on.
    lane: u64,
    /// Steps made in this episode.
    step: u32,
    /// Steps begun since it was built.
    begun: u64,
}

/// Declares the options.
pub(crate) fn options(spec: EnvSpec) -> EnvSpec {
    spec.option(
        "size",
        4i64,
        "numbers in an observation, or channels of an image",
    )
    .option(
        "pixels",
        0i64,
        "height and width of an image of bytes; 0 for none",
    )
    .option("actions", 2i64, "actions; the reward is the action")
    .option("length", 100i64, "steps of an episode; 0 for no end")
    .option("faulty_lane", -1i64, "the lane that has faults; -1 for all")
    .option("fail_every", 0i64, "steps from error to error; 0 for none")
    .option("panic_every", 0i64, "steps from panic to panic; 0 for none")
    .option(
        "hang_every",
        0i64,
        "steps until one never returns; 0 for none",
    )
}

/// What a step has to do beside taking its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Nothing.
    Answer,
    /// Never return.
    Hang,
}

impl Task {
    pub(crate) fn new(options: &EnvOptions) -> Result<Self, EnvError> {
        let whole = |name: &str, least: i64| {
            let value = options.int(name);
            if value < least || value > i64::from(u32::MAX) {
                return Err(EnvError::new(format!(
                    "option {name:?} is {value}; it is a number from {least} to {}",
                    u32::MAX
                )));
            }
            Ok(value as u64)
        };
        Ok(Self {
            size: whole("size", 1)? as usize,
            pixels: whole("pixels", 0)? as usize,
            actions: whole("actions", 1)? as usize,
            length: whole("length", 0)? as u32,
            faulty_lane: options.int("faulty_lane"),
            fail_every: whole("fail_every", 0)?,
            panic_every: whole("panic_every", 0)?,
            hang_every: whole("hang_every", 0)?,
            lane: 0,
            step: 0,
            begun: 0,
        })
    }

    pub(crate) fn lane(&self) -> u64 {
        self.lane
    }

    pub(crate) fn observation_space(&self) -> Space {
        match self.pixels {
            0 => Space::unbounded(&[self.size]),
            side => Space::image([self.size, side, side], ImageLayout::Chw),
        }
    }

    pub(crate) fn action_space(&self) -> Space {
        Space::discrete(self.actions)
    }

    pub(crate) fn reset(&mut self, ctx: &ResetCtx<'_>) {
        (self.lane, self.step) = (ctx.lane(), 0);
    }

    /// A step begins: fails or panics if it is its turn to.
    pub(crate) fn begin(&mut self) -> Result<Duty, EnvError> {
        self.begun += 1;
        if self.faulty_lane >= 0 && u64::try_from(self.faulty_lane) != Ok(self.lane) {
            return Ok(Duty::Answer);
        }
        let due = |every: u64| every > 0 && self.begun.is_multiple_of(every);
        assert!(!due(self.panic_every), "panic_every, step {}", self.begun);
        if due(self.fail_every) {
            return Err(EnvError::new(format!("fail_every, step {}", self.begun)));
        }
        Ok(match due(self.hang_every) {
            true => Duty::Hang,
            false => Duty::Answer,
        })
    }

    /// The step with `action` is made.
    pub(crate) fn end(&mut self, action: i64) -> Transition {
        self.step += 1;
        let reward = action as f64;
        match self.step == self.length {
            true => Transition::terminated(reward),
            false => Transition::running(reward),
        }
    }

    pub(crate) fn observe(&self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        if self.pixels > 0 {
            let channels = out
                .slice::<u8>()?
                .chunks_exact_mut(self.pixels * self.pixels);
            // Bytes count from 0 again after 255.
            (self.step..)
                .zip(channels)
                .for_each(|(shade, channel)| channel.fill(shade as u8));
            return Ok(());
        }
        for (j, place) in out.slice::<f32>()?.iter_mut().enumerate() {
            *place = self.step as f32 + j as f32;
        }
        Ok(())
    }

    pub(crate) fn save(&self, out: &mut StateWriter) {
        out.u64(self.lane);
        out.u32(self.step);
        out.u64(self.begun);
    }

    pub(crate) fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        (self.lane, self.step, self.begun) = (state.u64()?, state.u32()?, state.u64()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Busy;
    use hotloop_env::{Layout, OptionValue};

    #[test]
    fn an_image_has_a_shade_for_each_channel() {
        let spec = options(EnvSpec::new("Task-v0", Busy::new));
        let given = [("size", 3), ("pixels", 2)].map(|(k, v)| (k.into(), OptionValue::Int(v)));
        let mut task = Task::new(&spec.options(&given.into()).unwrap()).unwrap();
        let layout = Layout::new(&task.observation_space()).unwrap();
        task.step = 254;
        let mut record = vec![7; layout.record_bytes()];
        task.observe(&mut ObservationMut::new(&mut record, &layout))
            .unwrap();
        assert_eq!(
            record[..12],
            [254, 254, 254, 254, 255, 255, 255, 255, 0, 0, 0, 0]
        );
    }
}
