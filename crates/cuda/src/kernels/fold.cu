// The folds of reductions: T is the type of an element, R that of a result.

struct Sum {
    typedef typename summing<R>::type A;
    static INLINE A start() { return A(0); }
    static INLINE A take(A sum, typename computing<T>::type x, int64) { return sum + A(x); }
    static INLINE A merge(A a, A b) { return a + b; }
    static INLINE A end(A sum, double divisor) { return divisor == 1 ? sum : A(sum / A(divisor)); }
};

INLINE float sqrt_or_same(float x) { return root(x); }
INLINE double sqrt_or_same(double x) { return root(x); }
INLINE int64 sqrt_or_same(int64 x) { return x; }

struct SumOfSquares {
    typedef typename summing<R>::type A;
    static INLINE A start() { return A(0); }
    static INLINE A take(A sum, typename computing<T>::type x, int64) { return sum + A(x) * A(x); }
    static INLINE A merge(A a, A b) { return a + b; }
    static INLINE A end(A sum, double) { return sqrt_or_same(sum); }
};

struct Product {
    typedef typename summing<R>::type A;
    static INLINE A start() { return A(1); }
    static INLINE A take(A product, typename computing<T>::type x, int64) { return mul(product, A(x)); }
    static INLINE A merge(A a, A b) { return mul(a, b); }
    static INLINE A end(A product, double) { return product; }
};

// The sum of what is not NaN.
struct NanSum {
    typedef typename summing<R>::type A;
    static INLINE A start() { return A(0); }
    static INLINE A take(A sum, typename computing<T>::type x, int64) { return x == x ? sum + A(x) : sum; }
    static INLINE A merge(A a, A b) { return a + b; }
    static INLINE A end(A sum, double) { return sum; }
};

struct Any {
    typedef bool A;
    static INLINE A start() { return false; }
    static INLINE A take(A any, typename computing<T>::type x, int64) { return any || x != typename computing<T>::type(0); }
    static INLINE A merge(A a, A b) { return a || b; }
    static INLINE A end(A any, double) { return any; }
};

struct All {
    typedef bool A;
    static INLINE A start() { return true; }
    static INLINE A take(A all, typename computing<T>::type x, int64) { return all && x != typename computing<T>::type(0); }
    static INLINE A merge(A a, A b) { return a && b; }
    static INLINE A end(A all, double) { return all; }
};

#ifdef IS_MAX

// An element and its index. An index of -1 is that of no element.
struct Extreme {
    typename computing<T>::type value;
    int64 index;
};

// The extreme element, the first of equal ones; NaN before all others. `IS_MAX` says which extreme.
struct Arg {
    typedef Extreme A;
    static INLINE A start() { return {typename computing<T>::type(0), -1}; }
    static INLINE bool precedes(A a, A b) {
        if (b.index < 0) return true;
        if (a.index < 0) return false;
        const bool is_nan = a.value != a.value, other_is_nan = b.value != b.value;
        if (is_nan || other_is_nan) return is_nan && (!other_is_nan || a.index < b.index);
        if (a.value == b.value) return a.index < b.index;
        return IS_MAX ? a.value > b.value : a.value < b.value;
    }
    static INLINE A merge(A a, A b) { return precedes(a, b) ? a : b; }
    static INLINE A take(A best, typename computing<T>::type x, int64 index) { return merge(best, A{x, index}); }
    static INLINE A end(A best, double) { return best; }
};

#endif

#ifdef IS_ROOT

// The mean, the sum of squared deviations from it, and how many elements they are of (Chan, Golub and LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979).
struct Deviations {
    typename summing<R>::type mean, squares;
    int64 count;
};

// The variance, or its root if `IS_ROOT`.
struct Moments {
    typedef Deviations A;
    typedef typename summing<R>::type V;
    static INLINE A start() { return {V(0), V(0), 0}; }
    static INLINE A take(A a, typename computing<T>::type x, int64) {
        const V delta = V(x) - a.mean, mean = a.mean + delta / V(a.count + 1);
        return {mean, a.squares + delta * (V(x) - mean), a.count + 1};
    }
    static INLINE A merge(A a, A b) {
        if (b.count == 0) return a;
        if (a.count == 0) return b;
        const int64 count = a.count + b.count;
        const V delta = b.mean - a.mean, share = V(b.count) / V(count);
        return {a.mean + delta * share, a.squares + b.squares + delta * delta * V(a.count) * share, count};
    }
    static INLINE A end(A a, double correction) {
        const double rest = double(a.count) - correction;
        const V variance = a.squares / V(rest > 0 ? rest : 0);
        return {a.count ? a.mean : V(NAN_F), IS_ROOT ? root(variance) : variance, a.count};
    }
};

#endif

typedef FOLD::A A;

// What is written of a result: the value, the index, or both. The second of a variance is the mean.
INLINE void write(R* values, int64* indices, int64 at, A result) {
#if defined(IS_ROOT)
    if (values) values[at] = cast<R>(result.squares);
    if (indices) ((R*)indices)[at] = cast<R>(result.mean);
#elif defined(IS_MAX)
    if (values) values[at] = cast<R>(result.value);
    if (indices) indices[at] = result.index;
#else
    values[at] = cast<R>(result);
#endif
}
