//! A block of lanes made of copies of one [`AsyncEnv`], stepped concurrently inside one task and
//! contained like [`Copies`](crate::Copies).

use crate::async_lane::{Coroutine, Desk, Job, Order, Sight, start};
use crate::contain::{Build, Failure, contain};
use crate::{AsyncEnv, AsyncVectorEnv, Cause, EnvError, FaultPhase, Frame, Rows, Spaces, Turn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

/// `lanes` copies of an environment that waits, as one block.
///
/// Whenever the task is woken, every lane that has not finished its turn is polled once, so a block
/// should have few lanes (tens) if they finish at different times.
pub struct AsyncCopies {
    lanes: Vec<Lane>,
    /// Builds an environment and starts its coroutine.
    build: Box<dyn Fn(Arc<Desk>) -> Result<Coroutine, EnvError> + Send>,
    spaces: Spaces,
}

struct Lane {
    /// Gone after a failure that could not be mended within its turn.
    coroutine: Option<Coroutine>,
    desk: Arc<Desk>,
    /// Here between turns.
    job: Option<Box<Job>>,
    state: State,
    /// Where its random numbers stood when it was given its job.
    position: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between turns.
    Idle,
    /// Stepping, or making the reset that was due.
    Working,
    /// Failed in this turn, rebuilt, making the reset of its next episode.
    Recovering,
}

impl AsyncCopies {
    /// Builds `lanes` copies (at least one). The first failure to build one is returned.
    pub fn new<E: AsyncEnv + 'static>(
        lanes: usize,
        build: impl Fn() -> Result<E, EnvError> + Send + 'static,
    ) -> Result<Self, EnvError> {
        let make: Build<E> = Box::new(build);
        let mut envs = Vec::with_capacity(lanes);
        for _ in 0..lanes {
            envs.push(contain(&make).map_err(Failure::into_error)?);
        }
        let first = envs.first().ok_or("a block needs at least one lane")?;
        let spaces = Spaces::new(first.observation_space(), first.action_space())?;
        let lanes = envs
            .into_iter()
            .map(|env| {
                let desk = Arc::new(Desk::default());
                Lane {
                    coroutine: Some(start(env, desk.clone())),
                    desk,
                    job: Some(Box::new(Job::new(&spaces))),
                    state: State::Idle,
                    position: 0,
                }
            })
            .collect();
        Ok(Self {
            lanes,
            build: Box::new(move |desk| Ok(start(make()?, desk))),
            spaces,
        })
    }

    /// The same, and every lane is drawn after its turn: see [`AsyncEnv::render`].
    #[must_use]
    pub fn drawn(mut self) -> Self {
        for job in self.lanes.iter_mut().filter_map(|lane| lane.job.as_mut()) {
            job.sight = Some(Sight::new());
        }
        self
    }

    /// What was seen of a lane after its last turn, if it is drawn.
    fn sight(&self, lane: usize) -> Option<&Sight> {
        self.lanes[lane].job.as_ref()?.sight.as_ref()
    }

    /// The spaces of the environment.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Polls lane `i` until it waits or its turn is over.
    fn poll_lane(&mut self, i: usize, cx: &mut Context<'_>, rows: &mut Rows<'_>) -> Poll<()> {
        loop {
            let lane = &mut self.lanes[i];
            let Some(coroutine) = &mut lane.coroutine else {
                return Poll::Ready(());
            };
            if lane.state == State::Idle {
                return Poll::Ready(());
            }
            rows.at_work(i, lane.desk.phase());
            let polled = catch_unwind(AssertUnwindSafe(|| coroutine.as_mut().poll(cx)));
            let Some(mut job) = lane.desk.collect() else {
                return Poll::Pending;
            };
            std::mem::swap(&mut job.rng, rows.rng(i));
            let outcome = job.outcome.take();
            let state = std::mem::replace(&mut lane.state, State::Idle);
            let failure = match (polled, outcome) {
                (Err(payload), _) => Some(Failure::panic(payload.as_ref())),
                (Ok(_), outcome) => outcome.and_then(Result::err),
            };
            match failure {
                None => finish(&job, state, i, rows),
                Some(failure) => {
                    lose(&job, lane.desk.phase(), state, i, rows, failure);
                    lane.retire();
                }
            }
            let lane = &mut self.lanes[i];
            lane.job = Some(job);
            // Once a turn is enough: an environment that cannot start is tried again at the next.
            if lane.coroutine.is_none() && state == State::Working {
                self.rebuild(i, rows);
                if self.busy(i).is_some() {
                    // Whoever polls is to see that this is a reset now, and may give it up.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Gives lane `i`, which has no environment, a new one that starts its next episode.
    fn rebuild(&mut self, i: usize, rows: &mut Rows<'_>) {
        let lane = &mut self.lanes[i];
        rows.at_work(i, FaultPhase::Build);
        match contain(|| (self.build)(lane.desk.clone())) {
            Ok(coroutine) => {
                lane.coroutine = Some(coroutine);
                self.assign(i, rows, State::Recovering);
            }
            Err(failure) => {
                let (cause, message) = failure.into_parts();
                rows.fail_next(i, FaultPhase::Build, cause, message);
            }
        }
    }

    /// Hands lane `i` what it is to do.
    fn assign(&mut self, i: usize, rows: &mut Rows<'_>, state: State) {
        let lane = &mut self.lanes[i];
        let mut job = lane.job.take().expect("the job is here between turns");
        job.transition = None;
        job.outcome = None;
        (job.seeds, job.lane, job.episode) = rows.episode(i);
        job.order = match rows.turn(i) {
            Turn::Step(action, _) if state == State::Working => {
                job.action.copy_from(action);
                Order::Step
            }
            _ => Order::Reset,
        };
        lane.position = rows.rng(i).position();
        std::mem::swap(&mut job.rng, rows.rng(i));
        lane.state = state;
        lane.desk.give(job);
    }
}

impl Lane {
    /// Drops the environment, which may panic as well.
    fn retire(&mut self) {
        let coroutine = self.coroutine.take();
        // What a failed environment says when it is dropped adds nothing to its failure.
        let _ = contain(|| {
            drop(coroutine);
            Ok::<(), Failure>(())
        });
    }
}

/// Writes the outcome of a turn that went well.
fn finish(job: &Job, state: State, i: usize, rows: &mut Rows<'_>) {
    let mut place = match (state, job.transition) {
        (State::Recovering, _) => rows.recover(i),
        (_, Some(transition)) => rows.proceed(i, transition),
        (_, None) => rows.begin(i),
    };
    place.record().copy_from_slice(job.observation.record());
    rows.mask(i).copy_from_slice(&job.mask);
}

/// Writes the outcome of a turn that failed.
fn lose(
    job: &Job,
    phase: FaultPhase,
    state: State,
    i: usize,
    rows: &mut Rows<'_>,
    failure: Failure,
) {
    let (cause, message) = failure.into_parts();
    match job.transition {
        // The step that ended the episode went well; only its successor could not start.
        Some(transition) if phase == FaultPhase::Reset => {
            rows.proceed(i, transition);
            rows.fail_next(i, phase, cause, message);
        }
        _ if state == State::Recovering => rows.fail_next(i, phase, cause, message),
        _ => rows.fail(i, phase, cause, message),
    }
}

impl AsyncVectorEnv for AsyncCopies {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn begin(&mut self, rows: &mut Rows<'_>) {
        for i in 0..self.lanes.len() {
            assert!(
                self.lanes[i].state == State::Idle,
                "a turn was begun before the last one was over"
            );
            if rows.is_set_aside(i) {
                self.lanes[i].retire();
                rows.skip(i);
                continue;
            }
            if self.lanes[i].coroutine.is_some() {
                self.assign(i, rows, State::Working);
                continue;
            }
            rows.begin(i);
            self.rebuild(i, rows);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, rows: &mut Rows<'_>) -> Poll<()> {
        let mut all = Poll::Ready(());
        for i in 0..self.lanes.len() {
            if self.poll_lane(i, cx, rows).is_pending() {
                all = Poll::Pending;
            }
        }
        all
    }

    fn busy(&self, lane: usize) -> Option<FaultPhase> {
        let lane = &self.lanes[lane];
        (lane.state != State::Idle).then(|| lane.desk.phase())
    }

    fn give_up(&mut self, rows: &mut Rows<'_>, i: usize, why: String) {
        let lane = &mut self.lanes[i];
        if lane.state == State::Idle {
            return;
        }
        let phase = lane.desk.phase();
        lane.retire();
        let mut job = lane
            .desk
            .reclaim()
            .expect("a coroutine that is dropped hands its job back");
        std::mem::swap(&mut job.rng, rows.rng(i));
        // How much a call had drawn when its time was over is chance.
        rows.rng(i).leap_from(lane.position);
        let failure = Failure::new(Cause::Deadline, why);
        lose(&job, phase, lane.state, i, rows, failure);
        lane.state = State::Idle;
        lane.job = Some(job);
    }

    fn render(&mut self, lane: usize, frame: &mut Frame) -> Result<bool, EnvError> {
        match self.sight(lane) {
            Some(sight) => sight.show(frame),
            None => Ok(false),
        }
    }

    fn glyphs(&self, lane: usize) -> Option<String> {
        self.sight(lane)?.glyphs.clone()
    }
}
