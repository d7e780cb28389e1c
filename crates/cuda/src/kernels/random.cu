// Random numbers by counter, with the host's bits (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). A
// thread computes a block of four words of 32 bits, and the elements that are made of them.

INLINE void philox(uint64 seed, uint64 position, uint32* c) {
    c[0] = (uint32)position;
    c[1] = (uint32)(position >> 32);
    c[2] = c[3] = 0;
    uint32 key0 = (uint32)seed, key1 = (uint32)(seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint64 a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
        const uint32 first = (uint32)(b >> 32) ^ c[1] ^ key0, third = (uint32)(a >> 32) ^ c[3] ^ key1;
        c[0] = first;
        c[1] = (uint32)b;
        c[2] = third;
        c[3] = (uint32)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

// Rounded once: to odd before the second rounding, which then errs in no case.
template <class R> INLINE R rounded(double x) {
    if constexpr (same<R, double> || same<R, float>) {
        return (R)x;
    } else {
        const float cut = __double2float_rz(x);
        const uint32 bits = __float_as_uint(cut);
        return cast<R>((double)cut == x || x != x ? cut : __uint_as_float(bits | 1));
    }
}

#if defined(UNIFORM)

// From `first` to below `end`, which rounding may give.
struct Draw {
    double first, width, end, scale;
    int64 shift;
};

INLINE T value(const Draw& d, uint64 word) {
    const double x = d.first + (double)(word >> d.shift) * d.scale * d.width;
    const T result = rounded<T>(x);
    return (double)upcast(result) < d.end ? result : rounded<T>(d.first);
}

#elif defined(BERNOULLI)

struct Draw {
    double limit;
};

INLINE T value(const Draw& d, uint64 word) { return cast<T>((double)word < d.limit); }

#elif defined(NORMAL)

struct Draw {
    double mean, deviation;
};

// A number above 0 and at most 1.
INLINE C uniform(const uint32* words) {
    if constexpr (same<C, double>) {
        const uint64 word = words[0] | (uint64)words[1] << 32;
        return ((double)(word >> 11) + 0.5) * 0x1p-53;
    } else {
        return ((float)words[0] + 0.5f) * 0x1p-32f;
    }
}

#else

// One of `count` integers from `low`, or any of 2^64 where `count` is 0, inside of the bounds unless those are empty.
struct Draw {
    int64 low;
    uint64 count;
    int64 lowest, highest;
};

INLINE T value(const Draw& d, uint64 word) {
    int64 x = (int64)((uint64)d.low + (d.count ? __umul64hi(word, d.count) : word));
    if (d.lowest <= d.highest) x = x < d.lowest ? d.lowest : x > d.highest ? d.highest : x;
    return cast<T>(x);
}

#endif

#if defined(NORMAL)

// The numbers of a block, by the transform of Box and Muller, which makes pairs of them.
INLINE void values(const Draw& d, const uint32* words, T* results) {
    const C mean = (C)d.mean, deviation = (C)d.deviation;
    #pragma unroll
    for (int i = 0; i < 4 / WORDS; i += 2) {
        C first, second;
        normal_pair(uniform(words + i * WORDS), uniform(words + (i + 1) * WORDS), &first, &second);
        results[i] = cast<T>(mean + deviation * first);
        results[i + 1] = cast<T>(mean + deviation * second);
    }
}

#else

INLINE void values(const Draw& d, const uint32* words, T* results) {
    #pragma unroll
    for (int i = 0; i < 4 / WORDS; ++i) {
        const uint64 word = WORDS == 1 ? words[i] : words[2 * i % 4] | (uint64)words[(2 * i + 1) % 4] << 32;
        results[i] = value(d, word);
    }
}

#endif

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 seed, int64 start, T* result, const __grid_constant__ Draw draw
) {
    const int64 block = (int64)blockIdx.x * blockDim.x + threadIdx.x, first = block * (4 / WORDS);
    if (first >= count) return;
    uint32 words[4];
    philox((uint64)seed, (uint64)start + (uint64)block, words);
    T results[4 / WORDS];
    values(draw, words, results);
    #pragma unroll
    for (int i = 0; i < 4 / WORDS; ++i) {
        if (first + i < count) result[first + i] = results[i];
    }
}
