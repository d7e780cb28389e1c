// Rows: a team of `TEAM` threads, a warp or a block, computes one row at a time.

typedef typename computing<T>::type V;

struct Plus {
    template <class X> static INLINE X merge(X a, X b) { return a + b; }
};
// The maximum, or NaN where there is one.
struct Maximum {
    template <class X> static INLINE X merge(X a, X b) { return a != a ? a : (a > b ? a : b); }
};

// What `merge` makes of a value of each thread of the team; every thread gets it.
template <class M, class X> INLINE X team(X x) {
    #pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = M::merge(x, __shfl_xor_sync(0xffffffffu, x, distance));
#if TEAM > 32
    __shared__ X parts[TEAM / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < TEAM / 32; ++i) x = M::merge(x, parts[i]);
#endif
    return x;
}

#define TEAMS (256 / TEAM)
#define LANE ((int)(threadIdx.x % TEAM))
#define ROW ((int64)blockIdx.x * TEAMS + threadIdx.x / TEAM)
