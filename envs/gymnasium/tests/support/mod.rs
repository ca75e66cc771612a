//! A block of the bridge, driven by hand: the engine's part of a turn without the engine.

#![allow(unreachable_pub, reason = "a module of several tests")]
#![allow(dead_code, reason = "each test takes what it needs")]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use hotloop_env::{
    ActionBuf, AsyncVectorEnv, EnvOptions, Fault, FaultPhase, Frame, LaneStates, OptionValue,
    PythonOptions, Rows, RowsParts, Spaces, Stream, Wrapping,
};
use hotloop_gymnasium::{Recipe, WorkerBlock};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

pub const SEED: u64 = 5;

/// What is made: an id with keyword arguments, options and wrappers.
#[derive(Clone)]
pub struct Made {
    pub id: String,
    pub kwargs: String,
    pub wrappers: String,
    pub options: BTreeMap<String, OptionValue>,
    pub interpreter: Option<String>,
    pub drawn: bool,
    pub wrapping: Wrapping,
}

/// A toy of `toys.py` with these keyword arguments (JSON).
pub fn toy(name: &str, kwargs: &str) -> Made {
    Made {
        kwargs: kwargs.into(),
        ..made(&format!("Toys/{name}-v0"))
    }
}

pub fn made(id: &str) -> Made {
    Made {
        id: id.into(),
        kwargs: "{}".into(),
        wrappers: "[]".into(),
        options: BTreeMap::new(),
        interpreter: None,
        drawn: false,
        wrapping: Wrapping::default(),
    }
}

impl Made {
    pub fn options(&self) -> EnvOptions {
        let python = PythonOptions {
            imports: vec!["tests.toys".into(), "tests.odd".into()],
            kwargs: self.kwargs.clone(),
            wrappers: self.wrappers.clone(),
            interpreter: self.interpreter.clone(),
        };
        let options = hotloop_gymnasium::spec(&self.id).options(&self.options);
        let options = options.unwrap().with_python(python);
        options.drawn(self.drawn).wrapped(self.wrapping.clone())
    }

    pub fn spaces(&self) -> Result<Spaces, String> {
        let spec = hotloop_gymnasium::spec(&self.id);
        spec.spaces(&self.options()).map_err(|e| e.to_string())
    }

    pub fn desk(&self, lanes: usize) -> Desk {
        Desk::new(self, lanes)
    }
}

pub struct Desk {
    // Dropped before the runtime that it waits in.
    pub block: WorkerBlock,
    runtime: Rc<Runtime>,
    pub spaces: Spaces,
    pub states: LaneStates,
    actions: Vec<u64>,
    pub valid: Vec<u8>,
    pub next_valid: Vec<u8>,
    pub rewards: Vec<f32>,
    pub ends: Vec<u8>,
    pub returns: Vec<f32>,
    pub lengths: Vec<u32>,
    observations: Vec<u64>,
    masks: Vec<u8>,
    pub faults: Vec<Fault>,
}

impl Desk {
    fn new(made: &Made, lanes: usize) -> Self {
        let spaces = spaces(made);
        let recipe = Recipe::new(&made.id, &made.options()).unwrap();
        let words = |bytes: usize| vec![0u64; (bytes * lanes).div_ceil(8)];
        Self {
            block: WorkerBlock::new(recipe, lanes).unwrap(),
            runtime: Rc::new(runtime()),
            states: LaneStates::new(SEED, Stream::Env, 0, lanes),
            actions: words(spaces.action.record_bytes()),
            valid: vec![0; lanes],
            next_valid: vec![0; lanes],
            rewards: vec![0.0; lanes],
            ends: vec![0; lanes],
            returns: vec![0.0; lanes],
            lengths: vec![0; lanes],
            observations: words(spaces.observation.record_bytes()),
            masks: vec![1; spaces.action.mask_bytes() * lanes],
            faults: vec![],
            spaces,
        }
    }

    pub fn set_action(&mut self, lane: usize, action: &ActionBuf) {
        let size = self.spaces.action.record_bytes();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.actions);
        bytes[lane * size..(lane + 1) * size].copy_from_slice(action.view().record());
    }

    /// One turn of every lane, in which those that are busy after `limit` are given up; false if one was.
    pub async fn turning(&mut self, limit: Duration) -> bool {
        let lanes = self.valid.len();
        let first_busy = |block: &WorkerBlock| (0..lanes).find(|lane| block.busy(*lane).is_some());
        self.turning_but(limit, first_busy).await
    }

    /// One turn of every lane. Whenever nothing has come for `limit`, the lane that is `overdue` is given up; false if
    /// one was.
    async fn turning_but(
        &mut self,
        limit: Duration,
        overdue: impl Fn(&WorkerBlock) -> Option<usize>,
    ) -> bool {
        let Self {
            block,
            spaces,
            states,
            actions,
            valid,
            next_valid,
            rewards,
            ends,
            returns,
            lengths,
            observations,
            masks,
            faults,
            ..
        } = self;
        valid.copy_from_slice(next_valid);
        faults.clear();
        let lanes = valid.len();
        let mut rows = Rows::new(RowsParts {
            actions: &bytemuck::cast_slice(actions)[..lanes * spaces.action.record_bytes()],
            next_observations: &mut bytemuck::cast_slice_mut(observations)
                [..lanes * spaces.observation.record_bytes()],
            spaces,
            lanes: states,
            valid,
            rewards,
            ends,
            episode_returns: returns,
            episode_lengths: lengths,
            next_masks: masks,
            next_valid,
            faults,
        });
        block.begin(&mut rows);
        let (mut in_time, begun) = (true, Instant::now());
        while timeout(limit, poll_fn(|cx| block.poll(cx, &mut rows)))
            .await
            .is_err()
        {
            assert!(begun.elapsed() < Duration::from_secs(90), "a turn hangs");
            if let Some(lane) = overdue(block) {
                in_time = false;
                block.give_up(&mut rows, lane, "no answer in time".into());
            }
        }
        in_time
    }

    /// One turn, in which nothing hangs.
    pub fn turn(&mut self) {
        let in_time = self.turn_within(Duration::from_secs(60));
        assert!(in_time, "a turn hangs: {:?}", self.faults);
    }

    /// One turn in which the first lane that is busy after `limit` is given up.
    pub fn turn_within(&mut self, limit: Duration) -> bool {
        let runtime = self.runtime.clone();
        runtime.block_on(self.turning(limit))
    }

    /// One turn in which the step of this lane hangs, and is given up; however late the machine comes to it.
    pub fn turn_that_hangs_in(&mut self, lane: usize) {
        let overdue =
            |block: &WorkerBlock| (block.busy(lane) == Some(FaultPhase::Step)).then_some(lane);
        let runtime = self.runtime.clone();
        let in_time = runtime.block_on(self.turning_but(Duration::from_millis(500), overdue));
        assert!(!in_time, "lane {lane} does not hang");
    }

    /// The bytes of a lane's observation.
    pub fn record(&self, lane: usize) -> &[u8] {
        let size = self.spaces.observation.record_bytes();
        &bytemuck::cast_slice::<u64, u8>(&self.observations)[lane * size..][..size]
    }

    /// The observation of a lane whose space is one float32 box.
    pub fn floats(&self, lane: usize) -> Vec<f32> {
        bytemuck::cast_slice(self.record(lane)).to_vec()
    }

    pub fn mask(&self, lane: usize) -> &[u8] {
        let size = self.spaces.action.mask_bytes();
        &self.masks[lane * size..][..size]
    }

    pub fn frame(&mut self, lane: usize) -> Frame {
        let mut frame = Frame::new();
        assert!(self.block.render(lane, &mut frame).unwrap());
        frame
    }
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The spaces of what is made, asked once.
fn spaces(made: &Made) -> Spaces {
    static KNOWN: Mutex<BTreeMap<String, Spaces>> = Mutex::new(BTreeMap::new());
    let key = format!("{} {} {}", made.id, made.kwargs, made.wrappers);
    if let Some(known) = KNOWN.lock().unwrap().get(&key) {
        return known.clone();
    }
    let spaces = made.spaces().unwrap();
    KNOWN.lock().unwrap().insert(key, spaces.clone());
    spaces
}

/// Waits until `done`, at most a minute.
pub fn soon(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not happen within a minute");
}

/// Whether a process is there, and no zombie.
pub fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").starts_with(" Z"))
}

/// The interpreter that the bridge would take.
pub fn python() -> String {
    std::env::var("HOTLOOP_PYTHON").unwrap_or_else(|_| {
        let here = std::env::current_dir().unwrap();
        let mut above = here.ancestors().map(|dir| dir.join(".venv/bin/python"));
        let found = above.find(|python| python.is_file());
        found
            .expect("no .venv: run `cargo xtask python`")
            .display()
            .to_string()
    })
}
