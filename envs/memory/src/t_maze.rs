//! The T-maze: a sign, a corridor, a junction.

use hotloop_env::{
    ActionView, Board, End, Env, EnvError, EnvRng, Frame, ObservationMut, ResetCtx, Space,
    StateReader, StateWriter, Transition,
};

const NORTH: i64 = 0;
const EAST: i64 = 1;
const SOUTH: i64 = 2;

const GOAL: f64 = 4.0;
const MISTAKE: f64 = -0.1;

/// The longest corridor.
const LONGEST: i64 = 1_000_000;

/// The most cells that a picture of the corridor has; a longer one is drawn to scale.
const WIDEST: i64 = 40;
/// Pixels along a cell of a picture.
const CELL: u32 = 16;
/// Pictures per second.
const FPS: f64 = 10.0;
const WALL: [u8; 3] = [70, 74, 84];
const SIGN: [u8; 3] = [232, 190, 72];
const PRIZE: [u8; 3] = [118, 190, 104];
const AGENT: [u8; 3] = [96, 156, 222];

/// The T-maze of Bakker, "Reinforcement Learning with Long Short-Term Memory" (2001): the agent starts at the
/// western end of a corridor, where a sign says whether the goal is north or south of the junction at
/// the eastern end, `length` steps away. It sees the sign nowhere else.
///
/// - **Observation**: three bits as `float32`: 011 at the start if the goal is north, 110 if it is south,
///   101 in the corridor, 010 at the junction.
/// - **Actions**: 0 north, 1 east, 2 south, 3 west. Moves into a wall leave the agent where it is.
/// - **Reward**: 4 for turning to the goal at the junction and −0.1 for turning the other way, which both terminate
///   the episode; −0.1 for a move into a wall; 0 otherwise. For an agent that bumps into nothing the share of
///   successes is (mean return + 0.1) / 4.1; the mean return of one that guesses is 1.95.
/// - **Limit**: an episode is truncated after 10 · (`length` + 1) steps. (Bakker's has no limit.)
#[derive(Clone, Debug)]
pub struct TMaze {
    length: i64,
    position: i64,
    north: bool,
    steps: i64,
    /// The agent's row in the picture: the corridor is row 1.
    row: usize,
}

impl TMaze {
    /// A maze whose junction is `length` steps from the start.
    ///
    /// # Errors
    /// If `length` is not from 1 to a million.
    pub fn new(length: i64) -> Result<Self, EnvError> {
        if !(1..=LONGEST).contains(&length) {
            return Err(EnvError::new(format!(
                "option \"length\" is {length}; a corridor has 1 to {LONGEST} steps"
            )));
        }
        Ok(Self {
            length,
            position: 0,
            north: false,
            steps: 0,
            row: 1,
        })
    }

    /// The steps after which an episode is truncated.
    pub fn limit(&self) -> i64 {
        10 * (self.length + 1)
    }

    /// The maze as people see it: the sign above the start or below it, the goal, and the agent.
    fn board(&self) -> Board {
        let last = self.length.min(WIDEST - 1);
        let column = |position: i64| (position * last / self.length) as usize;
        let end = column(self.length);
        let side = if self.north { 0 } else { 2 };
        let mut board = Board::new(end + 1, 3);
        for (x, y) in (0..end).flat_map(|x| [(x, 0), (x, 2)]) {
            board.set(x, y, '#', WALL);
        }
        board.set(0, side, '!', SIGN);
        board.set(end, side, '$', PRIZE);
        board.set(column(self.position), self.row, '@', AGENT);
        board
    }
}

impl Env for TMaze {
    fn observation_space(&self) -> Space {
        Space::boxed(vec![0.0; 3], vec![1.0; 3], &[3])
    }

    fn action_space(&self) -> Space {
        Space::discrete(4)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        self.north = ctx.rng().below(2) == 0;
        (self.position, self.steps, self.row) = (0, 0, 1);
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        self.steps += 1;
        let (at_junction, action) = (self.position == self.length, action.discrete());
        if at_junction && (action == NORTH || action == SOUTH) {
            self.row = if action == NORTH { 0 } else { 2 };
            let found = (action == NORTH) == self.north;
            let reward = if found { GOAL } else { MISTAKE };
            return Ok(Transition::new(reward, End::Terminated));
        }
        let to = match action {
            NORTH | SOUTH => self.position,
            EAST => (self.position + 1).min(self.length),
            _ => (self.position - 1).max(0),
        };
        let reward = if to == self.position { MISTAKE } else { 0.0 };
        self.position = to;
        let end = if self.steps >= self.limit() {
            End::Truncated
        } else {
            End::Continue
        };
        Ok(Transition::new(reward, end))
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let bits = match self.position {
            0 if self.north => [0.0f32, 1.0, 1.0],
            0 => [1.0, 1.0, 0.0],
            at if at == self.length => [0.0, 1.0, 0.0],
            _ => [1.0, 0.0, 1.0],
        };
        out.write(&bits)
    }

    fn save(&self, out: &mut StateWriter) -> bool {
        out.i64(self.position);
        out.i64(self.steps);
        out.u8(u8::from(self.north));
        true
    }

    fn load(&mut self, state: &mut StateReader<'_>) -> Result<(), EnvError> {
        (self.position, self.steps, self.row) = (state.i64()?, state.i64()?, 1);
        self.north = state.u8()? != 0;
        if (0..=self.length).contains(&self.position) {
            return Ok(());
        }
        Err(EnvError::new(format!(
            "position {} in a corridor of {} steps",
            self.position, self.length
        )))
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        self.board().draw(frame, CELL);
        frame.fps = FPS;
        Ok(true)
    }

    fn glyphs(&self) -> Option<String> {
        Some(self.board().text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::{ActionBuf, Layout, ObservationBuf, Stream};

    const WEST: i64 = 3;

    /// A maze of length 2 whose goal is on this side.
    fn maze(north: bool) -> TMaze {
        let mut maze = TMaze::new(2).unwrap();
        maze.north = north;
        maze
    }

    fn look(env: &mut TMaze) -> [f32; 3] {
        let layout = Layout::new(&env.observation_space()).unwrap();
        let mut observation = ObservationBuf::new(&layout);
        env.observe(&mut observation.as_mut()).unwrap();
        observation.first::<f32>().try_into().unwrap()
    }

    fn go(env: &mut TMaze, action: i64) -> (f64, End) {
        let layout = Layout::of_actions(&env.action_space()).unwrap();
        let action = ActionBuf::new(&layout).with_index(action as usize);
        let mut rng = EnvRng::new(0, 0, Stream::Env);
        let step = env.step(action.view(), &mut rng).unwrap();
        (step.reward(), step.end())
    }

    #[test]
    fn the_sign_is_seen_at_the_start_only_and_names_the_goal() {
        for (north, sign, goal, other) in [
            (true, [0., 1., 1.], NORTH, SOUTH),
            (false, [1., 1., 0.], SOUTH, NORTH),
        ] {
            let mut env = maze(north);
            assert_eq!(look(&mut env), sign);
            assert_eq!(go(&mut env, EAST), (0.0, End::Continue));
            assert_eq!(look(&mut env), [1., 0., 1.]);
            assert_eq!(go(&mut env, EAST), (0.0, End::Continue));
            assert_eq!(look(&mut env), [0., 1., 0.]);
            assert_eq!(go(&mut env.clone(), goal), (4.0, End::Terminated));
            assert_eq!(go(&mut env.clone(), other), (-0.1, End::Terminated));
        }
    }

    #[test]
    fn walls_stand_and_cost() {
        let mut env = maze(true);
        for action in [NORTH, SOUTH, WEST] {
            assert_eq!(go(&mut env, action), (-0.1, End::Continue));
        }
        go(&mut env, EAST);
        assert_eq!(go(&mut env, SOUTH), (-0.1, End::Continue));
        assert_eq!(go(&mut env, WEST), (0.0, End::Continue));
        assert_eq!(look(&mut env), [0., 1., 1.]);
        go(&mut env, EAST);
        go(&mut env, EAST);
        assert_eq!(go(&mut env, EAST), (-0.1, End::Continue));
        assert_eq!(look(&mut env), [0., 1., 0.]);
    }

    #[test]
    fn an_episode_is_truncated_at_the_limit() {
        let mut env = maze(true);
        for _ in 1..env.limit() {
            assert_eq!(go(&mut env, NORTH).1, End::Continue);
        }
        assert_eq!(go(&mut env, NORTH).1, End::Truncated);
        env.reset(&mut ResetCtx::new(
            &mut EnvRng::new(0, 0, Stream::Env),
            0,
            0,
            0,
        ))
        .unwrap();
        assert_eq!(go(&mut env, NORTH).1, End::Continue);
    }

    #[test]
    fn both_signs_are_drawn_and_states_are_saved() {
        let mut env = TMaze::new(20).unwrap();
        let mut rng = EnvRng::new(3, 0, Stream::Env);
        let mut norths = 0;
        for episode in 0..100 {
            env.reset(&mut ResetCtx::new(&mut rng, 3, 0, episode))
                .unwrap();
            norths += u32::from(env.north);
        }
        assert!((30..=70).contains(&norths), "{norths} of 100");
        go(&mut env, EAST);
        let mut out = StateWriter::new();
        assert!(env.save(&mut out));
        let bytes = out.into_bytes();
        let mut other = TMaze::new(20).unwrap();
        other.load(&mut StateReader::new(&bytes)).unwrap();
        assert_eq!(
            (other.position, other.steps, other.north),
            (1, 1, env.north)
        );
        let mut shorter = TMaze::new(1).unwrap();
        shorter.load(&mut StateReader::new(&bytes)).unwrap();
        assert!(TMaze::new(0).is_err());
    }

    #[test]
    fn the_picture_shows_the_goal_the_sign_and_where_the_agent_went() {
        let mut env = maze(true);
        let rows = |env: &TMaze| -> Vec<String> {
            let text = env.glyphs().unwrap();
            let glyphs = |row: &str| {
                let parts = row.split('m').skip(1);
                parts
                    .filter_map(|part| part.chars().next())
                    .take(3)
                    .collect()
            };
            text.lines().map(glyphs).collect()
        };
        assert_eq!(rows(&env), ["!#$", "@··", "##·"]);
        for action in [EAST, EAST, SOUTH] {
            go(&mut env, action);
        }
        assert_eq!(rows(&env), ["!#$", "···", "##@"]);
        // A long corridor is drawn to scale.
        let mut frame = Frame::new();
        let mut long = TMaze::new(LONGEST).unwrap();
        long.position = LONGEST;
        assert!(long.render(&mut frame).unwrap());
        assert_eq!((frame.width, frame.height), (40 * CELL, 3 * CELL));
    }
}
