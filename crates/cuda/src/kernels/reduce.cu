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
        if (thread < half) shared[thread] = value = FOLD::merge(value, shared[thread + half]);
    }
    return value;
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
    for (int64 chunk = first; chunk < chunks; chunk += step) sum = FOLD::merge(sum, partials[chunk * outputs + output]);
#ifdef BY_BLOCK
    sum = fold_block(sum);
    if (threadIdx.x > 0) return;
#endif
    write(values, indices, output, FOLD::end(sum, divisor));
}

#else

#if defined(ADJACENT)

// Elements of 16 bytes are read at once; the accumulators of many small ones would not fit the registers.
#define PACK_SIZE (sizeof(T) > 2 ? 16 / (int)sizeof(T) : 8)
#define THREAD_STEP PACK_SIZE

// The elements of one result are adjacent. The order of the sums does not depend on the alignment, by which they are read in packs or not.
INLINE A fold(const char* in, int64 from, int64 to, int64, const Reduced&) {
    typedef Pack<T, PACK_SIZE> P;
    const T* elements = (const T*)in;
    A sums[PACK_SIZE];
    #pragma unroll
    for (int k = 0; k < PACK_SIZE; ++k) sums[k] = FOLD::start();
    const bool is_aligned = (uint64)elements % sizeof(P) == 0;
    #pragma unroll 4
    for (int64 i = from; i < to; i += 256 * PACK_SIZE) {
        if (is_aligned && i + PACK_SIZE <= to) {
            const P pack = *(const P*)(elements + i);
            #pragma unroll
            for (int k = 0; k < PACK_SIZE; ++k) sums[k] = FOLD::take(sums[k], upcast(pack.values[k]), i + k);
        } else {
            #pragma unroll
            for (int k = 0; k < PACK_SIZE; ++k) {
                if (i + k < to) sums[k] = FOLD::take(sums[k], upcast(elements[i + k]), i + k);
            }
        }
    }
    #pragma unroll
    for (int half = PACK_SIZE / 2; half > 0; half /= 2) {
        #pragma unroll
        for (int k = 0; k < half; ++k) sums[k] = FOLD::merge(sums[k], sums[k + half]);
    }
    return sums[0];
}

#else

#define THREAD_STEP 1
#define SUMS 8

INLINE A fold(const char* in, int64 from, int64 to, int64 step, const Reduced& reduced) {
    A sums[SUMS];
    #pragma unroll
    for (int k = 0; k < SUMS; ++k) sums[k] = FOLD::start();
    // Of one dimension all offsets are multiples of its stride.
    const bool has_stride = reduced.rank <= 1;
    const int64 stride = reduced.rank == 0 ? 0 : reduced.stride[0][0];
    int64 i = from;
    for (; i + (SUMS - 1) * step < to; i += SUMS * step) {
        #pragma unroll
        for (int k = 0; k < SUMS; ++k) {
            int64 at = (i + k * step) * stride;
            if (!has_stride) reduced.offsets(i + k * step, &at);
            sums[k] = FOLD::take(sums[k], upcast(*(const T*)(in + at)), i + k * step);
        }
    }
    #pragma unroll
    for (int k = 0; k < SUMS; ++k, i += step) {
        if (i >= to) break;
        int64 at = i * stride;
        if (!has_stride) reduced.offsets(i, &at);
        sums[k] = FOLD::take(sums[k], upcast(*(const T*)(in + at)), i);
    }
    #pragma unroll
    for (int half = SUMS / 2; half > 0; half /= 2) {
        #pragma unroll
        for (int k = 0; k < half; ++k) sums[k] = FOLD::merge(sums[k], sums[k + half]);
    }
    return sums[0];
}

#endif

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
    const A sum = fold_block(fold(in + start, from + threadIdx.x * THREAD_STEP, to, 256, reduced));
    if (threadIdx.x > 0) return;
#else
    const A sum = fold(in + start, from, to, 1, reduced);
#endif
    if (gridDim.y > 1) {
        partials[blockIdx.y * outputs + output] = sum;
    } else {
        write(values, indices, output, FOLD::end(sum, divisor));
    }
}

#endif
