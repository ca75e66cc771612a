//! Slices over the memory of host tensors: the one place that turns a tensor into a pointer.
//!
//! tch hands out no slices, because two tensors may share one storage. The functions here check
//! everything that can be checked (device, type, density); that nobody else writes the same
//! elements meanwhile is the caller's promise.

use tch::{Device, Kind, Tensor};

/// Whether the kernels may work on `t` in place: host memory, f32, dense.
pub(crate) fn is_dense_host_f32(t: &Tensor) -> bool {
    t.device() == Device::Cpu && t.kind() == Kind::Float && t.is_contiguous()
}

fn check(t: &Tensor, kind: Kind) {
    assert!(
        t.device() == Device::Cpu && t.kind() == kind && t.is_contiguous(),
        "a dense {kind:?} tensor in host memory is needed, found {:?} on {:?} ({})",
        t.kind(),
        t.device(),
        if t.is_contiguous() {
            "dense"
        } else {
            "strided"
        },
    );
}

/// The elements of a dense host tensor of `kind`, whose Rust type is `T`.
///
/// # Safety
/// Nothing may write the tensor's storage while the slice lives.
unsafe fn typed<T>(t: &Tensor, kind: Kind) -> &[T] {
    check(t, kind);
    if t.numel() == 0 {
        return &[];
    }
    // SAFETY: dense host memory of `numel` elements of this type, kept alive by `t`; the caller
    // promises that nothing writes it.
    unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<T>(), t.numel()) }
}

/// The elements of a dense f32 host tensor.
///
/// # Safety
/// Nothing may write the tensor's storage while the slice lives.
pub(crate) unsafe fn f32s(t: &Tensor) -> &[f32] {
    // SAFETY: the caller's promise is handed on; `Kind::Float` is f32.
    unsafe { typed(t, Kind::Float) }
}

/// The elements of a dense i32 host tensor.
///
/// # Safety
/// Nothing may write the tensor's storage while the slice lives.
pub(crate) unsafe fn i32s(t: &Tensor) -> &[i32] {
    // SAFETY: the caller's promise is handed on; `Kind::Int` is i32.
    unsafe { typed(t, Kind::Int) }
}

/// The elements of a dense u8 host tensor.
///
/// # Safety
/// Nothing may write the tensor's storage while the slice lives.
pub(crate) unsafe fn u8s(t: &Tensor) -> &[u8] {
    // SAFETY: the caller's promise is handed on; `Kind::Uint8` is u8.
    unsafe { typed(t, Kind::Uint8) }
}

/// The elements of a dense f32 host tensor, to be written.
///
/// # Safety
/// Nothing else may read or write the tensor's storage while the slice lives.
#[expect(
    clippy::mut_from_ref,
    reason = "a tensor is a handle; uniqueness is the caller's promise"
)]
pub(crate) unsafe fn f32s_mut(t: &Tensor) -> &mut [f32] {
    check(t, Kind::Float);
    if t.numel() == 0 {
        return &mut [];
    }
    // SAFETY: dense host memory of `numel` f32s, kept alive by `t`; the caller promises that
    // this slice is the only access.
    unsafe { std::slice::from_raw_parts_mut(t.data_ptr().cast::<f32>(), t.numel()) }
}

/// The bytes of a dense host tensor of any type, to be written.
///
/// # Safety
/// As [`f32s_mut`]; and what is written must be valid elements of the tensor's type.
#[expect(
    clippy::mut_from_ref,
    reason = "a tensor is a handle; uniqueness is the caller's promise"
)]
pub(crate) unsafe fn bytes_mut(t: &Tensor) -> &mut [u8] {
    check(t, t.kind());
    if t.numel() == 0 {
        return &mut [];
    }
    let bytes = t.numel() * t.kind().elt_size_in_bytes();
    // SAFETY: dense host memory of that many bytes, kept alive by `t`; the caller promises that this
    // slice is the only access.
    unsafe { std::slice::from_raw_parts_mut(t.data_ptr().cast::<u8>(), bytes) }
}

/// A tensor over memory that belongs to somebody else, which it neither copies nor frees.
///
/// # Safety
/// The tensor and all its views must be gone before `elements` is, and must not be written.
pub(crate) unsafe fn borrow_f32s(elements: &[f32], shape: &[i64]) -> Tensor {
    assert_eq!(
        elements.len() as i64,
        shape.iter().product::<i64>(),
        "elements of shape {shape:?}"
    );
    // Dense strides, in elements.
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    // SAFETY: the slice is readable for the whole shape; that it lives long enough is the caller's
    // promise.
    unsafe {
        Tensor::from_blob(
            elements.as_ptr().cast(),
            shape,
            &strides,
            Kind::Float,
            Device::Cpu,
        )
    }
}
