//! Gymnasium's spaces as a worker describes them.

use hotloop_env::{
    Bound, BoxSpace, DType, Discrete, ImageLayout, MultiBinary, MultiDiscrete, Space,
};
use serde::Deserialize;

/// A space, as JSON.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Described {
    Box {
        shape: Vec<usize>,
        dtype: Stored,
        image: Option<Image>,
        low: Side,
        high: Side,
    },
    Discrete {
        n: usize,
        start: i64,
        masked: bool,
    },
    MultiDiscrete {
        sizes: Vec<usize>,
        start: Vec<i64>,
        masked: bool,
    },
    MultiBinary {
        n: usize,
    },
    Dict {
        entries: Vec<(String, Described)>,
    },
    Tuple {
        items: Vec<Described>,
    },
}

impl Described {
    /// The same, its choices masked or not.
    pub(crate) fn with_mask(mut self, mask: bool) -> Self {
        if let Self::Discrete { masked, .. } | Self::MultiDiscrete { masked, .. } = &mut self {
            *masked = mask;
        }
        self
    }
}

/// One side of a box: no number stands for an infinite one.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Side {
    Uniform(Option<f64>),
    Each(Vec<Option<f64>>),
}

impl Side {
    fn bound(self, infinite: f64) -> Bound {
        match self {
            Side::Uniform(bound) => Bound::Uniform(bound.unwrap_or(infinite)),
            Side::Each(bounds) => {
                Bound::Each(bounds.into_iter().map(|b| b.unwrap_or(infinite)).collect())
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stored {
    Uint8,
    Int8,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Image {
    Chw,
    Hwc,
}

impl From<Described> for Space {
    fn from(described: Described) -> Self {
        match described {
            Described::Box {
                shape,
                dtype,
                image,
                low,
                high,
            } => Space::Box(BoxSpace {
                shape,
                low: low.bound(f64::NEG_INFINITY),
                high: high.bound(f64::INFINITY),
                dtype: match dtype {
                    Stored::Uint8 => DType::U8,
                    Stored::Int8 => DType::I8,
                    Stored::Int16 => DType::I16,
                    Stored::Int32 => DType::I32,
                    Stored::Int64 => DType::I64,
                    Stored::Float32 => DType::F32,
                    Stored::Float64 => DType::F64,
                },
                image: image.map(|image| match image {
                    Image::Chw => ImageLayout::Chw,
                    Image::Hwc => ImageLayout::Hwc,
                }),
            }),
            Described::Discrete { n, start, masked } => {
                Space::Discrete(Discrete { n, start, masked })
            }
            Described::MultiDiscrete {
                sizes,
                start,
                masked,
            } => Space::MultiDiscrete(MultiDiscrete {
                sizes,
                start,
                masked,
            }),
            Described::MultiBinary { n } => Space::MultiBinary(MultiBinary { n }),
            Described::Dict { entries } => Space::Dict(
                entries
                    .into_iter()
                    .map(|(key, space)| (key, space.into()))
                    .collect(),
            ),
            Described::Tuple { items } => Space::Tuple(items.into_iter().map(Into::into).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Space {
        serde_json::from_str::<Described>(text).unwrap().into()
    }

    #[test]
    fn spaces_are_read_with_infinite_bounds_and_images() {
        let space = read(
            r#"{"kind":"dict","entries":[
                ["a",{"kind":"box","shape":[2],"dtype":"float64","image":null,"low":null,"high":[1.5,null]}],
                ["b",{"kind":"tuple","items":[{"kind":"discrete","n":3,"start":-1,"masked":true}]}],
                ["c",{"kind":"box","shape":[4,4,3],"dtype":"uint8","image":"hwc","low":0.0,"high":255.0}],
                ["d",{"kind":"box","shape":[0],"dtype":"float32","image":null,"low":[],"high":[]}]]}"#,
        );
        space.validate().unwrap();
        let Space::Dict(entries) = &space else {
            panic!("{space}")
        };
        let Space::Box(a) = &entries[0].1 else {
            panic!("{space}")
        };
        assert_eq!((a.low.at(1), a.high.at(0)), (f64::NEG_INFINITY, 1.5));
        assert_eq!(a.high.at(1), f64::INFINITY);
        assert_eq!(entries[2].1, Space::image([4, 4, 3], ImageLayout::Hwc));
    }
}
