// Where elements belong in sorted sequences, by bisection. NaN is the maximum.

typedef typename computing<T>::type V;

INLINE bool is_less(V a, V b) { return a < b || (b != b && a == a); }

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 n, int64 per_row, int64 is_right, const T* sequences, const T* values, int64* result
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    // All share one sequence where `per_row` is 0.
    const T* sequence = sequences + (per_row ? i / per_row * n : 0);
    const V value = upcast(values[i]);
    int64 low = 0, high = n;
    while (low < high) {
        const int64 middle = (low + high) / 2;
        const V bound = upcast(sequence[middle]);
        if (is_right ? !is_less(value, bound) : is_less(bound, value)) low = middle + 1;
        else high = middle;
    }
    result[i] = low;
}
