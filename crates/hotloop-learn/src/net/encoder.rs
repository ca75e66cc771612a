//! A body for any observation: a network for each image in it, and layers on everything joined.

use super::{Body, ImageNet, ImageShape, Mlp, ParamBuilder, Views};
use crate::error::LearnError;
use hotloop_env::{FeatureKind, FeatureLeaf, FeatureSpec};
use std::sync::Arc;
use tch::Tensor;

/// Encodes each leaf of the observation and joins the results in the order of the space's leaves: images through a
/// network of their own, everything else as its features are. A choice is one-hot already, so that the first layer on
/// top is its embedding.
///
/// An observation that is one image has nothing on top of its network, whose last layer is the hidden vector. Any other
/// has the layers of `top`, under `joined` in the names of parameters; those of an image's network are under its path,
/// or `image` where the space has no keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// The network of every image; `None` for the one that fits ([`ImageNet::fitting`]).
    pub image: Option<ImageNet>,
    /// The layers on the joined encodings.
    pub top: Mlp,
}

impl Encoder {
    /// The usual body for observations of these features: `top` alone, unless there is an image that a network fits.
    pub fn fitting(inputs: &FeatureSpec, top: Mlp) -> Arc<dyn Body> {
        let encoder = Self { image: None, top };
        if inputs
            .leaves()
            .iter()
            .any(|leaf| encoder.net(leaf).is_some())
        {
            Arc::new(encoder)
        } else {
            Arc::new(encoder.top)
        }
    }

    /// The network of a leaf, if it has one.
    fn net(&self, leaf: &FeatureLeaf) -> Option<(ImageNet, ImageShape)> {
        let FeatureKind::Image {
            channels,
            height,
            width,
        } = leaf.kind
        else {
            return None;
        };
        let shape = ImageShape {
            channels,
            height,
            width,
        };
        let net = self.image.or_else(|| ImageNet::fitting(shape))?;
        (!leaf.range.is_empty()).then_some((net, shape))
    }

    /// The leaves with features.
    fn leaves<'a>(&self, inputs: &'a FeatureSpec) -> impl Iterator<Item = &'a FeatureLeaf> {
        inputs.leaves().iter().filter(|leaf| !leaf.range.is_empty())
    }

    /// Whether the observation is one image and nothing else.
    fn is_one_image(&self, inputs: &FeatureSpec) -> bool {
        let mut leaves = self.leaves(inputs);
        leaves.next().is_some_and(|leaf| self.net(leaf).is_some()) && leaves.next().is_none()
    }
}

fn name(leaf: &FeatureLeaf) -> &str {
    if leaf.path.is_empty() {
        "image"
    } else {
        &leaf.path
    }
}

impl Body for Encoder {
    fn build(
        &self,
        inputs: &FeatureSpec,
        params: &mut ParamBuilder<'_>,
    ) -> Result<usize, LearnError> {
        let (mut width, mut images) = (0, 0);
        for leaf in self.leaves(inputs) {
            width += match self.net(leaf) {
                Some((net, shape)) => {
                    images += 1;
                    net.build(shape, &mut params.within(name(leaf)))?
                }
                None => leaf.range.len(),
            };
        }
        if images == 0 && self.image.is_some() {
            return Err(LearnError::Spec {
                what: "network body",
                reason: "no part of the observation says that it is an image (of an environment in Python: \
                         env.options.image; in Rust: Space::image, or the image layout of its box); mlp fits"
                    .into(),
            });
        }
        if self.is_one_image(inputs) {
            return Ok(width);
        }
        self.top.layers(width, &mut params.within("joined"))
    }

    fn forward(
        &self,
        inputs: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError> {
        let mut parts = vec![];
        for leaf in self.leaves(inputs) {
            let part = x.f_narrow(1, leaf.range.start as i64, leaf.range.len() as i64)?;
            parts.push(match self.net(leaf) {
                Some((net, shape)) => {
                    let [c, h, w] = [shape.channels, shape.height, shape.width].map(|n| n as i64);
                    net.forward(
                        &params.within(name(leaf)),
                        &part.f_reshape([x.size()[0], c, h, w])?,
                    )?
                }
                None => part,
            });
        }
        if self.is_one_image(inputs) {
            return Ok(parts.swap_remove(0));
        }
        let joined = Tensor::f_cat(&parts, 1)?;
        self.top.apply(&params.within("joined"), &joined)
    }

    fn activation(&self) -> Option<super::Activation> {
        Some(self.top.activation)
    }
}
