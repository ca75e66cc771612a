//! Forward and gradient throughput of actor-critic networks on one core: perceptrons, fast and plain, and those on
//! images.
//!
//! `cargo bench -p hotloop-learn --bench kernels`. Elements are rows (samples); 4 → 64 → 64 → 2
//! costs 4,480 multiply-adds per row and tower forwards (with its head), about three times that with
//! the backward pass. Times are the thread's CPU time where the system has a clock for it, so that
//! other work on the machine disturbs them less.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use hotloop_env::{FeatureSpec, ImageLayout, Layout, Space};
use hotloop_learn::{
    algo::{BoundLoss, LossContext, Minibatch, Ppo, Progress},
    device,
    dist::{Choice, HeadSpec},
    kernels,
    net::{Activation, ActorCritic, Encoder, ImageNet, Mlp, MlpSpec, NetworkSpec, Outputs},
    objective::Loss,
    optim::{Adam, AdamSpec},
    params::Params,
};
use std::{hint::black_box, sync::Arc, time::Duration};
use tch::{Device, Kind, Tensor};

const ROWS: [i64; 2] = [1024, 8192];

/// CPU time of this thread so far.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Time of the clock on the wall.
#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Duration {
    use std::{sync::LazyLock, time::Instant};
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Runs `f` as often as criterion asks.
fn timed<R>(b: &mut Bencher<'_>, mut f: impl FnMut() -> R) {
    b.iter_custom(|n| {
        let start = cpu_time();
        for _ in 0..n {
            black_box(f());
        }
        cpu_time() - start
    });
}

fn net(shared: bool, fast: bool) -> ActorCritic {
    let head = HeadSpec::categorical(2);
    let (hidden, activation) = (vec![64, 64], Activation::Tanh);
    ActorCritic::new(MlpSpec {
        inputs: 4,
        hidden,
        activation,
        shared,
        head,
        fast,
    })
    .expect("the shape is valid")
}

fn minibatch(n: i64) -> Minibatch {
    let wave = |k: i64, f: f64| (Tensor::arange(n * k, (Kind::Float, Device::Cpu)) * f).sin();
    Minibatch {
        observations: wave(4, 0.7).view([n, 4]),
        actions: Tensor::arange(n, (Kind::Int, Device::Cpu))
            .remainder(2)
            .view([n, 1]),
        old_log_probs: wave(1, 0.1) * 0.1 - 0.7,
        old_values: wave(1, 0.2),
        advantages: wave(1, 0.3),
        targets: wave(1, 0.5),
        valid: Tensor::ones([n], (Kind::Uint8, Device::Cpu)),
        masks: None,
        valid_count: n as f64,
        sequences: None,
    }
}

fn networks(c: &mut Criterion) {
    device::tune_allocator();
    device::set_threads_once();
    let ppo = Ppo::default();
    for (shared, fast) in [(true, true), (false, true), (true, false), (false, false)] {
        let net = net(shared, fast);
        let params = net.init(1, Device::Cpu).expect("the host has memory");
        let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
        let what = format!(
            "{} {}",
            if shared { "shared" } else { "separate" },
            if fast { "fast" } else { "plain" }
        );
        let mut group = c.benchmark_group(what);
        for n in ROWS {
            let batch = minibatch(n);
            let head = &net.spec().head;
            let cx = LossContext {
                head,
                batch: &batch,
                progress: Progress::default(),
            };
            let loss = BoundLoss {
                algorithm: &ppo,
                cx,
            };
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(format!("forward {n}"), |b| {
                timed(b, || {
                    net.forward(&params, black_box(&batch.observations))
                        .expect("fits")
                });
            });
            group.bench_function(format!("gradient {n}"), |b| {
                timed(b, || {
                    net.gradient(
                        &params,
                        black_box(&batch.observations),
                        None,
                        &loss,
                        &mut grads,
                    )
                    .expect("fits")
                });
            });
        }
        group.finish();
    }
}

/// The networks on images, policy and value on one of them.
fn images(c: &mut Criterion) {
    device::tune_allocator();
    device::set_threads_once();
    let top = Mlp {
        hidden: vec![],
        activation: Activation::Relu,
    };
    for (what, image, [height, width, channels], n) in [
        ("small-cnn", ImageNet::Small, [10, 10, 6], 1024),
        ("nature-cnn", ImageNet::Nature, [84, 84, 4], 64),
        ("shallow-cnn", ImageNet::Shallow, [84, 84, 4], 64),
        ("impala-resnet", ImageNet::ImpalaResnet, [84, 84, 4], 16),
    ] {
        let space = Space::image([height, width, channels], ImageLayout::Hwc);
        let net = ActorCritic::new(NetworkSpec {
            inputs: FeatureSpec::new(&Layout::new(&space).expect("an image is a space")),
            body: Arc::new(Encoder {
                image: Some(image),
                top: top.clone(),
            }),
            recurrent: None,
            shared: true,
            head: HeadSpec::categorical(6),
            fast: true,
        });
        let net = net.expect("the images fit");
        let params = net.init(1, Device::Cpu).expect("the host has memory");
        let mut grads = Params::zeros(Arc::clone(net.layout()), Device::Cpu);
        let features = net.spec().inputs.len() as i64;
        let x = Tensor::rand([n, features], (Kind::Float, Device::Cpu));
        let loss = |o: &Outputs| {
            let total = o.head.square().sum(Kind::Float) + o.value.square().sum(Kind::Float);
            Ok(Loss::new(total, &[]))
        };
        let mut group = c.benchmark_group(what);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(format!("forward {n}"), |b| {
            timed(b, || net.forward(&params, black_box(&x)).expect("fits"));
        });
        group.bench_function(format!("gradient {n}"), |b| {
            timed(b, || {
                net.gradient(&params, black_box(&x), None, &loss, &mut grads)
                    .expect("fits")
            });
        });
        group.finish();
    }
}

fn small(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernels");
    let mut x: Vec<f32> = (0..65_536).map(|i| (i as f32 * 0.37).sin()).collect();
    group.throughput(Throughput::Elements(x.len() as u64));
    group.bench_function("tanh", |b| timed(b, || kernels::tanh(black_box(&mut x))));

    let net = net(false, true);
    let mut params = net.init(1, Device::Cpu).expect("the host has memory");
    let grads = net.init(2, Device::Cpu).expect("the host has memory");
    let mut adam = Adam::new(AdamSpec::default(), net.layout(), Device::Cpu);
    group.throughput(Throughput::Elements(net.layout().total() as u64));
    group.bench_function("adam", |b| {
        timed(b, || {
            adam.step(&mut params, black_box(&grads), 1e-4)
                .expect("finite")
        });
    });

    let head = HeadSpec::categorical(2);
    let (mut action, mut u) = ([0i32], 0.1f32);
    group.throughput(Throughput::Elements(1));
    group.bench_function("sample two logits", |b| {
        timed(b, || {
            u = (u + 0.618_034).fract();
            let action = &mut action;
            head.choose(
                Choice::Sample,
                black_box(&[0.3, -0.2]),
                &[],
                None,
                || u,
                action,
            )
        });
    });
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = networks, images, small }
criterion_main!(benches);
