// Fourier transforms of the rows of a matrix of complex numbers, one factor of their length at a time (Stockham's order, in which no pass
// permutes). `ROOTS` and `CHIRP` make the tables of roots of unity.

typedef decltype(T::re) R;

#if defined(ROOTS)

// The powers of the first root of order `n`, exp(-2 pi i / n).
extern "C" __global__ void __launch_bounds__(256) kernel(int64 n, T* roots) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double sine, cosine;
    sincospi(2.0 * (double)i / (double)n, &sine, &cosine);
    roots[i] = T(R(cosine), R(-sine));
}

#elif defined(CHIRP)

// exp(-pi i k^2 / n), whose angle is reduced exactly.
extern "C" __global__ void __launch_bounds__(256) kernel(int64 n, T* chirp) {
    const int64 k = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    double sine, cosine;
    sincospi((double)((uint64)k * (uint64)k % (uint64)(2 * n)) / (double)n, &sine, &cosine);
    chirp[k] = T(R(cosine), R(-sine));
}

#else

// A thread computes one result of one pass: the sum of `radix` elements times roots of unity. `stride` is the product of the factors before.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 n, int64 radix, int64 stride, int64 backward, const T* in, const T* roots, T* out
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64 at = i % n, part = at / stride, column = part % radix, position = part / radix;
    const int64 apart = n / radix;
    const T* from = in + (i - at) + at % stride + stride * position;
    // Exponents of the roots: that of the first element, and from one element to the next.
    int64 exponent = stride * position * column % n;
    const int64 step = apart * column % n;
    T sum = T(R(0));
    for (int64 j = 0; j < radix; ++j) {
        const T root = roots[exponent];
        sum = mul_add(from[j * apart], backward ? conjugate(root) : root, sum);
        exponent += step;
        if (exponent >= n) exponent -= n;
    }
    out[i] = sum;
}

#endif
