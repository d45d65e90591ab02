//! Distributions of file sizes: quantiles, from which sizes are drawn, and the distribution
//! functions that tests compare the drawn sizes with.
use hakaru_contract::files::{FileSizes, ParetoTail, SizeClass};
use hakaru_contract::{ConfigError, refuse};

use crate::normal;

/// Largest size of a file, bytes.
pub const SIZE_MAX: u64 = 1 << 50;
/// Largest number of classes in a table.
pub const CLASSES_MAX: usize = 4096;

/// A checked distribution of sizes.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// Uniform within each class.
    Table {
        /// Classes with a count above 0.
        classes: Vec<Class>,
    },
    /// Lognormal body and Pareto tail.
    Lognormal {
        /// Cut body.
        body: Body,
        /// Tail, if any.
        tail: Option<Tail>,
    },
}

/// A class of a table: sizes above `above` up to `up_to`, or only `up_to` in the first class.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    above: Option<u64>,
    up_to: u64,
    /// Probabilities of all classes before this one, and of these and this one.
    before: f64,
    through: f64,
}

/// Lognormal distribution between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    median: f64,
    sigma: f64,
    min: f64,
    max: f64,
    /// Probabilities of the uncut distribution at the bounds.
    at_min: f64,
    at_max: f64,
}

/// Pareto distribution between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    from: f64,
    alpha: f64,
    max: f64,
    share: f64,
    /// Probability of the uncut distribution at `max`.
    at_max: f64,
}

impl Sizes {
    /// Checks a distribution. `field` is its place in the configuration.
    ///
    /// # Errors
    /// Returns an error for the first field that is out of bounds.
    pub fn new(config: &FileSizes, field: &str) -> Result<Sizes, ConfigError> {
        match config {
            FileSizes::Table { classes } => table(classes, field),
            FileSizes::Lognormal {
                median_bytes,
                sigma,
                min_bytes,
                max_bytes,
                tail,
            } => {
                if *median_bytes == 0 || *median_bytes > SIZE_MAX {
                    let hint = format!("use 1 to {SIZE_MAX}");
                    return refuse(
                        format!("{field}.median_bytes"),
                        median_bytes.to_string(),
                        hint,
                    );
                }
                if !(0.01..=10.0).contains(sigma) {
                    return refuse(
                        format!("{field}.sigma"),
                        sigma.to_string(),
                        "use 0.01 to 10",
                    );
                }
                if *max_bytes > SIZE_MAX || min_bytes >= max_bytes {
                    let problem = format!("{max_bytes} with a minimum of {min_bytes}");
                    let hint = format!("use more than the minimum, at most {SIZE_MAX}");
                    return refuse(format!("{field}.max_bytes"), problem, hint);
                }
                let tail = tail
                    .map(|tail| Tail::new(tail, *min_bytes, *max_bytes, field))
                    .transpose()?;
                let body_max = tail.map_or(*max_bytes as f64, |tail| tail.from);
                let body = Body::new(*median_bytes as f64, *sigma, *min_bytes as f64, body_max);
                if body.at_max - body.at_min < 1e-6 {
                    let problem = "almost no size of the distribution lies within the bounds";
                    let hint = "choose a median between the bounds, or a larger sigma";
                    return refuse(format!("{field}.median_bytes"), problem, hint);
                }
                Ok(Sizes::Lognormal { body, tail })
            }
        }
    }

    /// Returns the smallest size, bytes.
    #[must_use]
    pub fn min_bytes(&self) -> u64 {
        match self {
            Sizes::Table { classes } => {
                let first = classes[0];
                first.above.map_or(first.up_to, |above| above + 1)
            }
            Sizes::Lognormal { body, .. } => body.min as u64,
        }
    }

    /// Returns the size that is not exceeded with probability `p`, above 0 and below 1.
    #[must_use]
    pub fn quantile(&self, p: f64) -> u64 {
        match self {
            Sizes::Table { classes } => {
                let index = classes.partition_point(|class| class.through < p);
                // Sums of rounded shares may end just below 1.
                let class = &classes[index.min(classes.len() - 1)];
                let Some(above) = class.above else {
                    return class.up_to;
                };
                let within = ((p - class.before) / (class.through - class.before)).clamp(0.0, 1.0);
                let width = class.up_to - above;
                above + (libm::ceil(within * width as f64) as u64).clamp(1, width)
            }
            Sizes::Lognormal { body, tail } => {
                let share = tail.map_or(0.0, |tail| tail.share);
                let size = match tail {
                    Some(tail) if p > 1.0 - share => tail.quantile((p - (1.0 - share)) / share),
                    _ => body.quantile(p / (1.0 - share)),
                };
                libm::round(size) as u64
            }
        }
    }

    /// Returns the probability of a size of at most `bytes`.
    #[must_use]
    pub fn cdf(&self, bytes: u64) -> f64 {
        match self {
            Sizes::Table { classes } => classes
                .iter()
                .map(|class| {
                    let above = class.above.unwrap_or(class.up_to.saturating_sub(1));
                    let part = if bytes >= class.up_to {
                        1.0
                    } else {
                        bytes.saturating_sub(above) as f64 / (class.up_to - above).max(1) as f64
                    };
                    (class.through - class.before) * part
                })
                .sum(),
            Sizes::Lognormal { body, tail } => {
                // Sizes are rounded, so `bytes` includes all up to half a byte more.
                let x = bytes as f64 + 0.5;
                let share = tail.map_or(0.0, |tail| tail.share);
                (1.0 - share) * body.cdf(x) + tail.map_or(0.0, |tail| share * tail.cdf(x))
            }
        }
    }
}

fn table(config: &[SizeClass], field: &str) -> Result<Sizes, ConfigError> {
    let field = format!("{field}.classes");
    if config.is_empty() || config.len() > CLASSES_MAX {
        let hint = format!("use 1 to {CLASSES_MAX}");
        return refuse(field, format!("{} classes", config.len()), hint);
    }
    let sum: f64 = config.iter().map(|class| class.count).sum();
    let mut classes = Vec::with_capacity(config.len());
    let (mut above, mut before) = (None, 0.0);
    for (i, class) in config.iter().enumerate() {
        if class.up_to_bytes > SIZE_MAX || above.is_some_and(|above| class.up_to_bytes <= above) {
            let hint = format!("use ascending limits of at most {SIZE_MAX}");
            return refuse(
                format!("{field}[{i}].up_to_bytes"),
                class.up_to_bytes.to_string(),
                hint,
            );
        }
        if !(class.count.is_finite() && class.count >= 0.0) {
            let hint = "use a finite number of at least 0";
            return refuse(format!("{field}[{i}].count"), class.count.to_string(), hint);
        }
        let through = before + class.count / sum;
        if class.count > 0.0 {
            let up_to = class.up_to_bytes;
            classes.push(Class {
                above,
                up_to,
                before,
                through,
            });
        }
        (above, before) = (Some(class.up_to_bytes), through);
    }
    if classes.is_empty() || !sum.is_finite() {
        return refuse(
            field,
            format!("the counts add up to {sum}"),
            "use counts above 0",
        );
    }
    Ok(Sizes::Table { classes })
}

impl Body {
    fn new(median: f64, sigma: f64, min: f64, max: f64) -> Body {
        let probability = |x: f64| {
            if x > 0.0 {
                normal::cdf(libm::log(x / median) / sigma)
            } else {
                0.0
            }
        };
        let (at_min, at_max) = (probability(min), probability(max));
        Body {
            median,
            sigma,
            min,
            max,
            at_min,
            at_max,
        }
    }

    fn quantile(&self, p: f64) -> f64 {
        let uncut = self.at_min + p * (self.at_max - self.at_min);
        let bounded = uncut.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0);
        let size = self.median * libm::exp(self.sigma * normal::quantile(bounded));
        size.clamp(self.min, self.max)
    }

    fn cdf(&self, x: f64) -> f64 {
        if x <= self.min {
            return 0.0;
        }
        let uncut = normal::cdf(libm::log(x / self.median) / self.sigma);
        ((uncut - self.at_min) / (self.at_max - self.at_min)).clamp(0.0, 1.0)
    }
}

impl Tail {
    fn new(config: ParetoTail, min: u64, max: u64, field: &str) -> Result<Tail, ConfigError> {
        let ParetoTail {
            from_bytes,
            alpha,
            percent,
        } = config;
        if from_bytes <= min || from_bytes >= max {
            let hint = format!("use more than {min} and less than {max}");
            return refuse(
                format!("{field}.tail.from_bytes"),
                from_bytes.to_string(),
                hint,
            );
        }
        if !(0.1..=10.0).contains(&alpha) {
            return refuse(
                format!("{field}.tail.alpha"),
                alpha.to_string(),
                "use 0.1 to 10",
            );
        }
        if !(percent > 0.0 && percent < 100.0) {
            let hint = "use more than 0 and less than 100";
            return refuse(format!("{field}.tail.percent"), percent.to_string(), hint);
        }
        let (from, max) = (from_bytes as f64, max as f64);
        let at_max = 1.0 - libm::pow(from / max, alpha);
        Ok(Tail {
            from,
            alpha,
            max,
            share: percent / 100.0,
            at_max,
        })
    }

    fn quantile(&self, p: f64) -> f64 {
        let size = self.from * libm::pow(1.0 - p * self.at_max, -1.0 / self.alpha);
        size.clamp(self.from, self.max)
    }

    fn cdf(&self, x: f64) -> f64 {
        if x <= self.from {
            return 0.0;
        }
        ((1.0 - libm::pow(self.from / x, self.alpha)) / self.at_max).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lognormal(tail: Option<ParetoTail>) -> FileSizes {
        FileSizes::Lognormal {
            median_bytes: 300_000,
            sigma: 1.3,
            min_bytes: 50_000,
            max_bytes: 1 << 40,
            tail,
        }
    }

    #[test]
    fn quantiles_invert_the_distribution_function() {
        let tail = ParetoTail {
            from_bytes: 5_000_000,
            alpha: 1.5,
            percent: 4.0,
        };
        let table = FileSizes::Table {
            classes: [(0, 3.0), (100, 1.0), (1000, 0.0), (50_000, 6.0)]
                .map(|(up_to_bytes, count)| SizeClass { up_to_bytes, count })
                .to_vec(),
        };
        for config in [lognormal(None), lognormal(Some(tail)), table] {
            let sizes = Sizes::new(&config, "sizes").unwrap();
            let mut last = 0;
            for i in 1..10_000 {
                let p = f64::from(i) / 10_000.0;
                let size = sizes.quantile(p);
                assert!(
                    size >= last && size >= sizes.min_bytes(),
                    "{config:?} at {p}"
                );
                last = size;
                let above = size.checked_sub(1).map_or(0.0, |less| sizes.cdf(less));
                assert!(
                    above <= p + 1e-9 && p <= sizes.cdf(size) + 1e-9,
                    "{config:?}: {p} is not between {above} and {} at {size}",
                    sizes.cdf(size)
                );
            }
        }
    }

    #[test]
    fn extreme_probabilities_stay_within_the_bounds() {
        let tail = ParetoTail {
            from_bytes: 60_000,
            alpha: 0.1,
            percent: 99.0,
        };
        let sizes = Sizes::new(&lognormal(Some(tail)), "sizes").unwrap();
        for p in [
            f64::MIN_POSITIVE,
            1e-16,
            1.0 - 1e-16,
            1.0 - f64::EPSILON / 2.0,
        ] {
            assert!((50_000..=1 << 40).contains(&sizes.quantile(p)), "{p}");
        }
    }

    #[test]
    fn every_refusal_names_its_field() {
        let tail = |from_bytes, alpha, percent| {
            lognormal(Some(ParetoTail {
                from_bytes,
                alpha,
                percent,
            }))
        };
        let table = |limits: &[(u64, f64)]| FileSizes::Table {
            classes: limits
                .iter()
                .map(|&(up_to_bytes, count)| SizeClass { up_to_bytes, count })
                .collect(),
        };
        let body = |median_bytes, sigma, min_bytes, max_bytes| FileSizes::Lognormal {
            median_bytes,
            sigma,
            min_bytes,
            max_bytes,
            tail: None,
        };
        for (config, field) in [
            (body(0, 1.0, 0, 9), "s.median_bytes"),
            (body(5, f64::NAN, 0, 9), "s.sigma"),
            (body(5, 1.0, 9, 9), "s.max_bytes"),
            (body(1, 0.01, 1 << 20, 1 << 21), "s.median_bytes"),
            (tail(50_000, 1.0, 5.0), "s.tail.from_bytes"),
            (tail(60_000, 0.0, 5.0), "s.tail.alpha"),
            (tail(60_000, 1.0, 100.0), "s.tail.percent"),
            (table(&[]), "s.classes"),
            (table(&[(5, 1.0), (5, 1.0)]), "s.classes[1].up_to_bytes"),
            (table(&[(5, -1.0)]), "s.classes[0].count"),
            (table(&[(5, 0.0)]), "s.classes"),
            (table(&[(5, f64::MAX), (6, f64::MAX)]), "s.classes"),
        ] {
            assert_eq!(Sizes::new(&config, "s").unwrap_err().field, field);
        }
    }
}
