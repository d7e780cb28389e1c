// Reductions. `BY_BLOCK`: a block folds a chunk of one result's elements; else a thread does, for rows that lie apart. Of several chunks
// the accumulators are written, which a second launch folds in their order.

#ifdef BY_BLOCK

// What the threads of a block fold their values to, in a tree; the first thread gets it.
INLINE A fold_block(A value) {
    __shared__ A shared[256];
    const int thread = threadIdx.x;
    shared[thread] = value;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) shared[thread] = FOLD::merge(shared[thread], shared[thread + half]);
    }
    return shared[0];
}

#endif

#ifdef PARTIALS

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 outputs, int64 chunks, const A* partials, R* values, int64* indices, double divisor
) {
#ifdef BY_BLOCK
    const int64 output = blockIdx.x, first = threadIdx.x, step = 256;
#else
    const int64 output = (int64)blockIdx.x * blockDim.x + threadIdx.x, first = 0, step = 1;
    if (output >= outputs) return;
#endif
    A sum = FOLD::start();
    for (int64 chunk = first; chunk < chunks; chunk += step) sum = FOLD::merge(sum, partials[output * chunks + chunk]);
#ifdef BY_BLOCK
    sum = fold_block(sum);
    if (threadIdx.x > 0) return;
#endif
    write(values, indices, output, FOLD::end(sum, divisor));
}

#else

INLINE A fold(const char* in, int64 from, int64 to, int64 step, const Reduced& reduced) {
    A sums[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) sums[k] = FOLD::start();
    int64 i = from;
    for (; i + 3 * step < to; i += 4 * step) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            int64 at;
            reduced.offsets(i + k * step, &at);
            sums[k] = FOLD::take(sums[k], upcast(*(const T*)(in + at)), i + k * step);
        }
    }
    for (int k = 0; i < to; i += step, ++k) {
        int64 at;
        reduced.offsets(i, &at);
        sums[k & 3] = FOLD::take(sums[k & 3], upcast(*(const T*)(in + at)), i);
    }
    return FOLD::merge(FOLD::merge(sums[0], sums[1]), FOLD::merge(sums[2], sums[3]));
}

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 outputs, int64 count, int64 chunk, const char* in, A* partials, R* values, int64* indices, double divisor,
    const __grid_constant__ Kept kept, const __grid_constant__ Reduced reduced
) {
    const int64 from = blockIdx.y * chunk, end = from + chunk, to = end < count ? end : count;
#ifdef BY_BLOCK
    const int64 output = blockIdx.x;
#else
    const int64 output = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (output >= outputs) return;
#endif
    int64 start;
    kept.offsets(output, &start);
#ifdef BY_BLOCK
    const A sum = fold_block(fold(in + start, from + threadIdx.x, to, 256, reduced));
    if (threadIdx.x > 0) return;
#else
    const A sum = fold(in + start, from, to, 1, reduced);
#endif
    if (gridDim.y > 1) {
        partials[output * gridDim.y + blockIdx.y] = sum;
    } else {
        write(values, indices, output, FOLD::end(sum, divisor));
    }
}

#endif
