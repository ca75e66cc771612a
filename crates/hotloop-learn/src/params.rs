//! Parameters as one flat f32 arena with named views.
//!
//! One arena makes publishing a single copy, the optimiser one pass, the gradient norm one sum
//! and summing gradients of shards one addition. Gradients and optimiser moments are arenas of the
//! same layout.

use crate::{error::LearnError, memory};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// One named parameter of a [`ParamLayout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamEntry {
    /// Dotted name, for example `actor.0.weight`.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<i64>,
    /// Index of the first element in the arena.
    pub offset: usize,
}

impl ParamEntry {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// Whether the parameter has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Names, shapes and places of the parameters in an arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamLayout {
    entries: Vec<ParamEntry>,
    total: usize,
}

impl ParamLayout {
    /// Appends a parameter and returns its index. Names must differ.
    pub fn push(&mut self, name: impl Into<String>, shape: &[i64]) -> usize {
        let entry = ParamEntry {
            name: name.into(),
            shape: shape.to_vec(),
            offset: self.total,
        };
        self.total += entry.len();
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// The parameters in arena order.
    pub fn entries(&self) -> &[ParamEntry] {
        &self.entries
    }

    /// Number of elements of the whole arena.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Index of a parameter by name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.name == name)
    }
}

/// An arena: weights, gradients or moments of one network set, on one device.
///
/// [`Params::duplicate`] copies the memory.
#[derive(Debug)]
pub struct Params {
    layout: Arc<ParamLayout>,
    flat: Tensor,
    views: Vec<Tensor>,
}

impl Params {
    /// An arena of zeros.
    pub fn zeros(layout: Arc<ParamLayout>, device: Device) -> Self {
        let flat = Tensor::zeros([layout.total() as i64], (Kind::Float, device));
        Self::over(layout, flat)
    }

    fn over(layout: Arc<ParamLayout>, flat: Tensor) -> Self {
        let views = layout
            .entries()
            .iter()
            .map(|e| {
                flat.narrow(0, e.offset as i64, e.len() as i64)
                    .view(e.shape.as_slice())
            })
            .collect();
        Self {
            layout,
            flat,
            views,
        }
    }

    /// An arena from elements in arena order.
    ///
    /// # Errors
    /// If the number of elements is not the layout's.
    pub fn from_slice(
        layout: Arc<ParamLayout>,
        elements: &[f32],
        device: Device,
    ) -> Result<Self, LearnError> {
        if elements.len() != layout.total() {
            return Err(LearnError::Shape {
                what: "parameter arena".into(),
                expected: format!("{} elements", layout.total()),
                found: format!("{} elements", elements.len()),
            });
        }
        let flat = Tensor::from_slice(elements).to_device(device);
        Ok(Self::over(layout, flat))
    }

    /// Names, shapes and places.
    pub fn layout(&self) -> &Arc<ParamLayout> {
        &self.layout
    }

    /// The whole arena, `[total]`.
    pub fn flat(&self) -> &Tensor {
        &self.flat
    }

    /// What numbers its elements are: f32, but for weights that were [rounded](Self::rounded) to act with.
    pub(crate) fn kind(&self) -> Kind {
        self.flat.kind()
    }

    /// Where the arena lives.
    pub fn device(&self) -> Device {
        self.flat.device()
    }

    /// Parameter `index` in its own shape, a view of the arena.
    pub fn view(&self, index: usize) -> &Tensor {
        &self.views[index]
    }

    /// A parameter by name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.layout.index_of(name).map(|i| &self.views[i])
    }

    /// Another handle on the same memory, for another thread. Nobody may write the arena while that
    /// thread reads: this is what the kernels' access to it relies on.
    pub(crate) fn share(&self) -> Self {
        Self {
            layout: Arc::clone(&self.layout),
            flat: self.flat.shallow_clone(),
            views: self.views.iter().map(Tensor::shallow_clone).collect(),
        }
    }

    /// A copy in memory of its own.
    pub fn duplicate(&self) -> Self {
        Self::over(Arc::clone(&self.layout), self.flat.copy())
    }

    /// A copy of another kind.
    pub(crate) fn rounded(&self, kind: Kind) -> Self {
        Self::over(Arc::clone(&self.layout), self.flat.to_kind(kind))
    }

    /// Overwrites this arena with `from`, which may live on another device.
    ///
    /// # Errors
    /// If the layouts differ.
    pub fn copy_from(&mut self, from: &Params) -> Result<(), LearnError> {
        if self.layout != from.layout {
            return Err(LearnError::Shape {
                what: "parameter arena to copy".into(),
                expected: format!("{} parameters", self.layout.entries().len()),
                found: format!(
                    "{} parameters of another layout",
                    from.layout.entries().len()
                ),
            });
        }
        tch::no_grad(|| self.flat.f_copy_(&from.flat))?;
        Ok(())
    }

    /// The elements in arena order, copied to the host.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_vec(&self) -> Result<Vec<f32>, LearnError> {
        let host = self.flat.f_to_device(Device::Cpu)?;
        let mut elements = vec![0.0f32; self.layout.total()];
        host.f_copy_data(&mut elements, self.layout.total())?;
        Ok(elements)
    }

    /// Whether every element is finite.
    ///
    /// # Errors
    /// If the device fails.
    pub fn is_finite(&self) -> Result<bool, LearnError> {
        Ok(self.to_vec()?.iter().all(|x| x.is_finite()))
    }

    /// SHA-256, in hex, over every name, shape and the little-endian bytes of every element.
    ///
    /// Two arenas with the same hash hold the same network, bit for bit.
    ///
    /// # Errors
    /// If the device fails.
    pub fn weights_hash(&self) -> Result<String, LearnError> {
        let elements = self.to_vec()?;
        let mut hash = Sha256::new();
        for entry in self.layout.entries() {
            hash.update((entry.name.len() as u64).to_le_bytes());
            hash.update(entry.name.as_bytes());
            hash.update((entry.shape.len() as u64).to_le_bytes());
            for d in &entry.shape {
                hash.update(d.to_le_bytes());
            }
            for x in &elements[entry.offset..entry.offset + entry.len()] {
                hash.update(x.to_le_bytes());
            }
        }
        Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
    }

    /// The arena's memory, if it is the host's.
    ///
    /// # Safety
    /// Nothing else may read or write this arena while the slice lives.
    pub(crate) unsafe fn host_mut(&mut self) -> &mut [f32] {
        // SAFETY: the caller's promise is handed on.
        unsafe { memory::f32s_mut(&self.flat) }
    }

    /// The arena's memory, if it is the host's.
    ///
    /// # Safety
    /// Nothing may write this arena while the slice lives.
    pub(crate) unsafe fn host(&self) -> &[f32] {
        // SAFETY: the caller's promise is handed on.
        unsafe { memory::f32s(&self.flat) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Arc<ParamLayout> {
        let mut layout = ParamLayout::default();
        layout.push("a.weight", &[2, 3]);
        layout.push("a.bias", &[2]);
        Arc::new(layout)
    }

    #[test]
    fn views_share_the_arena_and_copies_do_not() {
        let mut p =
            Params::from_slice(layout(), &[1., 2., 3., 4., 5., 6., 7., 8.], Device::Cpu).unwrap();
        assert_eq!(p.view(0).size(), [2, 3]);
        assert_eq!(p.get("a.bias").unwrap().double_value(&[1]), 8.0);
        let (shared, copy) = (p.share(), p.duplicate());
        let _ = p.flat.fill_(0.5);
        assert_eq!(p.view(0).double_value(&[1, 2]), 0.5);
        assert_eq!(shared.view(0).double_value(&[1, 2]), 0.5);
        assert_eq!(copy.view(0).double_value(&[1, 2]), 6.0);
        p.copy_from(&copy).unwrap();
        assert_eq!(shared.to_vec().unwrap(), [1., 2., 3., 4., 5., 6., 7., 8.]);
    }

    #[test]
    fn the_hash_depends_on_names_shapes_and_every_bit() {
        let elements = [1., 2., 3., 4., 5., 6., 7., 8.];
        let hash = |layout, e: &[f32]| {
            Params::from_slice(layout, e, Device::Cpu)
                .unwrap()
                .weights_hash()
                .unwrap()
        };
        let first = hash(layout(), &elements);
        assert_eq!(first.len(), 64);
        assert_eq!(first, hash(layout(), &elements));
        let mut other = elements;
        other[7] = f32::from_bits(other[7].to_bits() + 1);
        assert_ne!(first, hash(layout(), &other));
        for (name, shape) in [("a.weights", [2i64, 3]), ("a.weight", [3, 2])] {
            let mut l = ParamLayout::default();
            l.push(name, &shape);
            l.push("a.bias", &[2]);
            assert_ne!(first, hash(Arc::new(l), &elements));
        }
    }

    #[test]
    fn wrong_sizes_and_layouts_are_errors() {
        let wrong = Params::from_slice(layout(), &[0.0; 7], Device::Cpu).unwrap_err();
        assert!(
            wrong.to_string().contains("expected 8 elements, found 7"),
            "{wrong}"
        );
        let mut other = ParamLayout::default();
        other.push("b", &[8]);
        let mut p = Params::zeros(layout(), Device::Cpu);
        assert!(
            p.copy_from(&Params::zeros(Arc::new(other), Device::Cpu))
                .is_err()
        );
        let bad = [0., 0., 0., 0., 0., 0., 0., f32::INFINITY];
        assert!(p.is_finite().unwrap());
        assert!(
            !Params::from_slice(layout(), &bad, Device::Cpu)
                .unwrap()
                .is_finite()
                .unwrap()
        );
    }
}
