//! What a policy depends on of an environment's spaces. Shapes of weights do not tell all of it.

use hotloop_env::{Bound, BoxSpace, Layout, LeafKind, Spaces};
use serde::{Deserialize, Serialize};

/// The parts of both spaces, in the order in which a policy sees and makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interface {
    observation: Vec<String>,
    action: Vec<String>,
}

impl Interface {
    pub(crate) fn of(spaces: &Spaces) -> Self {
        let parts = |layout: &Layout, bounds: bool| {
            let leaves = layout.leaves().iter();
            leaves
                .map(|leaf| match &*leaf.path {
                    "" => part(&leaf.kind, bounds),
                    path => format!("{path}: {}", part(&leaf.kind, bounds)),
                })
                .collect()
        };
        Self {
            // What is observed is as it is, whatever its bounds; but an image is divided by them.
            observation: parts(&spaces.observation, false),
            action: parts(&spaces.action, true),
        }
    }

    /// What is another in `now`, if anything is.
    pub(crate) fn changed(&self, now: &Self) -> Option<String> {
        [
            ("observation", &self.observation, &now.observation),
            ("action", &self.action, &now.action),
        ]
        .into_iter()
        .find(|(_, then, now)| then != now)
        .map(|(what, then, now)| {
            format!(
                "it was trained with the {what} space [{}], which is [{}] now; make the environment as it was, or start a \
                 new run",
                then.join(", "),
                now.join(", ")
            )
        })
    }
}

fn part(kind: &LeafKind, bounds: bool) -> String {
    match kind {
        LeafKind::Box(space) => array(space, bounds),
        LeafKind::Discrete(choice) => format!("Discrete({} from {})", choice.n, choice.start),
        LeafKind::MultiDiscrete(choices) => {
            format!(
                "MultiDiscrete({:?} from {:?})",
                choices.sizes, choices.start
            )
        }
        LeafKind::MultiBinary(bits) => format!("MultiBinary({})", bits.n),
    }
}

fn array(space: &BoxSpace, bounds: bool) -> String {
    let side = |bound: &Bound| match bound {
        Bound::Uniform(x) => format!("{x}"),
        Bound::Each(xs) => format!("{xs:?}"),
    };
    let mut text = format!("Box(shape {:?} of {}", space.shape, space.dtype.name());
    if bounds || space.image.is_some() {
        text += &format!(" from {} to {}", side(&space.low), side(&space.high));
    }
    if let Some(layout) = space.image {
        text += &format!(", an image {layout:?}");
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::{ImageLayout, Space};

    fn changed(then: (Space, Space), now: (Space, Space)) -> Option<String> {
        let of = |(observation, action)| Interface::of(&Spaces::new(observation, action).unwrap());
        of(then).changed(&of(now))
    }

    #[test]
    fn br_62_what_shapes_of_weights_do_not_tell_is_told() {
        let dict = |keys: [&'static str; 2]| {
            let part = |key| (key, Space::unbounded(&[1]));
            Space::dict(keys.map(part))
        };
        let action = || Space::boxed(-1.0, 1.0, &[2]);
        let said = changed((dict(["a", "b"]), action()), (dict(["b", "a"]), action()));
        assert!(said.unwrap().contains("[a: Box(shape [1] of float32), b: "));
        let wider = Space::boxed(vec![-1.0, -10.0], vec![1.0, 10.0], &[2]);
        let said = changed((dict(["a", "b"]), action()), (dict(["a", "b"]), wider));
        let said = said.unwrap();
        for part in [
            "action space",
            "from -1 to 1",
            "from [-1.0, -10.0] to [1.0, 10.0]",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let from = |start| {
            Space::Discrete(hotloop_env::Discrete {
                n: 2,
                start,
                masked: false,
            })
        };
        assert!(changed((from(0), from(0)), (from(0), from(1))).is_some());
        let image = |layout| Space::image([3, 3, 3], layout);
        let turned = (image(ImageLayout::Hwc), action());
        assert!(changed((image(ImageLayout::Chw), action()), turned).is_some());
    }

    #[test]
    fn bounds_of_what_is_observed_are_free() {
        let seen = |bound: f64| (Space::boxed(-bound, bound, &[3]), Space::discrete(2));
        assert_eq!(changed(seen(1.0), seen(2.0)), None);
    }
}
