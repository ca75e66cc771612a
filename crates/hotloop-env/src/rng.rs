//! Counter-based random numbers: every lane has its own, and none depends on the order in which
//! lanes are stepped.
//!
//! The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
//! SC 2011). The seed is the key; lane, stream and a block counter make the 128-bit counter, so any
//! draw can be computed on its own.

use std::collections::VecDeque;

/// What a lane's numbers are for. Streams of one lane never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stream {
    /// Draws made inside environments.
    Env = 0,
    /// Action sampling.
    Action = 1,
    /// The 64-bit seeds of [`ResetCtx::seed`](crate::ResetCtx::seed).
    Seed = 2,
    /// The learner's shuffles.
    Shuffle = 3,
    /// Initial weights.
    Init = 4,
    /// Environments of an evaluation.
    Eval = 5,
    /// Actions of an evaluation that samples.
    EvalAction = 6,
    /// As [`Stream::Seed`], in an evaluation.
    EvalSeed = 7,
}

/// Stateless Philox4x32-10 for one seed and stream.
#[derive(Clone, Copy, Debug)]
pub struct Philox {
    key: [u32; 2],
    stream: u32,
}

impl Philox {
    /// The generator of `seed` and `stream`.
    #[inline]
    pub fn new(seed: u64, stream: Stream) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            stream: stream as u32,
        }
    }

    /// Four words: draw number `counter` of `lane`.
    #[inline]
    pub fn block(&self, lane: u64, counter: u64) -> [u32; 4] {
        // 40 bits of counter (10^12 blocks a lane), 56 of lane and 32 of stream fill 128 bits.
        debug_assert!(counter < 1 << 40 && lane < 1 << 56);
        let counter = [
            counter as u32,
            (counter >> 32) as u32 & 0xff | (lane as u32) << 8,
            (lane >> 24) as u32,
            self.stream,
        ];
        philox4x32(counter, self.key)
    }

    /// One uniform number in [0, 1) with 24 bits: draw `counter` of `lane`.
    #[inline]
    pub fn uniform(&self, lane: u64, counter: u64) -> f32 {
        to_f32(self.block(lane, counter)[0])
    }
}

#[inline(always)]
fn philox4x32(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    const M0: u64 = 0xD251_1F53;
    const M1: u64 = 0xCD9E_8D57;
    for round in 0..10 {
        if round > 0 {
            k = [
                k[0].wrapping_add(0x9E37_79B9),
                k[1].wrapping_add(0xBB67_AE85),
            ];
        }
        let p0 = M0 * c[0] as u64;
        let p1 = M1 * c[2] as u64;
        c = [
            (p1 >> 32) as u32 ^ c[1] ^ k[0],
            p1 as u32,
            (p0 >> 32) as u32 ^ c[3] ^ k[1],
            p0 as u32,
        ];
    }
    c
}

#[inline]
fn to_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// Recorded draws, fed to an environment in place of random ones by [`EnvRng::scripted`].
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Numbers returned by `uniform` and, mapped to their range, by `range`.
    pub uniforms: VecDeque<f64>,
    /// Numbers returned by `below`.
    pub integers: VecDeque<u64>,
    /// Numbers returned by `normal`.
    pub normals: VecDeque<f64>,
}

#[derive(Clone, Debug)]
enum Source {
    Philox { philox: Philox, lane: u64 },
    Script(Box<Script>),
}

/// The random numbers of one environment.
///
/// ```
/// use hotloop_env::{EnvRng, Script, Stream};
///
/// let (mut a, mut b) = (EnvRng::new(1, 0, Stream::Env), EnvRng::new(1, 0, Stream::Env));
/// assert_eq!(a.range(-0.05, 0.05), b.range(-0.05, 0.05));
///
/// // A test may say what is drawn.
/// let mut scripted = EnvRng::scripted(Script { uniforms: [0.75].into(), ..Script::default() });
/// assert_eq!(scripted.range(0.0, 4.0), 3.0);
/// ```
#[derive(Clone, Debug)]
pub struct EnvRng {
    source: Source,
    /// 32-bit words drawn so far; the whole state of a seeded generator.
    position: u64,
    words: [u32; 4],
}

impl EnvRng {
    /// The numbers of `lane` in `stream` under `seed`, from the first.
    pub fn new(seed: u64, lane: u64, stream: Stream) -> Self {
        Self {
            source: Source::Philox {
                philox: Philox::new(seed, stream),
                lane,
            },
            position: 0,
            words: [0; 4],
        }
    }

    /// Plays back recorded draws. Running out of them panics: the recording does not fit.
    pub fn scripted(script: Script) -> Self {
        Self {
            source: Source::Script(Box::new(script)),
            position: 0,
            words: [0; 4],
        }
    }

    /// How many 32-bit words were drawn: with seed, lane and stream, the whole state.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes to a position that [`EnvRng::position`] returned.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
        if !position.is_multiple_of(4) {
            self.words = self.block(position / 4);
        }
    }

    /// Goes on at a fixed distance from a position: whatever was drawn meanwhile, less than a million
    /// numbers, neither matters nor comes again.
    pub(crate) fn leap_from(&mut self, position: u64) {
        self.seek(position.next_multiple_of(4) + (1 << 20));
    }

    fn block(&self, counter: u64) -> [u32; 4] {
        match &self.source {
            Source::Philox { philox, lane } => philox.block(*lane, counter),
            Source::Script(_) => panic!(
                "a scripted generator has no raw words: script the draw that the environment makes"
            ),
        }
    }

    fn script(&mut self) -> Option<&mut Script> {
        match &mut self.source {
            Source::Script(script) => Some(script),
            Source::Philox { .. } => None,
        }
    }

    /// Uniform over all 32-bit words.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let at = (self.position % 4) as usize;
        if at == 0 {
            self.words = self.block(self.position / 4);
        }
        self.position += 1;
        self.words[at]
    }

    /// Uniform over all 64-bit words.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        // Two words of one block: the way of a generator from which nothing but pairs is drawn.
        if self.position.is_multiple_of(2) {
            if self.position.is_multiple_of(4) {
                self.words = self.block(self.position / 4);
            }
            let at = (self.position % 4) as usize;
            self.position += 2;
            return self.words[at] as u64 | (self.words[at + 1] as u64) << 32;
        }
        let low = self.next_u32() as u64;
        low | (self.next_u32() as u64) << 32
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        if let Some(script) = self.script() {
            return script
                .uniforms
                .pop_front()
                .expect("the script has another uniform draw");
        }
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    #[inline]
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform over `0..n`, without bias (Lemire, "Fast random integer generation in an interval",
    /// 2019). Panics if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0): there is no number below 0 to draw");
        if let Some(script) = self.script() {
            let drawn = script
                .integers
                .pop_front()
                .expect("the script has another integer draw");
            assert!(
                drawn < n,
                "the script's next integer is {drawn}, but the environment draws below {n}"
            );
            return drawn;
        }
        loop {
            let wide = self.next_u64() as u128 * n as u128;
            if wide as u64 >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Standard normal (Box and Muller, 1958; one of the pair is thrown away to keep the state a counter).
    #[inline]
    pub fn normal(&mut self) -> f64 {
        if let Some(script) = self.script() {
            return script
                .normals
                .pop_front()
                .expect("the script has another normal draw");
        }
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution, `kat_vectors`, philox4x32 10.
    #[test]
    fn philox_matches_the_published_vectors() {
        let all = u32::MAX;
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
        );
        assert_eq!(
            philox4x32([all; 4], [all; 2]),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        assert_eq!(
            philox4x32(
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0]
            ),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn lanes_and_streams_differ_and_a_position_can_be_found_again() {
        let mut a = EnvRng::new(7, 3, Stream::Env);
        let mut b = EnvRng::new(7, 4, Stream::Env);
        let mut c = EnvRng::new(7, 3, Stream::Action);
        let drawn: Vec<u32> = (0..9).map(|_| a.next_u32()).collect();
        assert_ne!(drawn[0], b.next_u32());
        assert_ne!(drawn[0], c.next_u32());
        for position in 0..9 {
            let mut again = EnvRng::new(7, 3, Stream::Env);
            again.seek(position);
            assert_eq!(again.next_u32(), drawn[position as usize]);
        }
    }

    #[test]
    fn draws_stay_in_range_and_have_the_right_moments() {
        let mut rng = EnvRng::new(1, 0, Stream::Env);
        let n = 100_000;
        let (mut sum, mut square, mut counts) = (0.0, 0.0, [0u32; 5]);
        for _ in 0..n {
            let u = rng.range(-2.0, 6.0);
            assert!((-2.0..6.0).contains(&u));
            sum += u;
            let z = rng.normal();
            square += z * z;
            counts[rng.below(5) as usize] += 1;
        }
        assert!((sum / n as f64 - 2.0).abs() < 0.03);
        assert!((square / n as f64 - 1.0).abs() < 0.02);
        assert!(
            counts
                .iter()
                .all(|&c| (c as f64 - n as f64 / 5.0).abs() < 600.0),
            "{counts:?}"
        );
    }

    #[test]
    fn a_script_is_played_back() {
        let script = Script {
            uniforms: [0.25].into(),
            integers: [3].into(),
            normals: [-1.5].into(),
        };
        let mut rng = EnvRng::scripted(script);
        assert_eq!(
            (rng.range(0.0, 4.0), rng.below(4), rng.normal()),
            (1.0, 3, -1.5)
        );
    }
}
