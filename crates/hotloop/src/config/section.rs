//! Declares a section of the configuration once: its type, its defaults, and its text for people.

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The dotted path, as in `--set`.
    pub path: String,
    /// What it means: the doc comment of its field.
    pub about: String,
}

/// A section's fields with their doc comments.
pub(super) type Fields = &'static [(&'static str, &'static [&'static str])];

/// A struct that serde reads and writes, with a default for each field, whose doc comments can be
/// printed: so that the reference, the source and `hotloop config show` cannot disagree.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $name {
            pub(super) const FIELDS: $crate::config::section::Fields =
                &[ $( (stringify!($field), &[ $($doc),+ ]), )+ ];
        }
    };
}

/// A choice between names, written in kebab-case.
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        $name:ident { $( $(#[doc = $doc:literal])+ $(#[$attr:ident])? $variant:ident, )+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $( $(#[doc = $doc])+ $(#[$attr])? $variant, )+
        }
    };
}

pub(super) use {choice, section};
