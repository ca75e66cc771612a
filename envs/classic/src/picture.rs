//! Pictures of the five environments, about as Gymnasium draws them.

use hotloop_env::{Canvas, Frame};

const SKY: [u8; 3] = [255, 255, 255];
const INK: [u8; 3] = [32, 34, 40];
const STEEL: [u8; 3] = [96, 108, 128];
const WOOD: [u8; 3] = [202, 152, 101];
const RUST: [u8; 3] = [204, 77, 77];
const JOINT: [u8; 3] = [129, 132, 203];
const LEAF: [u8; 3] = [92, 160, 92];
const FLAG: [u8; 3] = [214, 178, 30];

/// A point at this distance from `from`, in the direction of an angle that is 0 upwards and grows
/// clockwise.
fn beyond(from: [f64; 2], angle: f64, distance: f64) -> [f64; 2] {
    [
        from[0] + distance * angle.sin(),
        from[1] + distance * angle.cos(),
    ]
}

/// The corners of a rectangle of this size on `at`, the middle of its lower side, leaning by `angle`.
fn slab(at: [f64; 2], angle: f64, width: f64, height: f64) -> [[f64; 2]; 4] {
    let right = angle + std::f64::consts::FRAC_PI_2;
    let (a, b) = (
        beyond(at, right, -0.5 * width),
        beyond(at, right, 0.5 * width),
    );
    [a, b, beyond(b, angle, height), beyond(a, angle, height)]
}

/// A cart at `x` (m) with a pole that leans by `theta` (rad).
pub(crate) fn cartpole(frame: &mut Frame, x: f64, theta: f64) {
    let mut canvas = Canvas::new(frame, [600, 400], [0.0, 0.8], 125.0, SKY);
    canvas.line([-3.0, 0.0], [3.0, 0.0], 0.016, INK);
    canvas.polygon(&slab([x, -0.12], 0.0, 0.4, 0.24), INK);
    let axle = [x, 0.06];
    canvas.line(axle, beyond(axle, theta, 1.0), 0.08, WOOD);
    canvas.circle(axle, 0.04, JOINT);
    frame.fps = 50.0;
}

/// Two links; `theta1` is 0 where the first hangs down, `theta2` is relative to it. The line is the height
/// to be reached.
pub(crate) fn acrobot(frame: &mut Frame, theta1: f64, theta2: f64) {
    let mut canvas = Canvas::new(frame, [500, 500], [0.0, 0.0], 500.0 / 4.4, SKY);
    canvas.line([-2.2, 1.0], [2.2, 1.0], 0.01, INK);
    let hanging = std::f64::consts::PI;
    let elbow = beyond([0.0, 0.0], hanging - theta1, 1.0);
    let hand = beyond(elbow, hanging - theta1 - theta2, 1.0);
    for (from, to) in [([0.0, 0.0], elbow), (elbow, hand)] {
        canvas.line(from, to, 0.2, STEEL);
        canvas.circle(from, 0.1, FLAG);
    }
    frame.fps = 15.0;
}

/// A rod whose angle is 0 where it is upright and grows counter-clockwise.
pub(crate) fn pendulum(frame: &mut Frame, theta: f64) {
    let mut canvas = Canvas::new(frame, [500, 500], [0.0, 0.0], 500.0 / 4.4, SKY);
    canvas.line([0.0, 0.0], beyond([0.0, 0.0], -theta, 1.0), 0.2, RUST);
    canvas.circle([0.0, 0.0], 0.05, INK);
    frame.fps = 30.0;
}

/// A car at `position` in its valley, with a flag at `goal`.
pub(crate) fn mountain_car(frame: &mut Frame, position: f64, goal: f64) {
    let height = |x: f64| 0.45 * (3.0 * x).sin() + 0.55;
    let mut canvas = Canvas::new(frame, [600, 400], [-0.3, 0.6], 600.0 / 1.8, SKY);
    let ridge = (0..=90).map(|i| -1.2 + 0.02 * f64::from(i));
    let mut hills: Vec<[f64; 2]> = ridge.map(|x| [x, height(x)]).collect();
    hills.extend([[0.6, -0.1], [-1.2, -0.1]]);
    canvas.polygon(&hills, LEAF);

    let foot = [goal, height(goal)];
    let top = beyond(foot, 0.0, 0.15);
    canvas.line(foot, top, 0.006, INK);
    let tip = [goal + 0.07, height(goal) + 0.125];
    canvas.polygon(&[top, tip, beyond(foot, 0.0, 0.1)], FLAG);

    let slope = (1.35 * (3.0 * position).cos()).atan();
    let road = [position, height(position)];
    canvas.polygon(&slab(beyond(road, -slope, 0.03), -slope, 0.12, 0.06), INK);
    for side in [-0.03, 0.03] {
        let hub = beyond(road, std::f64::consts::FRAC_PI_2 - slope, side);
        canvas.circle(beyond(hub, -slope, 0.024), 0.024, STEEL);
    }
    frame.fps = 30.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean place, in pixels, of what has this colour; none if nothing has.
    fn middle(frame: &Frame, colour: [u8; 3]) -> Option<[f64; 2]> {
        let pixels = frame.rgb.chunks_exact(3).enumerate();
        let places: Vec<[f64; 2]> = pixels
            .filter(|(_, pixel)| *pixel == colour)
            .map(|(i, _)| [i as u32 % frame.width, i as u32 / frame.width].map(f64::from))
            .collect();
        let mean = |axis: usize| places.iter().map(|p| p[axis]).sum::<f64>() / places.len() as f64;
        (!places.is_empty()).then(|| [mean(0), mean(1)])
    }

    fn drawn(draw: impl FnOnce(&mut Frame), colour: [u8; 3]) -> [f64; 2] {
        let mut frame = Frame::new();
        draw(&mut frame);
        middle(&frame, colour).expect("it is in the picture")
    }

    #[test]
    fn a_pole_leans_to_the_side_of_its_angle_and_moves_with_its_cart() {
        let [x, y] = drawn(|f| cartpole(f, 0.0, 0.0), WOOD);
        assert!((x - 299.5).abs() < 1.0 && y < 280.0, "{x} {y}");
        let [leaning, _] = drawn(|f| cartpole(f, 0.0, 0.2), WOOD);
        assert!(leaning > x + 5.0);
        let [moved, _] = drawn(|f| cartpole(f, -1.0, 0.0), WOOD);
        assert!((moved - (x - 125.0)).abs() < 1.0, "{moved}");
    }

    #[test]
    fn links_hang_down_at_rest_and_turn_counter_clockwise() {
        let [x, y] = drawn(|f| acrobot(f, 0.0, 0.0), STEEL);
        assert!((x - 249.5).abs() < 1.0 && y > 340.0, "{x} {y}");
        let [right, _] = drawn(|f| acrobot(f, 0.5, 0.0), STEEL);
        assert!(right > x + 20.0);
        let [folded, _] = drawn(|f| acrobot(f, 0.0, -0.5), STEEL);
        assert!(folded < x - 5.0);
        // A rod: up at 0, to the left at a quarter turn.
        let [x, y] = drawn(|f| pendulum(f, 0.0), RUST);
        assert!((x - 249.5).abs() < 1.0 && y < 220.0, "{x} {y}");
        let [x, _] = drawn(|f| pendulum(f, std::f64::consts::FRAC_PI_2), RUST);
        assert!(x < 220.0);
    }

    #[test]
    fn a_car_stands_on_its_hill() {
        let valley = -std::f64::consts::FRAC_PI_6;
        let [x, low] = drawn(|f| mountain_car(f, valley, 0.5), STEEL);
        let expected = 300.0 + (valley + 0.3) * 600.0 / 1.8;
        assert!((x - expected).abs() < 2.0, "{x} {expected}");
        let [_, high] = drawn(|f| mountain_car(f, 0.4, 0.5), STEEL);
        assert!(high < low - 200.0);
        let [flag, _] = drawn(|f| mountain_car(f, valley, 0.5), FLAG);
        assert!(flag > 550.0);
    }
}
