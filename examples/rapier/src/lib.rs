//! Somebody else's simulator as an environment: a ball on a beam, with the contacts of the physics engine
//! [rapier](https://rapier.rs). The engine knows nothing of learning, and hotloop nothing of physics; this file is all
//! that is between them.

use hotloop::env::{Canvas, Frame};
use hotloop::prelude::*;
use rapier2d::prelude::*;

/// Half the beam's length, and half its thickness, in metres.
const BEAM: [f32; 2] = [1.0, 0.03];
const RADIUS: f32 = 0.1;
/// How fast the beam tilts (rad/s), and how far (rad).
const TILT_SPEED: f32 = 0.8;
const MAX_TILT: f32 = 0.35;
/// Steps of the engine, of 1/60 s, for one step of the environment.
const SUBSTEPS: usize = 2;

/// Keep a ball in the middle of a beam by tilting it.
///
/// Observation: the ball's place along the beam (1 is its end), its speed along the beam (m/s), the beam's tilt (rad).
/// Actions: tilt to the right, hold, tilt to the left. Reward: 1 in the middle of the beam, 0 at its ends. The episode
/// terminates when the ball falls off.
pub struct BallOnBeam {
    world: PhysicsWorld,
    beam: RigidBodyHandle,
    ball: RigidBodyHandle,
}

impl BallOnBeam {
    /// A ball at rest in the middle of a level beam.
    pub fn new() -> Self {
        let mut world = PhysicsWorld::new();
        let (beam, _) = world.insert(
            RigidBodyBuilder::kinematic_velocity_based(),
            ColliderBuilder::cuboid(BEAM[0], BEAM[1]),
        );
        let (ball, _) = world.insert(
            RigidBodyBuilder::dynamic()
                .translation(Vector::new(0.0, BEAM[1] + RADIUS))
                .can_sleep(false),
            ColliderBuilder::ball(RADIUS),
        );
        Self { world, beam, ball }
    }

    fn tilt(&self) -> f32 {
        self.world.bodies[self.beam].rotation().angle()
    }

    /// A vector's part along the beam.
    fn along(&self, vector: Vector) -> f32 {
        let (sin, cos) = self.tilt().sin_cos();
        vector.x * cos + vector.y * sin
    }

    /// The ball's place along the beam.
    fn place(&self) -> f32 {
        self.along(self.world.bodies[self.ball].translation()) / BEAM[0]
    }
}

impl Default for BallOnBeam {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for BallOnBeam {
    fn observation_space(&self) -> Space {
        let far = f64::INFINITY;
        Space::boxed(vec![-far; 3], vec![far; 3], &[3])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset(&mut self, ctx: &mut ResetCtx<'_>) -> Result<(), EnvError> {
        // A new world forgets everything, contacts of the last episode among it.
        *self = Self::new();
        let ball = &mut self.world.bodies[self.ball];
        let x = ctx.rng().range(-0.5, 0.5) as f32;
        ball.set_translation(Vector::new(x, BEAM[1] + RADIUS), true);
        ball.set_linvel(Vector::new(ctx.rng().range(-0.3, 0.3) as f32, 0.0), true);
        Ok(())
    }

    fn step(&mut self, action: ActionView<'_>, _rng: &mut EnvRng) -> Result<Transition, EnvError> {
        let turn = TILT_SPEED * (action.discrete() - 1) as f32;
        for _ in 0..SUBSTEPS {
            let at_stop = self.tilt() * turn.signum() >= MAX_TILT;
            let beam = &mut self.world.bodies[self.beam];
            beam.set_angvel(if at_stop { 0.0 } else { turn }, true);
            self.world.step();
        }
        let out = self.place().abs();
        Ok(if out > 1.0 {
            Transition::terminated(0.0)
        } else {
            Transition::running(f64::from(1.0 - out))
        })
    }

    fn observe(&mut self, out: &mut ObservationMut<'_>) -> Result<(), EnvError> {
        let speed = self.along(self.world.bodies[self.ball].linvel());
        out.write(&[self.place(), speed, self.tilt()])
    }

    fn render(&mut self, frame: &mut Frame) -> Result<bool, EnvError> {
        let mut canvas = Canvas::new(frame, [480, 240], [0.0, 0.1], 200.0, [255, 255, 255]);
        let (sin, cos) = f64::from(self.tilt()).sin_cos();
        let end = f64::from(BEAM[0]);
        let thickness = 2.0 * f64::from(BEAM[1]);
        let right = [end * cos, end * sin];
        canvas.line(right.map(|x| -x), right, thickness, [96, 108, 128]);
        canvas.circle([0.0, 0.0], thickness, [32, 34, 40]);
        let ball = self.world.bodies[self.ball].translation();
        let ball = [f64::from(ball.x), f64::from(ball.y)];
        canvas.circle(ball, f64::from(RADIUS), [204, 77, 77]);
        Ok(true)
    }
}

/// The environments of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(
        EnvSpec::new("BallOnBeam-v0", |_| Ok(BallOnBeam::new()))
            .about("keep a ball in the middle of a beam by tilting it")
            .time_limit(200),
    );
    registry
}
