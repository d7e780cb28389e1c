// Scans: for each element what a fold makes of those up to it. A block scans a chunk of a row; where there are several, the folds of chunks
// are scanned first. The order of the folds depends on sizes alone.

typedef typename computing<T>::type V;

#if defined(RECURRENCE)

// y[i] = x[i] + factor[i] * y[i - 1], or from the end. A factor of 0 ends what came before, unless that is NaN.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, int64 inner, int64 is_reverse, const T* factor, const T* in, T* result
) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 base = row / inner * n * inner + row % inner;
    T last = T(0);
    for (int64 i = 0; i < n; ++i) {
        const int64 at = base + (is_reverse ? n - 1 - i : i) * inner;
        T value = in[at];
        if (i > 0) {
            const T by = factor[is_reverse ? at + inner : at];
            value = value + (by == T(0) && last == last ? T(0) : by * last);
        }
        result[at] = last = value;
    }
}

#else

struct Sum {
    typedef typename summing<R>::type A;
    static INLINE A start() { return A(0); }
    static INLINE A of(V x, int64) { return A(x); }
    static INLINE A merge(A a, A b) { return add(a, b); }
};

struct Product {
    typedef typename summing<R>::type A;
    static INLINE A start() { return A(1); }
    static INLINE A of(V x, int64) { return A(x); }
    static INLINE A merge(A a, A b) { return mul(a, b); }
};

#ifdef WITH_LOGARITHM

struct LogSumExp {
    typedef double A;
    static INLINE A start() { return -(A)INFINITY_F; }
    static INLINE A of(V x, int64) { return A(x); }
    static INLINE A merge(A a, A b) {
        if (a != a || b != b) return (A)NAN_F;
        const A low = a < b ? a : b, high = a < b ? b : a;
        return low == high && high - high != A(0) ? high : high + log1p(exp(low - high));
    }
};

#endif

#ifdef WITH_INDICES

// The extreme element so far, the last of equal ones and of NaN; an index of -1 is that of no element.
struct Extreme {
    V value;
    int64 index;
};

struct Latest {
    typedef Extreme A;
    static INLINE A start() { return {V(0), -1}; }
    static INLINE A of(V x, int64 index) { return {x, index}; }
    static INLINE A merge(A a, A b) {
        if (a.index < 0 || b.value != b.value) return b.index < 0 ? a : b;
        if (b.index < 0 || a.value != a.value) return a;
        return (IS_MAX ? b.value >= a.value : b.value <= a.value) ? b : a;
    }
};

#endif

typedef FOLD::A A;

INLINE void write(R* values, int64* indices, int64 at, A result) {
#ifdef WITH_INDICES
    values[at] = cast<R>(result.value);
    indices[at] = result.index;
#else
    values[at] = cast<R>(result);
#endif
}

// Writes the fold of each chunk to `totals`, if that is given, or else the scan, which begins with the fold of the chunks before.
extern "C" __global__ void __launch_bounds__(TEAM) kernel(
    int64 n, int64 inner, int64 chunk, const T* in, R* values, int64* indices, A* totals, const A* before
) {
    __shared__ A shared[TEAM];
    const int64 row = blockIdx.x, chunks = gridDim.y, part = blockIdx.y;
    const int thread = threadIdx.x;
    const int64 base = row / inner * n * inner + row % inner;
    const int64 end = (part + 1) * chunk < n ? (part + 1) * chunk : n;
    const int64 each = (chunk + TEAM - 1) / TEAM;
    const int64 from = part * chunk + thread * each < end ? part * chunk + thread * each : end;
    const int64 to = from + each < end ? from + each : end;
    A own = FOLD::start();
    for (int64 i = from; i < to; ++i) own = FOLD::merge(own, FOLD::of(upcast(in[base + i * inner]), i));
    shared[thread] = own;
    __syncthreads();
    for (int distance = 1; distance < TEAM; distance *= 2) {
        A other = FOLD::start();
        if (thread >= distance) other = shared[thread - distance];
        __syncthreads();
        if (thread >= distance) shared[thread] = FOLD::merge(other, shared[thread]);
        __syncthreads();
    }
    if (totals) {
        if (thread == TEAM - 1) totals[row * chunks + part] = shared[thread];
        return;
    }
    A last = FOLD::start();
    if (before) {
        for (int64 i = 0; i < part; ++i) last = FOLD::merge(last, before[row * chunks + i]);
    }
    if (thread > 0) last = FOLD::merge(last, shared[thread - 1]);
    for (int64 i = from; i < to; ++i) {
        last = FOLD::merge(last, FOLD::of(upcast(in[base + i * inner]), i));
        write(values, indices, base + i * inner, last);
    }
}

#endif
