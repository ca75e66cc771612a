//! What people see of a game is what the policy sees of it, to the last state of an episode.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Lane;
use hotloop_env::{Board, End, EnvRng, Frame, Stream};
use hotloop_minatar::{Asterix, Breakout, Freeway, Game, MinAtar, Rules, Seaquest, SpaceInvaders};

/// Which cells of a picture of 240 × 240 pixels are not empty.
fn shown(frame: &Frame) -> Vec<bool> {
    let mut empty = Frame::new();
    Board::new(1, 1).draw(&mut empty, 1);
    assert_eq!((frame.width, frame.height), (240, 240));
    let pixel = |cell: usize| 3 * (240 * (cell / 10 * 24 + 12) + cell % 10 * 24 + 12);
    (0..100)
        .map(|cell| frame.rgb[pixel(cell)..][..3] != empty.rgb[..])
        .collect()
}

fn looks_as_it_is<G: Game>(episodes: u64) {
    let planes: Vec<usize> = G::LOOK.iter().map(|look| look.0).collect();
    assert!((0..G::CHANNELS).all(|plane| planes.contains(&plane)));
    let mut lane = Lane::new(MinAtar::<G>::new(Rules::default()).unwrap());
    let mut frame = Frame::new();
    for episode in 0..episodes {
        let mut rng = EnvRng::new(episode, 0, Stream::Env);
        lane.reset(&mut rng);
        let mut end = End::Continue;
        while end == End::Continue {
            let action = rng.below(G::ACTIONS.len() as u64) as usize;
            end = lane.step(action, &mut rng).1;
            lane.draw(&mut frame);
            let seen = lane.observe();
            let seen: Vec<bool> = seen
                .chunks(G::CHANNELS)
                .map(|cell| cell.contains(&1))
                .collect();
            assert_eq!(shown(&frame), seen);
        }
    }
}

#[test]
fn every_cell_that_holds_something_is_drawn() {
    looks_as_it_is::<Asterix>(5);
    looks_as_it_is::<Breakout>(5);
    looks_as_it_is::<Freeway>(1);
    looks_as_it_is::<Seaquest>(5);
    looks_as_it_is::<SpaceInvaders>(5);
}
