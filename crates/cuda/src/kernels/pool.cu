// Pooling over three spatial dimensions: the maximum of each window with its index, or the mean; and the gradients, for which each element
// of the input asks which windows have it, so that sums have one order.

struct Windows {
    int64 input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
    int64 is_adaptive, counts_padding, divisor;
};

typedef typename computing<T>::type V;
typedef typename summing<T>::type A;

// The elements of a window along a dimension: from `first` to before `end`, `step` apart; `counted` is its share of the divisor.
struct Range {
    int64 first, end, step, counted;
};

INLINE Range window(const Windows& w, int d, int64 o) {
    Range range;
    const int64 size = w.input[d];
    if (w.is_adaptive) {
        range.first = o * size / w.output[d];
        range.end = ((o + 1) * size + w.output[d] - 1) / w.output[d];
        range.step = 1;
        range.counted = range.end - range.first;
        return range;
    }
    range.first = o * w.stride[d] - w.padding[d];
    range.step = w.dilation[d];
    range.end = range.first + (w.kernel[d] - 1) * range.step + 1;
    const int64 padded_end = size + w.padding[d];
    range.counted = (range.end < padded_end ? range.end : padded_end) - range.first;
    if (range.first < 0) range.first += (-range.first + range.step - 1) / range.step * range.step;
    if (range.end > size) range.end = size;
    if (!w.counts_padding) range.counted = range.end - range.first;
    return range;
}

// The windows along a dimension that may have the element `x`.
INLINE Range windows_of(const Windows& w, int d, int64 x) {
    Range range;
    range.step = 1;
    if (w.is_adaptive) {
        range.first = x * w.output[d] / w.input[d];
        range.end = ((x + 1) * w.output[d] + w.input[d] - 1) / w.input[d];
        return range;
    }
    const int64 from = x + w.padding[d] - (w.kernel[d] - 1) * w.dilation[d];
    range.first = from <= 0 ? 0 : (from + w.stride[d] - 1) / w.stride[d];
    range.end = (x + w.padding[d]) / w.stride[d] + 1;
    if (range.end > w.output[d]) range.end = w.output[d];
    return range;
}

INLINE int64 split(int64 i, const int64* sizes, int64* at) {
    #pragma unroll
    for (int d = 2; d >= 0; --d) {
        at[d] = i % sizes[d];
        i /= sizes[d];
    }
    return i;
}

#if defined(BACKWARD)

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, const T* grad, const int64* indices, T* result, const __grid_constant__ Windows w
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int64 x[3];
    const int64 plane = split(i, w.input, x);
    const int64 own = (x[0] * w.input[1] + x[1]) * w.input[2] + x[2];
    const Range r0 = windows_of(w, 0, x[0]), r1 = windows_of(w, 1, x[1]), r2 = windows_of(w, 2, x[2]);
    A sum = A(0);
    for (int64 o0 = r0.first; o0 < r0.end; ++o0)
        for (int64 o1 = r1.first; o1 < r1.end; ++o1)
            for (int64 o2 = r2.first; o2 < r2.end; ++o2) {
                const int64 at = ((plane * w.output[0] + o0) * w.output[1] + o1) * w.output[2] + o2;
                const A g = A(upcast(grad[at]));
#ifdef MAXIMUM
                if (indices[at] == own) sum = add(sum, g);
#else
                int64 counted = w.divisor;
                if (counted == 0) counted = window(w, 0, o0).counted * window(w, 1, o1).counted * window(w, 2, o2).counted;
                sum = add(sum, A(g / A(counted)));
#endif
            }
    result[i] = cast<T>(sum);
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, const T* in, T* values, int64* indices, const __grid_constant__ Windows w
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int64 o[3];
    const int64 plane = split(i, w.output, o);
    const Range r0 = window(w, 0, o[0]), r1 = window(w, 1, o[1]), r2 = window(w, 2, o[2]);
    const T* from = in + plane * w.input[0] * w.input[1] * w.input[2];
#ifdef MAXIMUM
    V best = V(0);
    int64 found = -1;
#else
    A sum = A(0);
#endif
    for (int64 x0 = r0.first; x0 < r0.end; x0 += r0.step)
        for (int64 x1 = r1.first; x1 < r1.end; x1 += r1.step)
            for (int64 x2 = r2.first; x2 < r2.end; x2 += r2.step) {
                const int64 at = (x0 * w.input[1] + x1) * w.input[2] + x2;
                const V x = upcast(from[at]);
#ifdef MAXIMUM
                // The first of equal elements, and the last NaN.
                if (found < 0 || x > best || x != x) {
                    best = x;
                    found = at;
                }
#else
                sum = add(sum, A(x));
#endif
            }
#ifdef MAXIMUM
    values[i] = cast<T>(best);
    indices[i] = found;
#else
    const int64 counted = w.divisor ? w.divisor : r0.counted * r1.counted * r2.counted;
    values[i] = cast<T>(A(sum / A(counted)));
#endif
}

#endif
