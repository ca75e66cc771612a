//! Checkpoints under damage, mismatch, a full disk and a kill at every step.

use super::*;
use crate::{
    dist::HeadSpec,
    net::{Activation, ActorCritic, MlpSpec},
    params::Params,
};
use std::{cell::Cell, io};
use tch::{Device, Kind, Tensor};

fn net(hidden: usize, actions: usize) -> ActorCritic {
    ActorCritic::new(MlpSpec {
        inputs: 4,
        hidden: vec![hidden],
        activation: Activation::Tanh,
        shared: true,
        head: HeadSpec::categorical(actions),
        fast: true,
    })
    .unwrap()
}

fn snapshot(seed: u64) -> Snapshot {
    let mut s = Snapshot::default();
    s.push_params("weights", &net(8, 2).init(seed, Device::Cpu).unwrap())
        .unwrap();
    s.state = serde_json::json!({ "update": seed });
    s
}

fn loaded_update(dir: &Path) -> u64 {
    let s = load(dir, "last").unwrap();
    let mut params = Params::zeros(net(8, 2).layout().clone(), Device::Cpu);
    s.restore_params("weights", &mut params).unwrap();
    s.state["update"].as_u64().unwrap()
}

#[test]
fn br_57_everything_comes_back_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let net = net(8, 2);
    let params = net.init(5, Device::Cpu).unwrap();
    let mut s = snapshot(5);
    s.push("obs.mean", &[2], TensorData::F64(vec![0.1 + 0.2, -1e-300]))
        .unwrap();
    s.push("obs.count", &[], TensorData::U64(vec![u64::MAX]))
        .unwrap();
    s.push("env.state", &[3], TensorData::U8(vec![0, 255, 7]))
        .unwrap();
    s.push("nothing", &[0, 3], TensorData::F32(vec![])).unwrap();
    let manifest = save(dir.path(), "last", &s).unwrap();
    assert_eq!(manifest, dir.path().join("last.json"));
    let back = load(dir.path(), "last").unwrap();
    assert_eq!(back.f64s("obs.mean", &[2]).unwrap(), [0.1 + 0.2, -1e-300]);
    assert_eq!(back.u64s("obs.count", &[]).unwrap(), [u64::MAX]);
    assert_eq!(back.u8s("env.state", &[3]).unwrap(), [0, 255, 7]);
    assert!(back.f32s("nothing", &[0, 3]).unwrap().is_empty());
    assert_eq!(
        (back.tensors().len(), &back.state),
        (s.tensors().len(), &s.state)
    );
    let mut copy = Params::zeros(net.layout().clone(), Device::Cpu);
    back.restore_params("weights", &mut copy).unwrap();
    assert_eq!(copy.weights_hash().unwrap(), params.weights_hash().unwrap());
    let x = Tensor::arange(400, (Kind::Float, Device::Cpu))
        .sin()
        .view([100, 4]);
    let (a, b) = (
        net.forward(&params, &x).unwrap(),
        net.forward(&copy, &x).unwrap(),
    );
    assert_eq!((a.head, a.value), (b.head, b.value));
}

#[test]
fn br_57_missing_statistics_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), "last", &snapshot(1)).unwrap();
    let e = load(dir.path(), "last").unwrap();
    let e = e.f64s("obs.mean", &[4]).unwrap_err().to_string();
    assert!(
        e.contains("`obs.mean`") && e.contains("[4]") && e.contains("no such tensor"),
        "{e}"
    );
    assert!(e.contains("last-"), "names the file: {e}");
}

/// Fails, or is "killed", at the n-th operation; a failing write leaves half its bytes behind.
struct Failing {
    left: Cell<usize>,
    killed: bool,
}

impl Failing {
    fn pass(&self) -> io::Result<()> {
        match self.left.get() {
            0 if self.killed => Err(io::Error::from_raw_os_error(libc::EIO)),
            // The disk is full once, then there is room again (for cleaning up).
            0 => {
                self.left.set(usize::MAX);
                Err(io::Error::from_raw_os_error(libc::ENOSPC))
            }
            n => {
                self.left.set(n - 1);
                Ok(())
            }
        }
    }
}

impl Files for Failing {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let dead = self.killed && self.left.get() == 0;
        match self.pass() {
            Ok(()) => Disk.write(path, bytes),
            Err(e) => {
                // A process that is dead already writes nothing; one killed now has written half.
                if !dead || !path.exists() {
                    Disk.write(path, &bytes[..bytes.len() / 2])?;
                }
                Err(e)
            }
        }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass()?;
        Disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass()?;
        Disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.pass()?;
        Disk.sync_dir(dir)
    }
}

#[test]
fn br_60_a_failure_at_any_step_leaves_a_checkpoint_that_loads() {
    for killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), "last", &snapshot(0)).unwrap();
        let (mut before, mut failures) = (0, 0);
        for step in 0.. {
            let files = Failing {
                left: Cell::new(step),
                killed,
            };
            let update = step as u64 + 1;
            let done = save_with(&files, dir.path(), "last", &snapshot(update));
            let found = loaded_update(dir.path());
            if let Err(e) = &done {
                failures += 1;
                let text = e.to_string();
                let reason =
                    io::Error::from_raw_os_error(if killed { libc::EIO } else { libc::ENOSPC });
                assert!(
                    text.contains(dir.path().to_str().unwrap())
                        && text.contains(&reason.to_string()),
                    "{text}"
                );
                assert!(found == before || found == update, "{found} at step {step}");
            } else {
                assert_eq!(found, update);
                // The old tensors file could not be removed at worst; a later save removes it.
                if files.left.get() > 0 && files.left.get() < usize::MAX / 2 {
                    break;
                }
            }
            before = found;
        }
        assert!(
            failures >= 5,
            "write, rename and flush of two files: {failures}"
        );
        save(dir.path(), "last", &snapshot(99)).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names.len(),
            2,
            "leftovers are cleared by the next save: {names:?}"
        );
    }
}

#[test]
fn checkpoints_of_other_names_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), "best", &snapshot(1)).unwrap();
    std::fs::write(dir.path().join("last-notes.safetensors"), "mine").unwrap();
    for update in [2, 3] {
        save(dir.path(), "last", &snapshot(update)).unwrap();
    }
    assert_eq!(loaded_update(dir.path()), 3);
    assert_eq!(load(dir.path(), "best").unwrap().state["update"], 1);
    assert!(dir.path().join("last-notes.safetensors").exists());
    let missing = load(dir.path(), "first").unwrap_err().to_string();
    assert!(missing.contains("first.json"), "{missing}");
}

#[test]
fn br_60_damage_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), "last", &snapshot(1)).unwrap();
    let tensors = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "safetensors"))
        .unwrap();
    let good = std::fs::read(&tensors).unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for bad in [&good[..good.len() / 2], &[], &flipped] {
        std::fs::write(&tensors, bad).unwrap();
        let e = load(dir.path(), "last").unwrap_err().to_string();
        assert!(e.contains("damaged") && e.contains("sha256"), "{e}");
    }
    std::fs::write(dir.path().join("last.json"), "{\"format\": ").unwrap();
    assert!(
        load(dir.path(), "last")
            .unwrap_err()
            .to_string()
            .contains("not JSON")
    );
    std::fs::write(dir.path().join("last.json"), "{}").unwrap();
    assert!(
        load(dir.path(), "last")
            .unwrap_err()
            .to_string()
            .contains("not a checkpoint")
    );
}

#[test]
fn br_62_another_network_is_an_error_naming_the_tensor_and_both_shapes() {
    let s = snapshot(1);
    let into = |hidden, actions| {
        let mut p = Params::zeros(net(hidden, actions).layout().clone(), Device::Cpu);
        let e = s.restore_params("weights", &mut p).unwrap_err().to_string();
        assert!(
            p.to_vec().unwrap().iter().all(|x| *x == 0.0),
            "nothing was loaded"
        );
        e
    };
    let e = into(4, 2);
    assert!(
        e.contains("`weights.trunk.0.weight`: expected shape [4, 4], found [8, 4]"),
        "{e}"
    );
    let e = into(8, 3);
    assert!(
        e.contains("`weights.policy.weight`: expected shape [3, 8], found [2, 8]"),
        "{e}"
    );

    let mut fewer = Snapshot::default();
    for t in s
        .tensors()
        .iter()
        .filter(|t| t.name != "weights.value.bias")
    {
        fewer
            .push(t.name.clone(), &t.shape, t.data.clone())
            .unwrap();
    }
    let mut p = Params::zeros(net(8, 2).layout().clone(), Device::Cpu);
    let e = fewer
        .restore_params("weights", &mut p)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("`weights.value.bias`: expected shape [1], found no such tensor"),
        "{e}"
    );

    let mut more = s.clone();
    more.push(
        "weights.trunk.1.weight",
        &[8, 8],
        TensorData::F32(vec![0.0; 64]),
    )
    .unwrap();
    let e = more
        .restore_params("weights", &mut p)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("`weights.trunk.1.weight`: expected no such tensor, found shape [8, 8]"),
        "{e}"
    );

    let mut unbuilt = Params::zeros(Default::default(), Device::Cpu);
    let e = s
        .restore_params("weights", &mut unbuilt)
        .unwrap_err()
        .to_string();
    assert!(e.contains("no parameters yet"), "{e}");

    let mut other_type = Snapshot::default();
    other_type
        .push("weights.x", &[1], TensorData::F64(vec![1.0]))
        .unwrap();
    let e = other_type.f32s("weights.x", &[1]).unwrap_err().to_string();
    assert!(e.contains("expected type f32, found f64"), "{e}");
}

#[test]
fn br_62_partial_loading_says_what_it_did() {
    let mut p = Params::zeros(net(8, 3).layout().clone(), Device::Cpu);
    let mut s = snapshot(1);
    s.push("weights.old", &[1], TensorData::F32(vec![0.0]))
        .unwrap();
    let report = s.restore_matching("weights", &mut p).unwrap();
    assert_eq!(report.skipped, ["policy.weight", "policy.bias"]);
    assert_eq!(
        report.loaded,
        [
            "trunk.0.weight",
            "trunk.0.bias",
            "value.weight",
            "value.bias"
        ]
    );
    assert_eq!(report.unused, ["weights.old"]);
    assert!(
        p.get("trunk.0.weight")
            .unwrap()
            .abs()
            .max()
            .double_value(&[])
            > 0.0
    );
}

#[test]
fn br_62_a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = save(dir.path(), "last", &snapshot(1)).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace("\"format_version\": 1", "\"format_version\": 2"),
    )
    .unwrap();
    let e = load(dir.path(), "last").unwrap_err().to_string();
    assert!(
        e.contains("format version: expected at most 1, found 2"),
        "{e}"
    );
    std::fs::write(&path, text.replace("last-", "../last-")).unwrap();
    let e = load(dir.path(), "last").unwrap_err().to_string();
    assert!(e.contains("expected a name in the same directory"), "{e}");
}

#[test]
fn br_29_weights_that_are_not_finite_are_never_saved() {
    let mut elements = vec![0.0; net(8, 2).layout().total()];
    elements[3] = f32::NAN;
    let bad = Params::from_slice(net(8, 2).layout().clone(), &elements, Device::Cpu).unwrap();
    let e = Snapshot::default()
        .push_params("weights", &bad)
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("`weights.trunk.0.weight` is not finite (element 3 is NaN)"),
        "{e}"
    );
}

#[test]
fn br_60_a_number_of_the_manifest_that_was_edited_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut snapshot = snapshot(41);
    snapshot.state = serde_json::json!({ "update": 41, "wall_s": 0.1 + 0.2, "best": null });
    let path = save(dir.path(), "last", &snapshot).unwrap();
    assert_eq!(load(dir.path(), "last").unwrap().state, snapshot.state);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("41", "18446744073709551615")).unwrap();
    let error = load(dir.path(), "last").unwrap_err().to_string();
    assert!(
        error.contains("was changed after it was saved") && error.contains("last.json"),
        "{error}"
    );
    // Where it is written how does not matter.
    std::fs::write(&path, text.replace("\n", " ")).unwrap();
    assert_eq!(loaded_update(dir.path()), 41);
}
