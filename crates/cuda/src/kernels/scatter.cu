// Elements by index. `TARGETS`: the offset that each index names. `COMPACT`: the indices of what a mask has. Otherwise each target folds
// the elements whose index names it, which are adjacent after a stable sort, in their order.

#if defined(TARGETS)

// An index out of range is reported, and its offset is -1. With `previous`, offsets are added to those of other indices.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 size, int64 stride, int64 wraps, const char* index, const int64* previous, int64* result,
    int64* fault, int64 number, const __grid_constant__ Layout layout
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int64 at[2];
    layout.offsets(i, at);
    const int64 given = *(const int64*)(index + at[1]), target = wraps && given < 0 ? given + size : given;
    const int64 before = previous ? previous[i] : 0;
    const bool is_inside = target >= 0 && target < size;
    if (!is_inside) report_fault(fault, number, given, size);
    result[i] = is_inside && before >= 0 ? before + at[0] + target * stride : -1;
}

#elif defined(COMPACT)

// `positions` counts what the mask has up to each element.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, const uint8* mask, const int64* positions, int64* result
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && mask[i]) result[positions[i] - 1] = i;
}

#else

typedef typename summing<T>::type A;
typedef typename computing<T>::type V;

struct Assign {
    static INLINE T merge(T, T x) { return x; }
    typedef T Sum;
    static INLINE T of(T x) { return x; }
    static INLINE T end(T x) { return x; }
};
struct Add {
    typedef A Sum;
    static INLINE A of(T x) { return A(upcast(x)); }
    static INLINE A merge(A a, A b) { return add(a, b); }
    static INLINE T end(A a) { return cast<T>(a); }
};
struct Multiply {
    typedef A Sum;
    static INLINE A of(T x) { return A(upcast(x)); }
    static INLINE A merge(A a, A b) { return mul(a, b); }
    static INLINE T end(A a) { return cast<T>(a); }
};
struct Larger {
    typedef V Sum;
    static INLINE V of(T x) { return upcast(x); }
    template <class X> static INLINE X merge(X a, X b) { return a != a ? a : (b != b || b > a ? b : a); }
    static INLINE T end(V a) { return cast<T>(a); }
};
struct Lesser {
    typedef V Sum;
    static INLINE V of(T x) { return upcast(x); }
    template <class X> static INLINE X merge(X a, X b) { return a != a ? a : (b != b || b < a ? b : a); }
    static INLINE T end(V a) { return cast<T>(a); }
};

// `step` is 0 if one element is for all.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 step, const int64* targets, const int64* order, const T* source, T* result
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64 target = targets[i];
    if (target < 0 || (i > 0 && targets[i - 1] == target)) return;
    FOLD::Sum sum = FOLD::of(result[target]);
    for (int64 k = i; k < count && targets[k] == target; ++k) sum = FOLD::merge(sum, FOLD::of(source[order[k] * step]));
    result[target] = FOLD::end(sum);
}

#endif
