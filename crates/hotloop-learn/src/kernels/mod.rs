//! Elementwise kernels on host memory, chosen at run time for the machine's vector unit.
//!
//! libtorch's `tanh` takes most of a narrow network's time; these replace it, and fuse the passes
//! around the matrix products (bias, activation, bias gradient) so that each activation is touched
//! as few times as possible. Every kernel is one generic body compiled once per instruction set;
//! matrices are row-major and dense. Nothing here may allocate or read the clock.

mod body;
mod exponential;
mod gates;
mod products;
#[cfg(test)]
mod tests;

pub use products::{pack, pack_transposed, packed_len};

use std::sync::OnceLock;

/// Constants of one Adam step, see [`crate::optim::Adam`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Learning rate over the first moment's bias correction.
    pub step_size: f32,
    /// One over the square root of the second moment's bias correction.
    pub inv_sqrt_bias2: f32,
    /// Added to the denominator.
    pub eps: f32,
    /// Every gradient is multiplied by this first (global-norm clipping).
    pub grad_scale: f32,
}

/// What the bodies need to know about an instruction set.
trait Isa {
    /// Whether it has a fused multiply-add.
    const FMA: bool;
    /// Rows of a matrix tile of 16 columns that fit its registers.
    const TILE_ROWS: usize;
}

macro_rules! kernels {
    ($( $(#[$doc:meta])* fn $module:ident::$name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?; )*) => {
        struct Table {
            isa: &'static str,
            $( $name: unsafe fn($($ty),*) $(-> $ret)?, )*
        }

        #[cfg(target_arch = "x86_64")]
        mod avx512 {
            use super::{AdamStep, body, exponential, gates, products};
            struct Here;
            // 32 registers of 16 lanes.
            impl super::Isa for Here { const FMA: bool = true; const TILE_ROWS: usize = 12; }
            $( #[target_feature(enable = "avx512f,avx2,fma")]
               pub(super) fn $name($($arg: $ty),*) $(-> $ret)? { $module::$name::<Here>($($arg),*) } )*
            pub(super) static TABLE: super::Table = super::Table { isa: "avx512", $( $name, )* };
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            use super::{AdamStep, body, exponential, gates, products};
            struct Here;
            // 16 registers of 8 lanes.
            impl super::Isa for Here { const FMA: bool = true; const TILE_ROWS: usize = 6; }
            $( #[target_feature(enable = "avx2,fma")]
               pub(super) fn $name($($arg: $ty),*) $(-> $ret)? { $module::$name::<Here>($($arg),*) } )*
            pub(super) static TABLE: super::Table = super::Table { isa: "avx2", $( $name, )* };
        }

        mod portable {
            use super::{AdamStep, Isa, body, exponential, gates, products};
            const NEON: bool = cfg!(target_arch = "aarch64");
            struct Here;
            impl Isa for Here {
                // Every aarch64 machine has NEON with fused multiply-add and 32 registers of 4
                // lanes; elsewhere an unfused product is far cheaper than a library call.
                const FMA: bool = NEON;
                const TILE_ROWS: usize = if NEON { 6 } else { 2 };
            }
            $( pub(super) fn $name($($arg: $ty),*) $(-> $ret)? { $module::$name::<Here>($($arg),*) } )*
            pub(super) static TABLE: super::Table = super::Table {
                isa: if NEON { "neon" } else { "portable" },
                $( $name, )*
            };
        }

        $( $(#[$doc])* pub fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: `table` only returns a table whose instruction set this machine has.
            unsafe { (table().$name)($($arg),*) }
        } )*
    };
}

kernels! {
    /// In-place hyperbolic tangent, absolute error below 5e-7; NaN stays NaN, ±∞ gives ±1.
    fn body::tanh(x: &mut [f32]);
    /// `x = tanh(x + bias)` for rows of `bias.len()`.
    fn body::bias_tanh(x: &mut [f32], bias: &[f32]);
    /// `x = max(x + bias, 0)` for rows of `bias.len()`; NaN stays NaN.
    fn body::bias_relu(x: &mut [f32], bias: &[f32]);
    /// `x = x + bias` for rows of `bias.len()`.
    fn body::bias_add(x: &mut [f32], bias: &[f32]);
    /// `out = a · B` for rows of `k`, where [`pack`] or [`pack_transposed`] made `panels` of the
    /// `k × n` matrix B. A row's result does not depend on the rows around it.
    fn products::matmul(a: &[f32], k: usize, panels: &[f32], n: usize, out: &mut [f32]);
    /// `out = a · Wᵀ` for rows of `k` and an `n × k` weight as it lies, with the same bits as [`matmul`]:
    /// for so few rows that packing would take longer than the product.
    fn products::few(a: &[f32], k: usize, w: &[f32], n: usize, out: &mut [f32]);
    /// `out += dᵀ · h` for rows of `m` (d) and `n` (h); `out` is `m × n`.
    fn products::add_outer(d: &[f32], m: usize, h: &[f32], n: usize, out: &mut [f32]);
    /// `d *= 1 - y²` (y = tanh of the layer) and `bias_grad += Σ_rows d`.
    fn body::tanh_backward(d: &mut [f32], y: &[f32], bias_grad: &mut [f32]);
    /// `d = 0 where y <= 0` and `bias_grad += Σ_rows d`.
    fn body::relu_backward(d: &mut [f32], y: &[f32], bias_grad: &mut [f32]);
    /// `sums += Σ_rows d` for rows of `sums.len()`.
    fn body::column_sums(d: &[f32], sums: &mut [f32]);
    /// In-place exponential, relative error below 3e-7; below -87.3 it gives 0, NaN stays NaN.
    fn exponential::exp(x: &mut [f32]);
    /// Log-softmax of `n` logits from column `first` on, of rows of `stride`: in place in `z`, the
    /// probabilities into `p`. A logit of −∞ gives probability 0, NaN makes its row NaN.
    fn exponential::log_softmax(z: &mut [f32], p: &mut [f32], stride: usize, first: usize, n: usize);
    /// One step of an LSTM for rows of `4 · width`, `bias.len() / 4 = width`: `gates` holds the inputs'
    /// part of the sums and gets the gates, `hidden` is the state's part, `bias` the sum of both;
    /// `before` and `cell` are the cell before and after, `out` is the output, rows of `width`.
    fn gates::lstm(gates: &mut [f32], hidden: &[f32], bias: &[f32], before: &[f32], cell: &mut [f32], out: &mut [f32]);
    /// The reverse of [`lstm`]: `gates` becomes the gradient at the sums, `d_cell` that at the cell
    /// after becomes that at the cell before.
    fn gates::lstm_backward(gates: &mut [f32], before: &[f32], d_out: &[f32], d_cell: &mut [f32], width: usize);
    /// One step of a GRU for rows of `3 · width`, `bias.len() / 3 = width`: `gates` holds the inputs' part
    /// of the sums and gets the gates, `hidden` is the state's part; `before` and `out` are the state
    /// before and after, `candidate` keeps the candidate's part of the state, rows of `width`.
    fn gates::gru(gates: &mut [f32], hidden: &[f32], bias: &[f32], hidden_bias: &[f32], before: &[f32], candidate: &mut [f32], out: &mut [f32]);
    /// The reverse of [`gru`]: `gates` becomes the gradient at the inputs' part of the sums, `d_hidden`
    /// gets that at the state's part, and `d_out` becomes what of it reaches the state before directly.
    fn gates::gru_backward(gates: &mut [f32], candidate: &[f32], before: &[f32], d_out: &mut [f32], d_hidden: &mut [f32], width: usize);
    /// `y += x`.
    fn body::add_assign(y: &mut [f32], x: &[f32]);
    /// `Σ x²`, accumulated in f64.
    fn body::sum_squares(x: &[f32]) -> f64;
    /// One Adam step on flat arrays (Kingma & Ba 2015, in PyTorch's arrangement).
    fn body::adam(w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32], step: &AdamStep);
}

/// Name of the instruction set in use: `avx512`, `avx2`, `neon` or `portable`.
pub fn instruction_set() -> &'static str {
    table().isa
}

fn table() -> &'static Table {
    static CHOSEN: OnceLock<&'static Table> = OnceLock::new();
    CHOSEN.get_or_init(|| available().next().unwrap_or(&portable::TABLE))
}

/// The tables this machine can run, best first.
fn available() -> impl Iterator<Item = &'static Table> {
    #[cfg(target_arch = "x86_64")]
    let special = {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = avx2 && is_x86_feature_detected!("avx512f");
        [(avx512, &avx512::TABLE), (avx2, &avx2::TABLE)]
    };
    #[cfg(not(target_arch = "x86_64"))]
    let special: [(bool, &'static Table); 0] = [];
    special
        .into_iter()
        .filter_map(|(has, table)| has.then_some(table))
        .chain(std::iter::once(&portable::TABLE))
}
