//! What a checkpoint holds: named tensors and a JSON value, with checked access.

use crate::{error::LearnError, params::Params};
use safetensors::tensor::Dtype;
use std::path::PathBuf;

/// Elements of a tensor. Numbers that must survive to the bit belong here and not in the JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 64-bit counters.
    U64(Vec<u64>),
    /// Bytes.
    U8(Vec<u8>),
}

impl TensorData {
    fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::U8(v) => v.len(),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::U64(_) => "u64",
            Self::U8(_) => "u8",
        }
    }

    pub(super) fn little_endian(&self) -> (Dtype, Vec<u8>) {
        match self {
            Self::F32(v) => (Dtype::F32, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Self::F64(v) => (Dtype::F64, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Self::U64(v) => (Dtype::U64, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Self::U8(v) => (Dtype::U8, v.clone()),
        }
    }
}

/// A tensor with its name and shape.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Dotted name, for example `weights.actor.0.weight`.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: TensorData,
}

/// What [`Snapshot::restore_matching`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialLoad {
    /// Parameters that were loaded.
    pub loaded: Vec<String>,
    /// Parameters that kept their values: missing in the file, or of another shape.
    pub skipped: Vec<String>,
    /// Tensors in the file that no parameter asked for.
    pub unused: Vec<String>,
}

/// The contents of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    tensors: Vec<NamedTensor>,
    /// Everything that is not a tensor.
    pub state: serde_json::Value,
    origin: PathBuf,
}

impl Snapshot {
    /// All tensors.
    pub fn tensors(&self) -> &[NamedTensor] {
        &self.tensors
    }

    /// Remembers the file it was read from, for error texts.
    pub(super) fn set_origin(&mut self, path: PathBuf) {
        self.origin = path;
    }

    fn refuse(&self, reason: String) -> LearnError {
        LearnError::Checkpoint {
            path: self.origin.clone(),
            reason,
        }
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// If the name is taken or the shape does not fit the elements.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        data: TensorData,
    ) -> Result<(), LearnError> {
        let name = name.into();
        if self.tensors.iter().any(|t| t.name == name) {
            return Err(self.refuse(format!("tensor `{name}` is there twice")));
        }
        if shape.iter().product::<usize>() != data.len() {
            return Err(self.refuse(format!(
                "tensor `{name}`: shape {shape:?} does not hold {} elements",
                data.len()
            )));
        }
        self.tensors.push(NamedTensor {
            name,
            shape: shape.to_vec(),
            data,
        });
        Ok(())
    }

    /// Adds every parameter of an arena as `prefix.name`.
    ///
    /// # Errors
    /// If an element is not finite: such weights are never written.
    pub fn push_params(&mut self, prefix: &str, params: &Params) -> Result<(), LearnError> {
        let elements = params.to_vec()?;
        for entry in params.layout().entries() {
            let part = &elements[entry.offset..entry.offset + entry.len()];
            if let Some(i) = part.iter().position(|x| !x.is_finite()) {
                return Err(self.refuse(format!(
                    "tensor `{prefix}.{}` is not finite (element {i} is {}); it is not saved",
                    entry.name, part[i]
                )));
            }
            let shape: Vec<usize> = entry.shape.iter().map(|d| *d as usize).collect();
            let name = format!("{prefix}.{}", entry.name);
            self.push(name, &shape, TensorData::F32(part.to_vec()))?;
        }
        Ok(())
    }

    /// A tensor by name, of the shape given.
    ///
    /// # Errors
    /// If it is missing or has another shape.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<&TensorData, LearnError> {
        let found = self
            .tensors
            .iter()
            .find(|t| t.name == name)
            .ok_or_else(|| {
                self.refuse(format!(
                    "tensor `{name}`: expected shape {shape:?}, found no such tensor"
                ))
            })?;
        if found.shape != shape {
            return Err(self.refuse(format!(
                "tensor `{name}`: expected shape {shape:?}, found {:?}",
                found.shape
            )));
        }
        Ok(&found.data)
    }

    fn wrong_type(&self, name: &str, expected: &str, data: &TensorData) -> LearnError {
        let found = data.type_name();
        self.refuse(format!(
            "tensor `{name}`: expected type {expected}, found {found}"
        ))
    }

    /// The elements of an f32 tensor of the shape given.
    ///
    /// # Errors
    /// If it is missing or has another shape or type.
    pub fn f32s(&self, name: &str, shape: &[usize]) -> Result<&[f32], LearnError> {
        match self.tensor(name, shape)? {
            TensorData::F32(v) => Ok(v),
            other => Err(self.wrong_type(name, "f32", other)),
        }
    }

    /// The elements of an f64 tensor of the shape given.
    ///
    /// # Errors
    /// If it is missing or has another shape or type.
    pub fn f64s(&self, name: &str, shape: &[usize]) -> Result<&[f64], LearnError> {
        match self.tensor(name, shape)? {
            TensorData::F64(v) => Ok(v),
            other => Err(self.wrong_type(name, "f64", other)),
        }
    }

    /// The elements of a u64 tensor of the shape given.
    ///
    /// # Errors
    /// If it is missing or has another shape or type.
    pub fn u64s(&self, name: &str, shape: &[usize]) -> Result<&[u64], LearnError> {
        match self.tensor(name, shape)? {
            TensorData::U64(v) => Ok(v),
            other => Err(self.wrong_type(name, "u64", other)),
        }
    }

    /// The bytes of a u8 tensor of the shape given.
    ///
    /// # Errors
    /// If it is missing or has another shape or type.
    pub fn u8s(&self, name: &str, shape: &[usize]) -> Result<&[u8], LearnError> {
        match self.tensor(name, shape)? {
            TensorData::U8(v) => Ok(v),
            other => Err(self.wrong_type(name, "u8", other)),
        }
    }

    /// Fills an arena from the tensors `prefix.…`: every parameter, and no tensor left over.
    ///
    /// # Errors
    /// For the first tensor that is missing, has another shape or type, or is not asked for; the
    /// arena is then unchanged.
    pub fn restore_params(&self, prefix: &str, params: &mut Params) -> Result<(), LearnError> {
        if params.layout().entries().is_empty() {
            return Err(self.refuse(format!(
                "cannot load `{prefix}`: the network has no parameters yet; build it first"
            )));
        }
        let mut elements = Vec::with_capacity(params.layout().total());
        for entry in params.layout().entries() {
            let shape: Vec<usize> = entry.shape.iter().map(|d| *d as usize).collect();
            elements.extend_from_slice(self.f32s(&format!("{prefix}.{}", entry.name), &shape)?);
        }
        if let Some(extra) = self.unused(prefix, params).first() {
            let found = self
                .tensors
                .iter()
                .find(|t| t.name == *extra)
                .map(|t| &t.shape);
            return Err(self.refuse(format!(
                "tensor `{extra}`: expected no such tensor, found shape {:?}; the file is of \
                 another network",
                found.cloned().unwrap_or_default()
            )));
        }
        let filled = Params::from_slice(params.layout().clone(), &elements, params.device())?;
        params.copy_from(&filled)
    }

    /// Fills what fits and says what did not. Only for those who ask for it by name.
    ///
    /// # Errors
    /// If the device fails.
    pub fn restore_matching(
        &self,
        prefix: &str,
        params: &mut Params,
    ) -> Result<PartialLoad, LearnError> {
        let mut report = PartialLoad {
            unused: self.unused(prefix, params),
            ..Default::default()
        };
        let mut elements = params.to_vec()?;
        for entry in params.layout().entries() {
            let shape: Vec<usize> = entry.shape.iter().map(|d| *d as usize).collect();
            match self.f32s(&format!("{prefix}.{}", entry.name), &shape) {
                Ok(found) => {
                    elements[entry.offset..entry.offset + found.len()].copy_from_slice(found);
                    report.loaded.push(entry.name.clone());
                }
                Err(_) => report.skipped.push(entry.name.clone()),
            }
        }
        let filled = Params::from_slice(params.layout().clone(), &elements, params.device())?;
        params.copy_from(&filled)?;
        Ok(report)
    }

    /// Tensors under `prefix` that no parameter asks for.
    fn unused(&self, prefix: &str, params: &Params) -> Vec<String> {
        let of_prefix = |name: &str| {
            name.strip_prefix(prefix)
                .and_then(|r| r.strip_prefix('.').map(String::from))
        };
        self.tensors
            .iter()
            .filter(|t| of_prefix(&t.name).is_some_and(|n| params.layout().index_of(&n).is_none()))
            .map(|t| t.name.clone())
            .collect()
    }
}
