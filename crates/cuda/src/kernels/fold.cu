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

typedef FOLD::A A;

// What is written of a result: the value, the index, or both.
INLINE void write(R* values, int64* indices, int64 at, A result) {
#ifdef IS_MAX
    if (values) values[at] = cast<R>(result.value);
    if (indices) indices[at] = result.index;
#else
    values[at] = cast<R>(result);
#endif
}
