//! How long a step takes.

use hotloop_env::{EnvError, EnvOptions, EnvRng, EnvSpec};

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874_040_841;

/// A distribution of times, in the unit of the options.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Latency {
    Constant(f64),
    Uniform(f64, f64),
    /// Median, and deviation of the logarithm.
    LogNormal(f64, f64),
}

/// What a step costs, and the one lane for which it costs more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    latency: Latency,
    slow_lane: i64,
    slow_factor: f64,
}

/// Declares the options.
pub(crate) fn options(spec: EnvSpec) -> EnvSpec {
    spec.option(
        "latency",
        "constant",
        "how long steps take: constant, uniform or log-normal",
    )
    .option("time", 1.0, "the constant, or the median of log-normal")
    .option("low", 1.0, "the shortest time of uniform")
    .option("high", 50.0, "the longest time of uniform")
    .option("p99", 50.0, "one log-normal time in a hundred is longer")
    .option("slow_lane", -1i64, "the lane that is slower; -1 for none")
    .option("slow_factor", 100.0, "how many times slower it is")
}

impl Cost {
    pub(crate) fn new(options: &EnvOptions) -> Result<Self, EnvError> {
        let number = |name: &str| match options.float(name) {
            x if x >= 0.0 && x.is_finite() => Ok(x),
            x => Err(EnvError::new(format!(
                "option {name:?} is {x}; it is a time or a factor, 0 or more"
            ))),
        };
        let ordered = |low: &str, high: &str| match (number(low)?, number(high)?) {
            (a, b) if a <= b => Ok((a, b)),
            (a, b) => Err(EnvError::new(format!(
                "option {low:?} is {a} and {high:?} is {b}; {low} ≤ {high} is needed"
            ))),
        };
        let latency = match options.text("latency") {
            "constant" => Latency::Constant(number("time")?),
            "uniform" => {
                let (low, high) = ordered("low", "high")?;
                Latency::Uniform(low, high)
            }
            "log-normal" => {
                let (median, p99) = ordered("time", "p99")?;
                if median == 0.0 {
                    return Err("option \"time\" is 0; a log-normal median is more".into());
                }
                Latency::LogNormal(median, (p99 / median).ln() / Z99)
            }
            other => {
                return Err(EnvError::new(format!(
                    "option \"latency\" is {other:?}; it is constant, uniform or log-normal"
                )));
            }
        };
        Ok(Self {
            latency,
            slow_lane: options.int("slow_lane"),
            slow_factor: number("slow_factor")?,
        })
    }

    /// The time of one step of `lane`.
    pub(crate) fn draw(&self, lane: u64, rng: &mut EnvRng) -> f64 {
        let time = match self.latency {
            Latency::Constant(time) => time,
            Latency::Uniform(low, high) => rng.range(low, high),
            Latency::LogNormal(median, sigma) => median * (sigma * rng.normal()).exp(),
        };
        let slow = i64::try_from(lane) == Ok(self.slow_lane);
        time * if slow { self.slow_factor } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotloop_env::Stream;

    fn draws(latency: Latency) -> Vec<f64> {
        let cost = Cost {
            latency,
            slow_lane: -1,
            slow_factor: 100.0,
        };
        let mut rng = EnvRng::new(1, 0, Stream::Env);
        let mut times: Vec<_> = (0..20_000).map(|_| cost.draw(0, &mut rng)).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    #[test]
    fn times_have_the_quantiles_that_were_asked_for() {
        assert_eq!(draws(Latency::Constant(3.0))[7], 3.0);
        let uniform = draws(Latency::Uniform(1.0, 50.0));
        assert!(uniform[0] >= 1.0 && uniform[19_999] < 50.0);
        assert!((uniform[10_000] - 25.5).abs() < 1.0, "{}", uniform[10_000]);
        let heavy = draws(Latency::LogNormal(2.0, (100.0f64 / 2.0).ln() / Z99));
        assert!((heavy[10_000] - 2.0).abs() < 0.1, "{}", heavy[10_000]);
        let p99 = heavy[19_800];
        assert!((p99 / 100.0 - 1.0).abs() < 0.2, "{p99}");
    }

    #[test]
    fn one_lane_can_be_slower() {
        let cost = Cost {
            latency: Latency::Constant(2.0),
            slow_lane: 3,
            slow_factor: 10.0,
        };
        let mut rng = EnvRng::new(1, 0, Stream::Env);
        assert_eq!(
            [2, 3, 4].map(|lane| cost.draw(lane, &mut rng)),
            [2.0, 20.0, 2.0]
        );
    }
}
