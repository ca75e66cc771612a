//! Bodies on images and on joined observations: shapes, names, sizes that do not fit, and gradients.

use super::*;
use crate::objective::Loss;
use hotloop_env::{ImageLayout, Layout, Space};

fn features(space: &Space) -> FeatureSpec {
    FeatureSpec::new(&Layout::new(space).unwrap())
}

fn top(hidden: &[usize]) -> Mlp {
    Mlp {
        hidden: hidden.to_vec(),
        activation: Activation::Tanh,
    }
}

fn network(space: &Space, body: Arc<dyn Body>) -> Result<ActorCritic, LearnError> {
    ActorCritic::new(NetworkSpec {
        inputs: features(space),
        body,
        recurrent: None,
        shared: true,
        head: HeadSpec::categorical(3),
        fast: true,
    })
}

fn on_images(net: ImageNet) -> Arc<dyn Body> {
    Arc::new(Encoder {
        image: Some(net),
        top: top(&[8]),
    })
}

fn image(height: usize, width: usize, channels: usize) -> Space {
    Space::image([height, width, channels], ImageLayout::Hwc)
}

fn shapes(net: &ActorCritic) -> Vec<(&str, &[i64])> {
    let entries = net.layout().entries().iter();
    entries
        .map(|e| (e.name.as_str(), e.shape.as_slice()))
        .collect()
}

/// Rows that differ, and weights of a seed.
fn rows(net: &ActorCritic, n: i64) -> (Params, Tensor) {
    let inputs = net.spec().inputs.len() as i64;
    let x = (Tensor::arange(n * inputs, (Kind::Float, Device::Cpu)) * 0.37).sin();
    (net.init(1, Device::Cpu).unwrap(), x.view([n, inputs]))
}

#[test]
fn br_41_the_networks_of_the_papers_have_their_shapes() {
    let nature = network(&image(84, 84, 4), on_images(ImageNet::Nature)).unwrap();
    assert_eq!(
        shapes(&nature)[..8],
        [
            ("trunk.image.conv0.weight", &[32, 4, 8, 8][..]),
            ("trunk.image.conv0.bias", &[32]),
            ("trunk.image.conv1.weight", &[64, 32, 4, 4]),
            ("trunk.image.conv1.bias", &[64]),
            ("trunk.image.conv2.weight", &[64, 64, 3, 3]),
            ("trunk.image.conv2.bias", &[64]),
            ("trunk.image.dense.weight", &[512, 3136]),
            ("trunk.image.dense.bias", &[512]),
        ]
    );
    let shallow = network(&image(84, 84, 4), on_images(ImageNet::Shallow)).unwrap();
    assert_eq!(
        shapes(&shallow)[..6],
        [
            ("trunk.image.conv0.weight", &[16, 4, 8, 8][..]),
            ("trunk.image.conv0.bias", &[16]),
            ("trunk.image.conv1.weight", &[32, 16, 4, 4]),
            ("trunk.image.conv1.bias", &[32]),
            ("trunk.image.dense.weight", &[256, 2592]),
            ("trunk.image.dense.bias", &[256]),
        ]
    );
    let small = network(&image(10, 10, 6), on_images(ImageNet::Small)).unwrap();
    assert_eq!(
        shapes(&small)[..4],
        [
            ("trunk.image.conv0.weight", &[16, 6, 3, 3][..]),
            ("trunk.image.conv0.bias", &[16]),
            ("trunk.image.dense.weight", &[128, 1024]),
            ("trunk.image.dense.bias", &[128]),
        ]
    );
    let residual = network(&image(20, 15, 3), on_images(ImageNet::ImpalaResnet)).unwrap();
    let names = shapes(&residual);
    // Three stages of five convolutions and a layer, each with weight and bias, and two heads.
    assert_eq!(names.len(), 3 * 5 * 2 + 2 + 4);
    let dense = names.iter().find(|e| e.0 == "trunk.image.dense.weight");
    assert_eq!(dense.unwrap().1, [256, 32 * 3 * 2]);
    for net in [shallow, small, residual] {
        let (params, x) = rows(&net, 3);
        let out = net.forward(&params, &x).unwrap();
        assert_eq!((out.head.size(), out.value.size()), (vec![3, 3], vec![3]));
        let alone = net.forward(&params, &x.narrow(0, 1, 1)).unwrap();
        let differ = (out.head.narrow(0, 1, 1) - alone.head).abs().max();
        assert!(differ.double_value(&[]) < 1e-6, "rows depend on each other");
    }
}

#[test]
fn br_41_channels_and_pixels_reach_their_kernels() {
    // One kernel that looks at the pixel in the middle of the third channel.
    let net = network(&image(3, 3, 4), on_images(ImageNet::Small)).unwrap();
    let mut params = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
    // SAFETY: a tensor of this test's own.
    let all = unsafe { params.host_mut() };
    let at = |name: &str| {
        let index = net.layout().index_of(name).unwrap();
        net.layout().entries()[index].offset
    };
    all[at("trunk.image.conv0.weight") + 2 * 9 + 4] = 1.0;
    all[at("trunk.image.dense.weight")] = 1.0;
    all[at("value.weight")] = 1.0;
    let mut x = vec![0.0f32; 36];
    x[2 * 9 + 4] = 0.625;
    let x = Tensor::from_slice(&x).view([1, 36]);
    assert_eq!(
        net.forward(&params, &x).unwrap().value.double_value(&[0]),
        0.625
    );
}

#[test]
fn images_that_do_not_fit_are_refused_with_what_fits() {
    for (net, space, expected) in [
        (
            ImageNet::Nature,
            image(35, 84, 4),
            "nature-cnn does not fit an image of 35 × 84 (4 channels); small-cnn or impala-resnet does",
        ),
        (
            ImageNet::Small,
            image(2, 2, 3),
            "small-cnn does not fit an image of 2 × 2 (3 channels); impala-resnet, or mlp does",
        ),
        (
            ImageNet::Small,
            Space::unbounded(&[7]),
            "no part of the observation says that it is an image",
        ),
    ] {
        let error = network(&space, on_images(net)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(network(&image(36, 36, 1), on_images(ImageNet::Nature)).is_ok());
    assert!(network(&image(20, 20, 1), on_images(ImageNet::Shallow)).is_ok());
    assert!(network(&image(1, 1, 1), on_images(ImageNet::ImpalaResnet)).is_ok());
}

fn mixed() -> Space {
    Space::dict([
        ("camera", image(10, 10, 2)),
        ("empty", Space::unbounded(&[0])),
        ("speed", Space::unbounded(&[3])),
        (
            "more",
            Space::Tuple(vec![Space::discrete(5), image(5, 4, 1)]),
        ),
    ])
}

#[test]
fn br_43_leaves_are_encoded_each_in_its_way_and_joined_in_order() {
    let body = Encoder::fitting(&features(&mixed()), top(&[16]));
    let net = network(&mixed(), body).unwrap();
    assert_eq!(
        shapes(&net)[..10],
        [
            ("trunk.camera.conv0.weight", &[16, 2, 3, 3][..]),
            ("trunk.camera.conv0.bias", &[16]),
            ("trunk.camera.dense.weight", &[128, 1024]),
            ("trunk.camera.dense.bias", &[128]),
            ("trunk.more/1.conv0.weight", &[16, 1, 3, 3]),
            ("trunk.more/1.conv0.bias", &[16]),
            ("trunk.more/1.dense.weight", &[128, 96]),
            ("trunk.more/1.dense.bias", &[128]),
            ("trunk.joined.0.weight", &[16, 128 + 3 + 5 + 128]),
            ("trunk.joined.0.bias", &[16]),
        ]
    );
    // Every leaf has its say, and its weights their gradient.
    let (params, x) = rows(&net, 4);
    let before = net.forward(&params, &x).unwrap().value;
    for leaf in net.spec().inputs.leaves() {
        let changed = x.copy();
        let mut part = changed.narrow(1, leaf.range.start as i64, leaf.range.len() as i64);
        let _ = part.g_add_scalar_(1.0);
        let moved = (net.forward(&params, &changed).unwrap().value - &before).abs();
        let least = moved.min().double_value(&[]);
        assert_eq!(
            least > 1e-7,
            !leaf.range.is_empty(),
            "{}: {least}",
            leaf.path
        );
    }
    let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
    let loss = |o: &Outputs| {
        let total = o.head.square().sum(Kind::Float) + o.value.square().sum(Kind::Float);
        Ok(Loss::new(total, &[]))
    };
    net.gradient(&params, &x, None, &loss, &mut grads).unwrap();
    for entry in net.layout().entries() {
        let largest = grads.get(&entry.name).unwrap().abs().max();
        assert!(largest.double_value(&[]) > 0.0, "{}", entry.name);
    }
}

#[test]
fn what_has_no_image_to_read_is_a_perceptron() {
    for space in [
        Space::unbounded(&[4]),
        image(2, 2, 3),
        Space::dict([("a", Space::discrete(3)), ("b", Space::unbounded(&[2]))]),
    ] {
        let body = Encoder::fitting(&features(&space), top(&[8]));
        assert!(body.perceptron().is_some(), "{space}");
    }
    let body = Encoder::fitting(&features(&image(10, 10, 4)), top(&[8]));
    assert!(body.perceptron().is_none());
}

/// Declares what it is told to, and returns rows of another width than it promised.
#[derive(Debug)]
struct Faulty(&'static [&'static str]);

impl Body for Faulty {
    fn build(&self, _: &FeatureSpec, params: &mut ParamBuilder<'_>) -> Result<usize, LearnError> {
        for name in self.0 {
            params.push(name, &[2], Init::Constant(0.5));
        }
        Ok(4)
    }

    fn forward(
        &self,
        _: &FeatureSpec,
        params: &Views<'_>,
        x: &Tensor,
    ) -> Result<Tensor, LearnError> {
        Ok(x * params.get("a")?.sum(Kind::Float))
    }
}

#[test]
fn faults_of_a_body_of_ones_own_are_named() {
    let space = Space::unbounded(&[3]);
    let error = network(&space, Arc::new(Faulty(&["a", "b", "a"]))).unwrap_err();
    let error = error.to_string();
    assert!(error.contains(r#""trunk.a" is declared twice"#), "{error}");
    for (names, expected) in [
        (
            &["a"][..],
            "body returned: expected [2, 4] Float, found [2, 3] Float",
        ),
        (
            &["b"],
            r#"uses parameter "trunk.a", which it did not declare"#,
        ),
    ] {
        let net = network(&space, Arc::new(Faulty(names))).unwrap();
        let (params, x) = rows(&net, 2);
        let error = net.forward(&params, &x).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
