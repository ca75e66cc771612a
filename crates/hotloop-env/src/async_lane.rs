//! One lane of a block of [`AsyncEnv`]s: a coroutine that lives as long as its environment and does
//! one job after another, so that no step allocates.
//!
//! A [`Job`] is one box per lane that goes back and forth through the lane's [`Desk`]. It carries all
//! that a turn needs, and comes back however the turn ends: with its outcome, or without one if the
//! environment panicked or its future was dropped.

use crate::contain::{Failure, check_mask, check_reward, contain};
use crate::{
    ActionBuf, AsyncEnv, EnvError, EnvRng, FaultPhase, Frame, ObservationBuf, Philox, ResetCtx,
    Spaces, Stream, Transition,
};
use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// Lets whoever polls see what is done next, and give it up; the next poll comes at once.
async fn pause() {
    let mut paused = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a lane is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Step,
    Reset,
}

/// One turn of a lane: the order, what goes with it, and what came of it.
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) action: ActionBuf,
    pub(crate) rng: EnvRng,
    pub(crate) seeds: Philox,
    pub(crate) lane: u64,
    pub(crate) episode: u64,
    /// The step's, once it was made.
    pub(crate) transition: Option<Transition>,
    pub(crate) observation: ObservationBuf,
    pub(crate) mask: Vec<u8>,
    pub(crate) outcome: Option<Result<(), Failure>>,
    /// What is seen of the lane, if it is drawn.
    pub(crate) sight: Option<Sight>,
}

/// What is seen of a lane after its turn.
pub(crate) struct Sight {
    frame: Frame,
    drawn: Result<bool, EnvError>,
    pub(crate) glyphs: Option<String>,
}

impl Sight {
    pub(crate) fn new() -> Self {
        Self {
            frame: Frame::new(),
            drawn: Ok(false),
            glyphs: None,
        }
    }

    fn take(&mut self, env: &mut impl AsyncEnv) {
        let drawn = contain(|| env.render(&mut self.frame));
        self.drawn = drawn.map_err(Failure::into_error);
        self.glyphs = env.glyphs();
    }

    /// Copies the picture, if there is one.
    pub(crate) fn show(&self, frame: &mut Frame) -> Result<bool, EnvError> {
        match &self.drawn {
            Ok(true) => {
                frame.clone_from(&self.frame);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => Err(EnvError::new(error.to_string())),
        }
    }
}

impl Job {
    pub(crate) fn new(spaces: &Spaces) -> Self {
        Self {
            order: Order::Reset,
            action: ActionBuf::new(&spaces.action),
            // Changes places with the lane's own numbers for the length of a turn.
            rng: EnvRng::new(0, 0, Stream::Env),
            seeds: Philox::new(0, Stream::Seed),
            lane: 0,
            episode: 0,
            transition: None,
            observation: ObservationBuf::new(&spaces.observation),
            mask: vec![0; spaces.action.mask_bytes()],
            outcome: None,
            sight: None,
        }
    }

    async fn perform<E: AsyncEnv>(&mut self, env: &mut E, desk: &Desk) -> Result<(), Failure> {
        let mut episode = self.episode;
        let mut restart = self.order == Order::Reset;
        if self.order == Order::Step {
            let transition = env.step(self.action.view(), &mut self.rng).await?;
            check_reward(&transition)?;
            self.transition = Some(transition);
            if transition.end() == crate::End::Terminated {
                restart = true;
                episode += 1;
            }
        }
        if restart {
            if self.order == Order::Step {
                desk.enter(FaultPhase::Reset);
                pause().await;
            }
            let mut ctx = ResetCtx::with_seeds(&mut self.rng, self.seeds, self.lane, episode);
            env.reset(&mut ctx).await?;
        }
        env.observe(&mut self.observation.as_mut())?;
        if !self.mask.is_empty() {
            env.action_mask(&mut self.mask);
            check_mask(self.action.view().layout(), &self.mask)?;
        }
        if let Some(sight) = &mut self.sight {
            sight.take(env);
        }
        self.observation.check_finite().map_err(Failure::not_finite)
    }
}

/// Where jobs are handed over, and where a lane says what it is doing. Only the task that owns the block ever touches it, so its locks are
/// never contended; they are what makes it safe to share.
#[derive(Default)]
pub(crate) struct Desk {
    to_do: Mutex<Option<Box<Job>>>,
    done: Mutex<Option<Box<Job>>>,
    /// Whether the call at work is a step.
    stepping: AtomicBool,
}

impl Desk {
    /// What the lane does now, known to whoever catches its panic or waits for it.
    pub(crate) fn phase(&self) -> FaultPhase {
        match self.stepping.load(Relaxed) {
            true => FaultPhase::Step,
            false => FaultPhase::Reset,
        }
    }

    fn enter(&self, phase: FaultPhase) {
        self.stepping.store(phase == FaultPhase::Step, Relaxed);
    }

    pub(crate) fn give(&self, job: Box<Job>) {
        self.stepping.store(job.order == Order::Step, Relaxed);
        put(&self.to_do, job);
    }

    /// The job, if the lane is through with it.
    pub(crate) fn collect(&self) -> Option<Box<Job>> {
        take(&self.done)
    }

    /// The job of a lane whose coroutine is gone.
    pub(crate) fn reclaim(&self) -> Option<Box<Job>> {
        take(&self.done).or_else(|| take(&self.to_do))
    }
}

fn put(slot: &Mutex<Option<Box<Job>>>, job: Box<Job>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
}

fn take(slot: &Mutex<Option<Box<Job>>>) -> Option<Box<Job>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A job in the coroutine's hands, which goes back to the desk whatever happens.
struct Held<'a> {
    job: Option<Box<Job>>,
    desk: &'a Desk,
}

impl Deref for Held<'_> {
    type Target = Job;
    fn deref(&self) -> &Job {
        self.job.as_ref().expect("the job is held until the drop")
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Job {
        self.job.as_mut().expect("the job is held until the drop")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            put(&self.desk.done, job);
        }
    }
}

/// A lane's coroutine; it never ends by itself.
pub(crate) type Coroutine = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the coroutine of one environment.
pub(crate) fn start<E: AsyncEnv + 'static>(env: E, desk: Arc<Desk>) -> Coroutine {
    Box::pin(serve(env, desk))
}

async fn serve<E: AsyncEnv>(mut env: E, desk: Arc<Desk>) {
    loop {
        // No waker is kept: whoever gives a job polls the coroutine next.
        let job = poll_fn(|_| match take(&desk.to_do) {
            Some(job) => Poll::Ready(job),
            None => Poll::Pending,
        })
        .await;
        let mut held = Held {
            job: Some(job),
            desk: &desk,
        };
        let outcome = held.perform(&mut env, &desk).await;
        held.outcome = Some(outcome);
    }
}
