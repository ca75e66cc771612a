//! The same by 32 pixels or eight sums at once, on processors that have AVX2.

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::{greys, is_available, shrink};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{greys, is_available, shrink};

/// Pixels of a step of [`greys`].
pub(crate) const STEP: usize = 32;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::STEP;
    use crate::resize::{Columns, PADDED, Resize, TAPS};
    use std::arch::x86_64::*;

    pub(crate) fn is_available() -> bool {
        // The answer is kept by the library.
        is_x86_feature_detected!("avx2")
    }

    /// As [`Resize::run`]. Panics without AVX2.
    pub(crate) fn shrink(resize: &Resize, image: &[u8], out: &mut [u8]) {
        assert!(is_available());
        // SAFETY: the processor has AVX2.
        unsafe { shrink_avx2(resize, image, out) }
    }

    #[target_feature(enable = "avx2")]
    fn shrink_avx2(resize: &Resize, image: &[u8], out: &mut [u8]) {
        let columns = resize.columns();
        resize.run_by(image, out, |line, row| shrink_row(columns, line, row));
    }

    /// Eight sums at once: their pixels lie within 16 bytes, and one shuffle fetches the first, second or third of each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn shrink_row(columns: &Columns, line: &[u8], row: &mut [f32; PADDED]) {
        let rows = row.chunks_exact_mut(8);
        for ((eight, (first, distances)), sums_out) in columns.eights.iter().enumerate().zip(rows) {
            let bytes = &line[*first..][..16 + TAPS - 1];
            // SAFETY: distances are 16 bytes, of `bytes` there are 16 behind any tap, eight weights lie at any multiple of
            // eight, as do eight sums; loads and stores need no alignment.
            unsafe {
                let distances = _mm_loadu_si128(distances.as_ptr().cast());
                let mut sums = _mm256_setzero_ps();
                for (tap, weights) in columns.weights.iter().enumerate() {
                    let pixels = _mm_loadu_si128(bytes[tap..].as_ptr().cast());
                    let pixels = _mm_shuffle_epi8(pixels, distances);
                    let values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(pixels));
                    let weights = _mm256_loadu_ps(weights[8 * eight..].as_ptr());
                    sums = _mm256_add_ps(sums, _mm256_mul_ps(values, weights));
                }
                _mm256_storeu_ps(sums_out.as_mut_ptr(), sums);
            }
        }
    }

    /// Writes the lighter of the greys of each pixel in `a` and `b`; lengths are equal and multiples of [`STEP`]. Panics
    /// without AVX2.
    pub(crate) fn greys(grey: &[u8; 256], a: &[u8], b: &[u8], out: &mut [u8]) {
        assert!(is_available());
        // SAFETY: the processor has AVX2.
        unsafe { greys_avx2(grey, a, b, out) }
    }

    #[target_feature(enable = "avx2")]
    fn greys_avx2(grey: &[u8; 256], a: &[u8], b: &[u8], out: &mut [u8]) {
        // Greys of the even colours, sixteen in a part, each part twice: a shuffle works within 16 bytes.
        let parts: [__m256i; 8] = std::array::from_fn(|part| {
            let bytes: [u8; 32] = std::array::from_fn(|at| grey[32 * part + 2 * (at % 16)]);
            // SAFETY: 32 bytes, and the load needs no alignment.
            unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
        });
        let steps = a.chunks_exact(STEP).zip(b.chunks_exact(STEP));
        for ((a, b), out) in steps.zip(out.chunks_exact_mut(STEP)) {
            // SAFETY: steps are 32 bytes, and loads need no alignment.
            let (x, y) = unsafe {
                (
                    _mm256_loadu_si256(a.as_ptr().cast()),
                    _mm256_loadu_si256(b.as_ptr().cast()),
                )
            };
            let odd = _mm256_and_si256(_mm256_or_si256(x, y), _mm256_set1_epi8(1));
            if _mm256_testz_si256(odd, odd) == 0 {
                super::greys_one_by_one(grey, a, b, out);
                continue;
            }
            let mut light = look_up(&parts, x);
            // Most of the screen stays as it is from frame to frame.
            if _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) != -1 {
                light = _mm256_max_epu8(light, look_up(&parts, y));
            }
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), light) }
        }
    }

    /// The greys of 32 even colours.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn look_up(parts: &[__m256i; 8], colours: __m256i) -> __m256i {
        let index = _mm256_and_si256(_mm256_srli_epi16::<1>(colours), _mm256_set1_epi8(0x7f));
        let mut found = _mm256_setzero_si256();
        for (part, &greys) in parts.iter().enumerate() {
            // 0 to 15 where the colour is of this part; anything else gets its highest bit set, for which a shuffle
            // gives 0.
            let within = _mm256_sub_epi8(index, _mm256_set1_epi8(16 * part as i8));
            let within = _mm256_adds_epu8(within, _mm256_set1_epi8(0x70));
            found = _mm256_or_si256(found, _mm256_shuffle_epi8(greys, within));
        }
        found
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod none {
    use crate::resize::Resize;

    pub(crate) fn is_available() -> bool {
        false
    }

    pub(crate) fn shrink(_: &Resize, _: &[u8], _: &mut [u8]) {
        unreachable!("there is no AVX2 here")
    }

    pub(crate) fn greys(_: &[u8; 256], _: &[u8], _: &[u8], _: &mut [u8]) {
        unreachable!("there is no AVX2 here")
    }
}

/// As [`greys`], for any processor and any colours.
pub(crate) fn greys_one_by_one(grey: &[u8; 256], a: &[u8], b: &[u8], out: &mut [u8]) {
    for ((&a, &b), out) in a.iter().zip(b).zip(out) {
        *out = grey[usize::from(a)].max(grey[usize::from(b)]);
    }
}
