// Special functions of numbers in double precision, by the formulas of the host: `crates/ops/src/native/pointwise/special_scalar` says where
// they are from. Functions whose names begin with `special_` are those of formulas.

#define PI 3.141592653589793
#define TAU 6.283185307179586
#define HALF_ROOT 0.7071067811865476
#define TWO_OVER_PI 0.6366197723675814
#define EPSILON 2.220446049250313e-16
#define INFINITE ((double)INFINITY_F)
#define NOT_A_NUMBER ((double)NAN_F)

// Coefficients of powers, from the constant on.
template <int N> INLINE double polynomial(const double (&c)[N], double x) {
    double sum = 0;
    for (int k = N - 1; k >= 0; --k) sum = fma(sum, x, c[k]);
    return sum;
}

// The sum of `c[k] T_k(t)`, by Clenshaw's recurrence.
template <int N> INLINE double chebyshev_series(const double (&c)[N], double t) {
    double next = 0, last = 0;
    for (int k = N - 1; k > 0; --k) {
        const double value = 2 * t * next - last + c[k];
        last = next;
        next = value;
    }
    return t * next - last + c[0];
}

// ---- gamma functions

INLINE void sin_cos_pi(double x, double* sine, double* cosine) { sincos(PI * (x - round(x)), sine, cosine); }

// The first eight Bernoulli numbers in Stirling's series of the logarithm, or of its derivative.
INLINE double bernoulli_sum(double y, bool of_derivative) {
    double sum = 0;
    for (int k = 8; k > 0; --k) {
        const double n = 2.0 * k;
        sum = sum * y + BERNOULLI[k - 1] / (of_derivative ? n : n * (n - 1));
    }
    return sum;
}

INLINE double stirling(double x) { return bernoulli_sum(1 / (x * x), false) / x; }

INLINE double about_two(double t) { return t * polynomial(GAMMA_SERIES, t); }

INLINE double log_gamma_of_positive(double x) {
    if (x < 0.5) return about_two(x) - log1p(x) - log(x);
    if (x < 1.5) return about_two(x - 1) - log1p(x - 1);
    if (x >= 10) return (x - 0.5) * (log(x) - 1) - 0.5 + 0.5 * log(TAU) + stirling(x);
    double z = x, product = 1;
    while (z >= 2.5) {
        z -= 1;
        product *= z;
    }
    return about_two(z - 2) + log(product);
}

INLINE double special_lgamma(double x) {
    if (x != x) return x;
    if (fabs(x) == INFINITE || (x <= 0 && x == trunc(x))) return INFINITE;
    if (x > 0) return log_gamma_of_positive(x);
    double sine, cosine;
    sin_cos_pi(x, &sine, &cosine);
    return log(PI / fabs(x * sine)) - log_gamma_of_positive(-x);
}

INLINE double digamma_of_positive(double x) {
    double z = x, sum = 0;
    while (z < 10) {
        sum -= 1 / z;
        z += 1;
    }
    const double y = 1 / (z * z);
    return sum + (log(z) - 0.5 / z - y * bernoulli_sum(y, true));
}

INLINE double special_digamma(double x) {
    if (x == 0) return copysign(INFINITE, -x);
    if (!(x < 0)) return digamma_of_positive(x);
    if (x == trunc(x)) return NOT_A_NUMBER;
    double sine, cosine;
    sin_cos_pi(x, &sine, &cosine);
    return digamma_of_positive(1 - x) - PI * cosine / sine;
}

// ---- zeta and polygamma

INLINE double zeta_above_zero(double s, double q) {
    double sum = 0, w = q;
    while (w < 10 + s) {
        const double term = pow(w, -s);
        sum += term;
        if (term <= sum * EPSILON / 16) return sum;
        w += 1;
    }
    const double power = pow(w, -s);
    if (power == 0) return sum;
    double tail = w / (s - 1) + 0.5, factor = s / (2 * w);
    for (int k = 1; k <= 12; ++k) {
        const double term = BERNOULLI[k - 1] * factor;
        tail += term;
        if (fabs(term) <= fabs(tail) * EPSILON / 4) break;
        const double n = 2.0 * k;
        factor *= (s + n - 1) * (s + n) / ((n + 1) * (n + 2) * w * w);
    }
    return sum + power * tail;
}

INLINE double special_zeta(double s, double q) {
    if (s != s || q != q || s < 1) return NOT_A_NUMBER;
    if (s == 1 || (q <= 0 && q == floor(q))) return INFINITE;
    if (q < 0 && s != floor(s)) return NOT_A_NUMBER;
    if (q == INFINITE) return 0;
    if (q > 0) return zeta_above_zero(s, q);
    // The terms with negative `k + q` are, up to their sign, the difference of two sums with positive terms.
    const double above = q - floor(q);
    const double below = zeta_above_zero(s, 1 - above) - zeta_above_zero(s, 1 - q);
    return zeta_above_zero(s, above) + (fmod(s, 2.0) == 0 ? below : -below);
}

INLINE double special_polygamma(double x, double order) {
    if (order == 0) return special_digamma(x);
    const double sum = special_zeta(order + 1, x);
    double factorial = order <= 170 ? 1 : INFINITE;
    for (double k = 1; k <= order && order <= 170; ++k) factorial *= k;
    const double size = factorial * fabs(sum) < 1.7976931348623157e308
        ? factorial * sum
        : copysign(exp(special_lgamma(order + 1) + log(fabs(sum))), sum);
    return fmod(order, 2.0) == 1 ? size : -size;
}

// ---- the normal distribution

INLINE double normal_quantile(double q, double tail) {
    if (fabs(q) <= 0.425) {
        const double x = 0.180625 - q * q;
        return q * (polynomial(MIDDLE_ABOVE, x) / polynomial(MIDDLE_BELOW, x));
    }
    const double r = sqrt(-log(tail));
    const double size = r <= 5 ? polynomial(TAIL_ABOVE, r - 1.6) / polynomial(TAIL_BELOW, r - 1.6)
                               : polynomial(FAR_TAIL_ABOVE, r - 5) / polynomial(FAR_TAIL_BELOW, r - 5);
    return copysign(size, q);
}

INLINE double special_ndtri(double p) {
    if (p == 0) return -INFINITE;
    if (p == 1) return INFINITE;
    return p > 0 && p < 1 ? normal_quantile(p - 0.5, p < 1 - p ? p : 1 - p) : NOT_A_NUMBER;
}

INLINE double special_erfinv(double x) {
    const double size = fabs(x);
    if (size == 1) return copysign(INFINITE, x);
    return size < 1 ? HALF_ROOT * normal_quantile(x / 2, (1 - size) / 2) : NOT_A_NUMBER;
}

// ---- incomplete gamma functions

// `u - log(1 + u)` with `u = (x - a) / a`.
INLINE double excess(double a, double x) {
    const double u = (x - a) / a;
    if (fabs(u) > 0.25) return u - log(x / a);
    const double s = u / (2 + u);
    double sum = 0;
    for (int k = 11; k > 0; --k) sum = (sum + 1 / (2.0 * k + 1)) * s * s;
    return s * (u - 2 * sum);
}

// `x^a e^-x / gamma(a)`.
INLINE double gamma_factor(double a, double x) {
    if (a < 10) return pow(x, a) * exp(-x) / exp(special_lgamma(a));
    const double power = pow(x / a, a), exponential = exp(a - x), smallest = 2.2250738585072014e-308;
    const bool is_direct = fabs(x / a - 1) > 0.25 && power > smallest && power < INFINITE && exponential > smallest &&
        exponential < INFINITE;
    const double bell = is_direct ? power * exponential : exp(-a * excess(a, x));
    return sqrt(a / TAU) * exp(-stirling(a)) * bell;
}

INLINE double lower_series(double a, double x) {
    double sum = 1, term = 1, n = a;
    while (term > sum * (EPSILON / 8)) {
        n += 1;
        term *= x / n;
        sum += term;
    }
    return gamma_factor(a, x) / a * sum;
}

INLINE double upper_of_small(double a, double x) {
    double sum = 0, power = 1, n = 0;
    while (n < 40 && (n < 2 || fabs(power) > EPSILON / 8 * fabs(sum))) {
        n += 1;
        power *= -x / n;
        sum += power / (a + n);
    }
    const double logarithm = a * log(x) - special_lgamma(1 + a);
    return -expm1(logarithm) - exp(logarithm) * a * sum;
}

INLINE double upper_fraction(double a, double x) {
    double b = x + 1 - a, c = 1 / 1e-300, d = 1 / b, value = d;
    for (double n = 1; n < 1e5; ++n) {
        const double step = n * (a - n);
        b += 2;
        d = 1 / (step * d + b);
        c = b + step / c;
        value *= c * d;
        if (fabs(c * d - 1) < EPSILON / 2) break;
    }
    return gamma_factor(a, x) * value;
}

// Temme's expansion for large `a`.
INLINE double gamma_uniform(double a, double x, bool is_upper) {
    const double u = (x - a) / a, half = excess(a, x), eta = copysign(sqrt(2 * half), u);
    double first, second;
    if (fabs(eta) < 0.02) {
        first = -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta * (1.0 / 864 + eta / 2835)));
        second = -1.0 / 540 - eta / 288 + eta * eta * 25 / 12096;
    } else {
        first = 1 / u - 1 / eta;
        second = 1 / (eta * eta * eta) - 1 / (u * u * u) - 1 / (u * u) - 1 / (12 * u);
    }
    const double rest = exp(-a * half) / sqrt(TAU * a) * (first + second / a), sign = is_upper ? 1 : -1;
    return 0.5 * erfc(sign * eta * sqrt(a) * HALF_ROOT) + sign * rest;
}

// The lower function at 0, infinity and NaN, and for negative arguments.
INLINE bool gamma_edge(double a, double x, double* value) {
    if (a != a || x != x || a < 0 || x < 0) *value = NOT_A_NUMBER;
    else if (a == 0) *value = x > 0 ? 1 : NOT_A_NUMBER;
    else if (x == 0) *value = 0;
    else if (a == INFINITE) *value = x == INFINITE ? NOT_A_NUMBER : 0;
    else if (x == INFINITE) *value = 1;
    else return false;
    return true;
}

INLINE double special_igamma(double a, double x) {
    double value;
    if (gamma_edge(a, x, &value)) return value;
    if (a > 1e5) return gamma_uniform(a, x, false);
    return x <= 1 || x <= a ? lower_series(a, x) : 1 - upper_fraction(a, x);
}

INLINE double special_igammac(double a, double x) {
    double value;
    if (gamma_edge(a, x, &value)) return 1 - value;
    if (a > 1e5) return gamma_uniform(a, x, true);
    if (x <= 1) return upper_of_small(a, x);
    return x <= a ? 1 - lower_series(a, x) : upper_fraction(a, x);
}

// ---- modified Bessel functions of the first kind

INLINE double ascending(double x, double order) {
    const double y = x * x / 4;
    double sum = 1, term = 1, k = 1;
    while (term > sum * (EPSILON / 8)) {
        term *= y / (k * (k + order));
        sum += term;
        k += 1;
    }
    return sum;
}

// `e^-x I(x)` far from 0.
INLINE double scaled_far(double x, double order) {
    const double m = 4 * order * order;
    double sum = 1, term = 1, k = 1;
    while (fabs(term) > EPSILON / 8 && k < 40) {
        term *= ((2 * k - 1) * (2 * k - 1) - m) / (k * 8 * x);
        sum += term;
        k += 1;
    }
    return sum / sqrt(TAU * x);
}

INLINE double bessel_i(double x, double order, bool is_scaled) {
    const double size = fabs(x);
    double value;
    if (size < 20) {
        value = (is_scaled ? exp(-size) : 1) * (order == 0 ? 1 : size / 2) * ascending(size, order);
    } else if (size == INFINITE) {
        value = is_scaled ? 0 : INFINITE;
    } else {
        const double half = is_scaled ? 1 : exp(size / 2);
        value = half * scaled_far(size, order) * half;
    }
    return order == 0 ? value : copysign(value, x);
}

INLINE double special_i0(double x) { return bessel_i(x, 0, false); }
INLINE double special_i0e(double x) { return bessel_i(x, 0, true); }
INLINE double special_i1(double x) { return bessel_i(x, 1, false); }
INLINE double special_i1e(double x) { return bessel_i(x, 1, true); }

// ---- other Bessel functions, and Airy's

template <int N> INLINE double near_zero(const double (&c)[N], double x, double reach) {
    const double t = x / reach;
    return chebyshev_series(c, 2 * t * t - 1);
}

// P and Q of Hankel's expansion, times the amplitude; sine and cosine of `x - pi / 4`.
struct Hankel {
    double p, q, sine, cosine;
};

INLINE void sin_cos_shifted(double x, double* sine, double* cosine) {
    double s, c;
    sincos(x, &s, &c);
    *sine = (s - c) * HALF_ROOT;
    *cosine = (s + c) * HALF_ROOT;
}

template <int N, int M> INLINE Hankel hankel(const double (&p)[N], const double (&q)[M], double x) {
    const double t = 8 / x, u = 2 * t * t - 1, amplitude = sqrt(TWO_OVER_PI / x);
    Hankel result;
    result.p = amplitude * chebyshev_series(p, u);
    result.q = amplitude * t * chebyshev_series(q, u);
    sin_cos_shifted(x, &result.sine, &result.cosine);
    return result;
}

INLINE double special_bessel_j0(double x) {
    const double size = fabs(x);
    if (size < 1.0 / 128) {
        const double t = size * size / 4;
        return 1 - t * (1 - t / 4 * (1 - t / 9));
    }
    if (size <= 8) return near_zero(J0_NEAR, size, 8);
    const Hankel h = hankel(P0, Q0, size);
    return h.p * h.cosine - h.q * h.sine;
}

INLINE double special_bessel_j1(double x) {
    const double size = fabs(x);
    if (size <= 8) return x * near_zero(J1_NEAR, size, 8);
    const Hankel h = hankel(P1, Q1, size);
    return (h.p * h.sine + h.q * h.cosine) * copysign(1.0, x);
}

INLINE double special_bessel_y0(double x) {
    if (x == 0) return -INFINITE;
    if (!(x > 0)) return NOT_A_NUMBER;
    if (x <= 8) return TWO_OVER_PI * log(x) * special_bessel_j0(x) + near_zero(Y0_NEAR, x, 8);
    const Hankel h = hankel(P0, Q0, x);
    return h.p * h.sine + h.q * h.cosine;
}

INLINE double special_bessel_y1(double x) {
    if (x == 0) return -INFINITE;
    if (!(x > 0)) return NOT_A_NUMBER;
    if (x <= 8) return TWO_OVER_PI * (log(x) * special_bessel_j1(x) - 1 / x) + x * near_zero(Y1_NEAR, x, 8);
    const Hankel h = hankel(P1, Q1, x);
    return h.q * h.sine - h.p * h.cosine;
}

INLINE double k0_near(double x) { return near_zero(K0_NEAR, x, 2) - log(x / 2) * special_i0(x); }
INLINE double k1_near(double x) { return 1 / x + log(x / 2) * special_i1(x) + x * near_zero(K1_NEAR, x, 2); }

#define MODIFIED(name, scaled_name, near, far_series) \
    INLINE double name(double x) { \
        if (x == 0) return INFINITE; \
        if (!(x > 0)) return NOT_A_NUMBER; \
        return x <= 2 ? near(x) : exp(-x) * (chebyshev_series(far_series, 4 / x - 1) / sqrt(x)); \
    } \
    INLINE double scaled_name(double x) { \
        if (x == 0) return INFINITE; \
        if (!(x > 0)) return NOT_A_NUMBER; \
        return x <= 2 ? near(x) * exp(x) : chebyshev_series(far_series, 4 / x - 1) / sqrt(x); \
    }

MODIFIED(special_modified_bessel_k0, special_scaled_modified_bessel_k0, k0_near, K0_FAR)
MODIFIED(special_modified_bessel_k1, special_scaled_modified_bessel_k1, k1_near, K1_FAR)

INLINE double special_spherical_bessel_j0(double x) {
    if (x == 0) return 1;
    return fabs(x) == INFINITE ? 0 : sin(x) / x;
}

INLINE double airy_phase(double x) { return 2.0 / 3 * x * sqrt(x); }

// The phase as the sum of two numbers, for `x` so large that the rounding of the first one changes sine and cosine.
INLINE double exact_airy_phase(double x, double* low) {
    const double two_thirds_low = 3.700743415417188e-17;
    const double root = sqrt(x), root_low = fma(-root, root, x) / (2 * root);
    const double product = x * root, product_low = fma(x, root, -product) + x * root_low;
    const double z = 2.0 / 3 * product;
    *low = fma(2.0 / 3, product, -z) + 2.0 / 3 * product_low + two_thirds_low * product;
    return z;
}

INLINE double special_airy_ai(double x) {
    if (x == INFINITE) return 0;
    if (x > 2) {
        const double z = airy_phase(x), amplitude = 2 * sqrt(PI) * sqrt(sqrt(x));
        return exp(-z) * chebyshev_series(AIRY_FAR, 2 * airy_phase(2) / z - 1) / amplitude;
    }
    if (x >= -4) return chebyshev_series(AIRY_MIDDLE, (x + 1) / 3);
    double z_low, s, c;
    const double z = exact_airy_phase(-x, &z_low), t = airy_phase(4) / z, u = 2 * t * t - 1;
    sin_cos_shifted(z, &s, &c);
    const double sine = s + z_low * c, cosine = c - z_low * s;
    const double value = chebyshev_series(AIRY_P, u) * cosine + chebyshev_series(AIRY_Q, u) / z * sine;
    return value / (sqrt(PI) * sqrt(sqrt(-x)));
}

// ---- orthogonal polynomials

#define MAX_ORDER 1e5

// Order 0 is 1, order 1 is `first`, and order `k + 1` follows from `k`, `p` and `last`.
#define RECURRENCE(name, first, step) \
    INLINE double name(double x, double n) { \
        const double order = trunc(n); \
        if (x != x || n != n) return NOT_A_NUMBER; \
        if (order < 0) return 0; \
        if (order > MAX_ORDER) return NOT_A_NUMBER; \
        double last = 1, p = first; \
        for (double k = 1; k < order; ++k) { \
            const double next = step; \
            last = p; \
            p = next; \
        } \
        return order == 0 ? 1 : p; \
    }

// Above the largest order from cosines, with x = cos(t).
#define CHEBYSHEV(name, first, far) \
    RECURRENCE(name##_by_recurrence, first, 2 * x * p - last) \
    INLINE double special_##name(double x, double n) { \
        const double order = trunc(n), t = acos(x); \
        if (order > MAX_ORDER && order < INFINITE && fabs(x) <= 1) return far; \
        return name##_by_recurrence(x, n); \
    } \
    INLINE double special_shifted_##name(double x, double n) { return special_##name(2 * x - 1, n); }

CHEBYSHEV(chebyshev_polynomial_t, x, cos(order * t))
CHEBYSHEV(chebyshev_polynomial_u, 2 * x, sin((order + 1) * t) / sin(t))
CHEBYSHEV(chebyshev_polynomial_v, 2 * x - 1, cos((order + 0.5) * t) / cos(t / 2))
CHEBYSHEV(chebyshev_polynomial_w, 2 * x + 1, sin((order + 0.5) * t) / sin(t / 2))
RECURRENCE(special_hermite_polynomial_h, 2 * x, 2 * (x * p - k * last))
RECURRENCE(special_hermite_polynomial_he, x, x * p - k * last)
RECURRENCE(special_laguerre_polynomial_l, 1 - x, ((2 * k + 1 - x) * p - k * last) / (k + 1))
RECURRENCE(special_legendre_polynomial_p, x, ((2 * k + 1) * x * p - k * last) / (k + 1))
