// Arguments of sines modulo pi/2, exactly, however large they are, with the host's bits: after Payne and Hanek (1983), as in
// `crates/vectorized/src/math/payne_hanek.rs`. An argument is `quadrant * pi/2 + high + low` modulo 2 pi.

// The binary digits of 2/pi after the point, 64 to a word; the first word is before it.
static __device__ const uint64 TWO_OVER_PI_DIGITS[21] = {
    0ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull, 0xf0cfbc209af4361dull
};

struct Reduced { double quadrant, high, low; };

// 64 digits from `start` on.
INLINE uint64 digits_of_two_over_pi(int start) {
    const int index = start / 64, shift = start % 64;
    const uint64 first = index < 21 ? TWO_OVER_PI_DIGITS[index] : 0;
    const uint64 second = index < 20 ? TWO_OVER_PI_DIGITS[index + 1] : 0;
    return shift == 0 ? first : first << shift | second >> (64 - shift);
}

// `2^64 high + low`, rounded once.
INLINE double rounded_128(uint64 high, uint64 low) {
    if (high == 0) return (double)low;
    const int zeros = __clzll((int64)high);
    const uint64 top = zeros == 0 ? high : high << zeros | low >> (64 - zeros);
    // The last of 64 digits, below those that are kept, says whether there are more.
    const double value = (double)(top | (low << zeros != 0));
    return ldexp(value, 64 - zeros);
}

// The same of a negative number too, as two's complement.
INLINE double rounded_signed_128(uint64 high, uint64 low) {
    if ((int64)high >= 0) return rounded_128(high, low);
    const uint64 other = 0 - low;
    return -rounded_128(~high + (other == 0), other);
}

// The integer nearest to a number of 53 digits, as two's complement; numbers are less than 2^128.
INLINE void to_128(double x, uint64* high, uint64* low) {
    const double size = fabs(x), upper = floor(size * 0x1p-64);
    uint64 h = (uint64)upper, l = (uint64)(size - upper * 0x1p64);
    if (x < 0) {
        l = 0 - l;
        h = ~h + (l == 0);
    }
    *high = h;
    *low = l;
}

INLINE Reduced reduced_exactly(double x) {
    const uint64 bits = to_bits(x);
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
    Reduced result;
    if (exponent == 0x7ff - 1075 || exponent < -52) {
        result.quadrant = 0;
        result.high = result.low = (double)NAN_F;
        return result;
    }
    // The product of the significand with 192 digits, modulo 2^192.
    const uint64 significand = (bits & 0xfffffffffffffull) | 1ull << 52;
    const int start = exponent - 2 + 64;
    const uint64 last = digits_of_two_over_pi(start + 128), middle = digits_of_two_over_pi(start + 64);
    const uint64 p2 = significand * last, carry = __umul64hi(significand, last);
    const uint64 p1 = significand * middle + carry;
    const uint64 p0 = significand * digits_of_two_over_pi(start) + __umul64hi(significand, middle) + (p1 < carry);
    // The top two bits are the quadrant; the rest is a signed fraction of one once they are shifted out.
    const uint64 high = p0 << 2 | p1 >> 62, low = p1 << 2 | p2 >> 62;
    const int quadrant = ((int)(p0 >> 62) + (int)(high >> 63)) & 3;
    const double whole = rounded_signed_128(high, low);
    uint64 whole_high, whole_low;
    to_128(whole, &whole_high, &whole_low);
    const double rest = rounded_signed_128(high - whole_high - (low < whole_low), low - whole_low);
    const double first = whole * 0x1p-128, second = rest * 0x1p-128;
    const double quarter = 1.5707963267948966, quarter_low = 6.123233995736766e-17;
    const double near = first * quarter;
    const double left = fma(first, quarter, -near) + (first * quarter_low + second * quarter);
    result.quadrant = (double)(x < 0 ? (4 - quadrant) & 3 : quadrant);
    result.high = x < 0 ? -near : near;
    result.low = x < 0 ? -left : left;
    return result;
}

// Formulas use the results for larger arguments only, up to this size they have shorter ways.
#define SMALL_ARGUMENT 65536

template <class T> INLINE T reduced_quadrant(T x) {
    if (magnitude(x) <= T(SMALL_ARGUMENT)) return T(0);
    return (T)reduced_exactly((double)x).quadrant;
}
template <class T> INLINE T reduced_high(T x) {
    if (magnitude(x) <= T(SMALL_ARGUMENT)) return T(0);
    return (T)reduced_exactly((double)x).high;
}
template <class T> INLINE T reduced_low(T x) {
    if (magnitude(x) <= T(SMALL_ARGUMENT)) return T(0);
    const Reduced r = reduced_exactly((double)x);
    return (T)((r.high - (double)(T)r.high) + r.low);
}
