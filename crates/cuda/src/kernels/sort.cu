// Rows in sorted order, with the indices of their elements: tiles of a row, then merges of adjacent runs. Each element counts how many go
// before it, so equal ones keep their order. NaN is the maximum.

typedef typename computing<T>::type V;

INLINE bool is_less(V a, V b) { return a < b || (b != b && a == a); }
// Whether `a` goes before `b` if that comes first.
INLINE bool precedes(V a, V b) { return DESCENDING ? is_less(b, a) : is_less(a, b); }

#ifdef MERGE

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 n, int64 width, const T* in, const int64* in_indices, T* values, int64* indices
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64 row = i / n, at = i % n, run = at / width, pair = run / 2 * 2 * width;
    const bool is_second = run % 2;
    const T* from = in + row * n;
    const V own = upcast(from[at]);
    // The other run of the pair, in which the elements before this one are counted by bisection.
    const int64 start = is_second ? pair : pair + width;
    int64 low = start < n ? start : n, high = start + width < n ? start + width : n;
    const int64 first = low;
    while (low < high) {
        const int64 middle = (low + high) / 2;
        const V other = upcast(from[middle]);
        if (is_second ? !precedes(own, other) : precedes(other, own)) low = middle + 1;
        else high = middle;
    }
    const int64 to = row * n + pair + (at - run * width) + (low - first);
    values[to] = from[at];
    indices[to] = in_indices[i];
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 n, int64 tiles, const T* in, T* values, int64* indices
) {
    __shared__ V tile[256];
    const int64 row = blockIdx.x / tiles, first = blockIdx.x % tiles * 256;
    const int count = n - first < 256 ? (int)(n - first) : 256, thread = threadIdx.x;
    const T* from = in + row * n + first;
    if (thread < count) tile[thread] = upcast(from[thread]);
    __syncthreads();
    if (thread >= count) return;
    const V own = tile[thread];
    int rank = 0;
    for (int i = 0; i < count; ++i) {
        rank += i < thread ? !precedes(own, tile[i]) : precedes(tile[i], own);
    }
    const int64 to = row * n + first + rank;
    values[to] = from[thread];
    indices[to] = first + thread;
}

#endif
