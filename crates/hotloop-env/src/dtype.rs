//! Element types of observations and the checked casts between them.

use bytemuck::Pod;

/// The type of one element of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// Unsigned 8-bit integer (images).
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
}

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::U8 | DType::I8 => 1,
            DType::I16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The name used in messages and files, as NumPy writes it.
    pub fn name(self) -> &'static str {
        match self {
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F32 => "float32",
            DType::F64 => "float64",
        }
    }

    /// The least and the greatest finite value.
    pub(crate) fn range(self) -> (f64, f64) {
        match self {
            DType::U8 => (0.0, u8::MAX as f64),
            DType::I8 => (i8::MIN as f64, i8::MAX as f64),
            DType::I16 => (i16::MIN as f64, i16::MAX as f64),
            DType::I32 => (i32::MIN as f64, i32::MAX as f64),
            DType::I64 => (i64::MIN as f64, i64::MAX as f64),
            DType::F32 => (f32::MIN as f64, f32::MAX as f64),
            DType::F64 => (f64::MIN, f64::MAX),
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be an element of a space.
pub trait Element: Pod + PartialEq + std::fmt::Debug + sealed::Sealed {
    /// Its [`DType`].
    const DTYPE: DType;
    /// As `f64`; exact for all but 64-bit integers beyond 2^53.
    fn to_f64(self) -> f64;
    /// As `f32`, rounded to nearest.
    fn to_f32(self) -> f32;
    /// From `f64`, if this type can hold the value: integers take whole numbers in their range
    /// only (never a wrapped one), floats take anything, rounded to nearest.
    fn from_f64(value: f64) -> Option<Self>;
}

macro_rules! integer {
    ($($type:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 { self as f64 }
            fn to_f32(self) -> f32 { self as f32 }
            fn from_f64(value: f64) -> Option<Self> {
                let cast = value as $type;
                (cast as f64 == value).then_some(cast)
            }
        }
    )*};
}
integer!(u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64);

macro_rules! float {
    ($($type:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 { self as f64 }
            fn to_f32(self) -> f32 { self as f32 }
            fn from_f64(value: f64) -> Option<Self> { Some(value as $type) }
        }
    )*};
}
float!(f32 => F32, f64 => F64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_41_integers_never_wrap() {
        assert_eq!(u8::from_f64(300.0), None);
        assert_eq!(u8::from_f64(-1.0), None);
        assert_eq!(u8::from_f64(0.5), None);
        assert_eq!(u8::from_f64(255.0), Some(255));
        assert_eq!(i64::from_f64(f64::NAN), None);
    }
}
