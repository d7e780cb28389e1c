//! The normal distribution as numbers, against its own integral and a table.

use flambeau_ops::native::pointwise::special_scalar::normal::{ndtr, ndtri};

/// The density summed by Simpson's rule between the quantiles is the share between them.
#[test]
fn quantiles_enclose_their_share() {
    for (p, q) in [(0.01, 0.02), (0.3, 0.9), (0.5, 0.999), (1e-6, 2e-6), (1e-14, 3e-14), (0.98, 0.99)] {
        let (a, b) = (ndtri(p), ndtri(q));
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
fn one_is_the_inverse_of_the_other() {
    for p in [1e-12, 0.003, 0.4, 0.5, 0.73, 0.9999] {
        assert!((ndtr(ndtri(p)) / p - 1.0).abs() < 1e-12, "{p}");
    }
    assert_eq!((ndtr(f64::NEG_INFINITY), ndtr(f64::INFINITY)), (0.0, 1.0));
    // Abramowitz and Stegun, table 26.1.
    assert!((ndtr(1.96) - 0.975_002_104_851_780).abs() < 1e-14);
}
