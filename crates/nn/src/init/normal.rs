//! Quantiles of the normal distribution, for values drawn from a part of it.

/// The standard normal value below which a share `p` of the distribution lies. Wichura, "Algorithm AS 241: the percentage
/// points of the normal distribution", Applied Statistics 37, 1988; relative error about 1e-16.
pub(super) fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(CENTRE, 0.180625 - q * q);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 {
        return f64::INFINITY.copysign(q);
    }
    let r = (-tail.ln()).sqrt();
    let distance = if r <= 5.0 { ratio(TAIL, r - 1.6) } else { ratio(FAR_TAIL, r - 5.0) };
    distance.copysign(q)
}

/// The share of the distribution below `x`: the quantile inverted by bisection, to the last bit of `p` or so.
pub(super) fn cumulative(x: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // 1075 halvings reach the smallest positive number, and far fewer any that matters.
    for _ in 0..1075 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if quantile(middle) < x { low = middle } else { high = middle }
    }
    if x < 0.0 { low } else { high }
}

/// Coefficients of a numerator and a denominator, lowest power first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio((numerator, denominator): Rational, x: f64) -> f64 {
    let at = |coefficients: [f64; 8]| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
    at(numerator) / at(denominator)
}

const CENTRE: Rational = (
    [
        3.3871328727963665,
        133.14166789178438,
        1971.5909503065513,
        13731.69376550946,
        45921.95393154987,
        67265.7709270087,
        33430.57558358813,
        2509.0809287301227,
    ],
    [
        1.0,
        42.31333070160091,
        687.1870074920579,
        5394.196021424751,
        21213.794301586597,
        39307.89580009271,
        28729.085735721943,
        5226.495278852854,
    ],
);

const TAIL: Rational = (
    [
        1.4234371107496835,
        4.630337846156546,
        5.769497221460691,
        3.6478483247632045,
        1.2704582524523684,
        0.2417807251774506,
        0.022723844989269184,
        0.0007745450142783414,
    ],
    [
        1.0,
        2.053191626637759,
        1.6763848301838038,
        0.6897673349851,
        0.14810397642748008,
        0.015198666563616457,
        0.0005475938084995345,
        1.0507500716444169e-9,
    ],
);

const FAR_TAIL: Rational = (
    [
        6.657904643501103,
        5.463784911164114,
        1.7848265399172913,
        0.29656057182850487,
        0.026532189526576124,
        0.0012426609473880784,
        2.7115555687434876e-5,
        2.0103343992922881e-7,
    ],
    [
        1.0,
        0.599832206555888,
        0.1369298809227358,
        0.014875361290850615,
        0.0007868691311456133,
        1.8463183175100548e-5,
        1.421511758316446e-7,
        2.0442631033899397e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The density summed by Simpson's rule between the quantiles is the share between them.
    #[test]
    fn quantiles_enclose_their_share() {
        for (p, q) in [(0.01, 0.02), (0.3, 0.9), (0.5, 0.999), (1e-6, 2e-6), (1e-14, 3e-14), (0.98, 0.99)] {
            let (a, b) = (quantile(p), quantile(q));
            let n = 2000;
            let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            let weight = |i| if i == 0 || i == n { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
            let step = (b - a) / n as f64;
            let sum: f64 = (0..=n).map(|i| weight(i) * density(a + step * i as f64)).sum();
            let share = sum * step / 3.0;
            assert!((share / (q - p) - 1.0).abs() < 1e-9, "{p} {q} {share}");
        }
    }

    #[test]
    fn cumulative_inverts_quantile() {
        for p in [1e-12, 0.003, 0.4, 0.5, 0.73, 0.9999] {
            assert!((cumulative(quantile(p)) / p - 1.0).abs() < 1e-12, "{p}");
        }
        assert_eq!((cumulative(f64::NEG_INFINITY), cumulative(f64::INFINITY)), (0.0, 1.0));
        // Abramowitz and Stegun, table 26.1.
        assert!((cumulative(1.96) - 0.975_002_104_851_780).abs() < 1e-14);
    }
}
