//! The standard normal distribution.
//!
//! All functions use `libm`, whose results are the same on every machine, unlike those of the
//! platform's C library that `std` calls.

/// Returns the probability of a value of at most `z`.
#[must_use]
pub fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

/// Returns the value that is not exceeded with probability `p`, above 0 and below 1. The relative
/// error is about 1e-16 (Wichura, algorithm AS 241, Applied Statistics 37 (1988), function PPND16).
#[must_use]
pub fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&CENTRE.0, r) / polynomial(&CENTRE.1, r);
    }
    let r = libm::sqrt(-libm::log(if q < 0.0 { p } else { 1.0 - p }));
    let z = if r <= 5.0 {
        polynomial(&MIDDLE.0, r - 1.6) / polynomial(&MIDDLE.1, r - 1.6)
    } else {
        polynomial(&FAR.0, r - 5.0) / polynomial(&FAR.1, r - 5.0)
    };
    if q < 0.0 { -z } else { z }
}

fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Coefficients of a numerator and a denominator, by rising power.
type Ratio = ([f64; 8], [f64; 8]);

const CENTRE: Ratio = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
);
const MIDDLE: Ratio = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        0.000_774_545_014_278_341_4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        0.000_547_593_808_499_534_5,
        0.000_000_001_050_750_071_644_416_9,
    ],
);
const FAR: Ratio = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        0.000_027_115_555_687_434_876,
        0.000_000_201_033_439_929_228_8,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        0.000_786_869_131_145_613_3,
        0.000_018_463_183_175_100_548,
        0.000_000_142_151_175_831_644_6,
        0.000_000_000_000_002_044_263_103_389_939_8,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_inverts_the_distribution_from_centre_to_tails() {
        for p in [
            1e-15, 1e-12, 1e-6, 0.001, 0.01, 0.074, 0.076, 0.3, 0.5, 0.7, 0.924, 0.926, 0.999,
        ] {
            let back = cdf(quantile(p));
            assert!(
                (back - p).abs() <= 1e-13 * p.max(1e-3) + 4e-16,
                "{p} came back as {back}"
            );
        }
        // Published test values of AS 241.
        assert!((quantile(0.25) + 0.674_489_750_196_081_7).abs() < 1e-15);
        assert!((quantile(0.001) + 3.090_232_306_167_814).abs() < 1e-14);
        assert!((quantile(1e-20) + 9.262_340_089_798_408).abs() < 1e-14);
    }
}
