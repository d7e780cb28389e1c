
// ---- complex numbers

template <class R> struct alignas(2 * sizeof(R)) complex_of {
    R re, im;
    complex_of() = default;
    INLINE complex_of(R real) : re(real), im(R(0)) {}
    INLINE complex_of(R real, R imaginary) : re(real), im(imaginary) {}
    template <class S> INLINE explicit complex_of(complex_of<S> z) : re(R(z.re)), im(R(z.im)) {}
    // A real number is made of the real part.
    INLINE explicit operator float() const { return re; }
    INLINE explicit operator double() const { return re; }
    INLINE explicit operator int64() const { return (int64)re; }
};
typedef complex_of<float> complex64;
typedef complex_of<double> complex128;

// They have the operators of real numbers but for an order.
template <class R> constexpr bool is_real<complex_of<R>> = true;
template <class R> struct summing<complex_of<R>> { typedef complex_of<R> type; };

#define COMPLEX template <class R> INLINE

COMPLEX complex_of<R> operator+(complex_of<R> a, complex_of<R> b) { return {a.re + b.re, a.im + b.im}; }
COMPLEX complex_of<R> operator-(complex_of<R> a, complex_of<R> b) { return {a.re - b.re, a.im - b.im}; }
COMPLEX complex_of<R> operator-(complex_of<R> a) { return {-a.re, -a.im}; }
COMPLEX complex_of<R> operator*(complex_of<R> a, complex_of<R> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// By the part of the divisor that is larger (Smith, "Algorithm 116: Complex division", 1962). A real divisor divides each part.
COMPLEX complex_of<R> operator/(complex_of<R> a, complex_of<R> b) {
    if (b.im == R(0)) return {a.re / b.re, a.im / b.re};
    if (magnitude(b.re) >= magnitude(b.im)) {
        const R ratio = b.im / b.re, size = b.re + b.im * ratio;
        return {(a.re + a.im * ratio) / size, (a.im - a.re * ratio) / size};
    }
    const R ratio = b.re / b.im, size = b.re * ratio + b.im;
    return {(a.re * ratio + a.im) / size, (a.im * ratio - a.re) / size};
}
COMPLEX complex_of<R>& operator+=(complex_of<R>& a, complex_of<R> b) { return a = a + b; }
COMPLEX bool operator==(complex_of<R> a, complex_of<R> b) { return a.re == b.re && a.im == b.im; }
COMPLEX bool operator!=(complex_of<R> a, complex_of<R> b) { return a.re != b.re || a.im != b.im; }
COMPLEX complex_of<R> mul_add(complex_of<R> x, complex_of<R> factor, complex_of<R> term) { return term + x * factor; }
// The sum of squares of complex numbers is that of their absolute values, but the fold of it has to compile for them too.
COMPLEX complex_of<R> sqrt_or_same(complex_of<R> z) { return z; }
COMPLEX complex_of<R> conjugate(complex_of<R> z) { return {z.re, -z.im}; }

#undef COMPLEX
