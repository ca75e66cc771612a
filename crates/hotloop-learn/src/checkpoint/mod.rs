//! Checkpoints: named tensors as safetensors, everything else as JSON, written so that a crash at
//! any moment leaves the previous checkpoint or the new one, never half of either.
//!
//! A checkpoint `last` is `last.json`, the manifest, and the tensors file that it names. The tensors
//! file carries a part of its own hash in its name, so that a new one never replaces an old one;
//! both are written beside their final place, flushed to the disk and renamed, the manifest last.
//! Only then is the tensors file of the previous checkpoint removed.
//!
//! The manifest's `state` is there to be read; the tensors file has it, too, under the hash, and a
//! checkpoint whose two differ is refused: what goes on from one is what was saved.

mod files;
mod snapshot;
#[cfg(test)]
mod tests;

pub use snapshot::{NamedTensor, PartialLoad, Snapshot, TensorData};

use crate::error::LearnError;
use files::{Disk, Files};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Marks a manifest as ours.
const FORMAT: &str = "hotloop-checkpoint";
/// Where the tensors file keeps the state, as JSON.
const STATE: &str = "state";
/// Grows when an older reader would misunderstand a newer file.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: String,
    format_version: u32,
    tensors: TensorsFile,
    state: serde_json::Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct TensorsFile {
    file: String,
    sha256: String,
    count: usize,
}

/// Writes `snapshot` as checkpoint `name` into `dir`, which must exist. Replaces an earlier one of
/// that name once the new one is safely on the disk. Returns the manifest's path.
///
/// # Errors
/// If the disk fails (full, read-only, gone), with the path and its reason; the previous checkpoint
/// is then intact.
pub fn save(dir: &Path, name: &str, snapshot: &Snapshot) -> Result<PathBuf, LearnError> {
    save_with(&Disk, dir, name, snapshot)
}

fn save_with(
    files: &dyn Files,
    dir: &Path,
    name: &str,
    snapshot: &Snapshot,
) -> Result<PathBuf, LearnError> {
    let manifest_path = dir.join(format!("{name}.json"));
    let refuse = |reason: String| LearnError::Checkpoint {
        path: manifest_path.clone(),
        reason,
    };
    let bytes = encode(snapshot).map_err(&refuse)?;
    let sha256 = hex(&Sha256::digest(&bytes));
    let file = format!("{name}-{}.safetensors", &sha256[..16]);
    write_atomically(files, &dir.join(&file), &bytes)?;
    let manifest = Manifest {
        format: FORMAT.into(),
        format_version: VERSION,
        tensors: TensorsFile {
            file: file.clone(),
            sha256,
            count: snapshot.tensors().len(),
        },
        state: snapshot.state.clone(),
    };
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(|e| refuse(e.to_string()))?;
    text.push(b'\n');
    write_atomically(files, &manifest_path, &text)?;
    remove_others(files, dir, name, &file);
    Ok(manifest_path)
}

/// Beside its place, flushed, renamed, and the directory flushed.
fn write_atomically(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<(), LearnError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| LearnError::Io {
            action,
            path,
            source,
        }
    };
    let done = files
        .write(&temporary, bytes)
        .map_err(failed("write", &temporary))
        .and_then(|()| {
            files
                .rename(&temporary, path)
                .map_err(failed("rename to", path))
        });
    if done.is_err() {
        // The first error is the one to tell; a temporary that stays is overwritten next time.
        let _ = files.remove(&temporary);
        return done;
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    files.sync_dir(dir).map_err(failed("flush directory", dir))
}

/// Removes tensors files of earlier checkpoints of this name. Failing to is harmless.
fn remove_others(files: &dyn Files, dir: &Path, name: &str, keep: &str) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some(text) = file.to_str() else { continue };
        let ours = text
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('-'))
            .map(|rest| rest.strip_suffix(".tmp").unwrap_or(rest))
            .and_then(|rest| rest.strip_suffix(".safetensors"))
            .is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
        if ours && text != keep {
            let _ = files.remove(&entry.path());
        }
    }
}

/// Reads checkpoint `name` from `dir`.
///
/// # Errors
/// If it is missing, from a newer version, or damaged: the text names the file and what is wrong.
pub fn load(dir: &Path, name: &str) -> Result<Snapshot, LearnError> {
    let path = dir.join(format!("{name}.json"));
    let read = |path: &Path| {
        let failed = |source| LearnError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        std::fs::read(path).map_err(failed)
    };
    let refuse = |reason: String| LearnError::Checkpoint {
        path: path.clone(),
        reason,
    };
    let value: serde_json::Value = serde_json::from_slice(&read(&path)?)
        .map_err(|e| refuse(format!("the manifest is not JSON: {e}")))?;
    if value["format"] != FORMAT {
        return Err(refuse(format!(
            "not a checkpoint: expected \"format\": \"{FORMAT}\""
        )));
    }
    // Before the rest is read: a newer file may have another shape altogether.
    match value["format_version"].as_u64() {
        Some(v) if v <= u64::from(VERSION) => {}
        v => {
            let found = v.map_or("none".into(), |v| v.to_string());
            return Err(refuse(format!(
                "format version: expected at most {VERSION}, found {found}; it was written by a \
                 newer hotloop, use that one"
            )));
        }
    }
    let manifest: Manifest =
        serde_json::from_value(value).map_err(|e| refuse(format!("manifest: {e}")))?;
    if Path::new(&manifest.tensors.file).file_name() != Some(manifest.tensors.file.as_ref()) {
        return Err(refuse(format!(
            "tensors file: expected a name in the same directory, found `{}`",
            manifest.tensors.file
        )));
    }
    let tensors_path = dir.join(&manifest.tensors.file);
    let bytes = read(&tensors_path)?;
    let damaged = |reason: String| LearnError::Checkpoint {
        path: tensors_path.clone(),
        reason,
    };
    let found = hex(&Sha256::digest(&bytes));
    if found != manifest.tensors.sha256 {
        return Err(damaged(format!(
            "damaged: sha256 expected {}, found {found}",
            manifest.tensors.sha256
        )));
    }
    let mut snapshot = decode(&bytes).map_err(&damaged)?;
    if snapshot.tensors().len() != manifest.tensors.count {
        return Err(damaged(format!(
            "expected {} tensors, found {}",
            manifest.tensors.count,
            snapshot.tensors().len()
        )));
    }
    // Files of the first releases do not have it.
    if let Some(saved) = saved_state(&bytes).map_err(&damaged)?
        && saved != manifest.state
    {
        return Err(refuse(format!(
            "\"state\" was changed after it was saved: expected {saved}, found {}",
            manifest.state
        )));
    }
    snapshot.state = manifest.state;
    snapshot.set_origin(tensors_path);
    Ok(snapshot)
}

fn encode(snapshot: &Snapshot) -> Result<Vec<u8>, String> {
    let views = snapshot
        .tensors()
        .iter()
        .map(|t| {
            let (dtype, bytes) = t.data.little_endian();
            Ok((t.name.clone(), dtype, t.shape.clone(), bytes))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let views = views
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            let view = TensorView::new(*dtype, shape.clone(), bytes)
                .map_err(|e| format!("tensor `{name}`: {e}"))?;
            Ok((name.as_str(), view))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let state = [(STATE.to_owned(), snapshot.state.to_string())];
    safetensors::serialize(views, Some(state.into())).map_err(|e| e.to_string())
}

/// The state that the tensors file keeps.
fn saved_state(bytes: &[u8]) -> Result<Option<serde_json::Value>, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| e.to_string())?;
    let Some(text) = header.metadata().as_ref().and_then(|m| m.get(STATE)) else {
        return Ok(None);
    };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|e| format!("its state is not JSON: {e}"))
}

fn decode(bytes: &[u8]) -> Result<Snapshot, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| format!("not safetensors: {e}"))?;
    let mut snapshot = Snapshot::default();
    for (name, view) in file.iter() {
        let data = match view.dtype() {
            Dtype::F32 => TensorData::F32(elements(view.data(), f32::from_le_bytes)),
            Dtype::F64 => TensorData::F64(elements(view.data(), f64::from_le_bytes)),
            Dtype::U64 => TensorData::U64(elements(view.data(), u64::from_le_bytes)),
            Dtype::U8 => TensorData::U8(view.data().to_vec()),
            other => {
                return Err(format!(
                    "tensor `{name}` has type {other:?}, which is not used"
                ));
            }
        };
        snapshot
            .push(name, view.shape(), data)
            .map_err(|e| e.to_string())?;
    }
    Ok(snapshot)
}

fn elements<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|b| read(*b)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
