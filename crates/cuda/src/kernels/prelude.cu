// What every program begins with: element types, conversions, arithmetic as on the host. There are no headers.

typedef unsigned char uint8;
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned int uint32;
typedef unsigned long long uint64;

struct float16 { unsigned short bits; };
struct bfloat16 { unsigned short bits; };
struct boolean { uint8 byte; };

#define INLINE __device__ __forceinline__
#define INFINITY_F __int_as_float(0x7f800000)
#define NAN_F __int_as_float(0x7fc00000)

template <class A, class B> struct same_types { static const bool value = false; };
template <class A> struct same_types<A, A> { static const bool value = true; };
template <class A, class B> constexpr bool same = same_types<A, B>::value;
template <class T> constexpr bool is_real = same<T, float> || same<T, double>;

// The type in which elements of a type are computed.
template <class T> struct computing { typedef T type; };
template <> struct computing<float16> { typedef float type; };
template <> struct computing<bfloat16> { typedef float type; };
template <> struct computing<boolean> { typedef bool type; };

// The type in which they are summed.
template <class T> struct summing { typedef int64 type; };
template <> struct summing<float16> { typedef float type; };
template <> struct summing<bfloat16> { typedef float type; };
template <> struct summing<float> { typedef float type; };
template <> struct summing<double> { typedef double type; };

template <class T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<int8> { typedef uint8 type; };
template <> struct unsigned_of<int16> { typedef unsigned short type; };
template <> struct unsigned_of<int32> { typedef uint32 type; };
template <> struct unsigned_of<int64> { typedef uint64 type; };

// ---- loads, stores and conversions

template <class T> INLINE T upcast(T x) { return x; }
INLINE bool upcast(boolean x) { return x.byte != 0; }
INLINE float upcast(float16 x) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}
INLINE float upcast(bfloat16 x) { return __uint_as_float((uint32)x.bits << 16); }

INLINE float16 float16_of(float x) {
    float16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(x));
    return half;
}
INLINE bfloat16 bfloat16_of(float x) {
    uint32 bits = __float_as_uint(x);
    bfloat16 half;
    half.bits = x != x ? 0x7fc0 : (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    return half;
}

// A value of any computing type as an element of type T.
template <class T, class V> INLINE T cast(V x) {
    if constexpr (same<T, boolean>) {
        boolean truth;
        truth.byte = x != V(0);
        return truth;
    } else if constexpr (same<T, float16>) {
        return float16_of((float)x);
    } else if constexpr (same<T, bfloat16>) {
        return bfloat16_of((float)x);
    } else if constexpr (is_real<V> && !is_real<T>) {
        return (T)(int64)x;
    } else {
        return (T)x;
    }
}

template <class T, class M> INLINE typename computing<T>::type convert(M x) {
    if constexpr (same<T, M>) {
        return upcast(x);
    } else {
        return upcast(cast<T>(upcast(x)));
    }
}

// A result of type `K`, as an element of type T in memory.
template <class T, class K, class V> INLINE T finish(V x) {
    if constexpr (same<T, K>) {
        return cast<T>(x);
    } else {
        return cast<T>(upcast(cast<K>(x)));
    }
}

template <class T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

// ---- arithmetic: integers wrap, and bools compute with or, and, exclusive or

#define UNSIGNED(T) typename unsigned_of<T>::type

template <class T> INLINE T add(T a, T b) {
    if constexpr (is_real<T>) return a + b;
    else return T(UNSIGNED(T)(a) + UNSIGNED(T)(b));
}
template <> INLINE bool add(bool a, bool b) { return a || b; }
template <class T> INLINE T sub(T a, T b) {
    if constexpr (is_real<T>) return a - b;
    else return T(UNSIGNED(T)(a) - UNSIGNED(T)(b));
}
template <> INLINE bool sub(bool a, bool b) { return a != b; }
template <class T> INLINE T mul(T a, T b) {
    if constexpr (is_real<T>) return a * b;
    else return T(uint64(a) * uint64(b));
}
template <> INLINE bool mul(bool a, bool b) { return a && b; }
template <class T> INLINE T div(T a, T b) { return a / b; }
template <class T> INLINE T neg(T a) {
    if constexpr (is_real<T>) return -a;
    else return T(UNSIGNED(T)(0) - UNSIGNED(T)(a));
}
template <> INLINE bool neg(bool a) { return a; }

template <class T> INLINE bool eq(T a, T b) { return a == b; }
template <class T> INLINE bool ne(T a, T b) { return a != b; }
template <class T> INLINE bool lt(T a, T b) { return a < b; }
template <class T> INLINE bool le(T a, T b) { return a <= b; }
template <class T> INLINE T select(bool mask, T yes, T no) { return mask ? yes : no; }
template <class T> INLINE T lesser(T a, T b) { return a < b ? a : b; }
template <class T> INLINE T larger(T a, T b) { return a > b ? a : b; }
template <class T> INLINE T magnitude(T a) { return a < T(0) ? neg(a) : a; }
template <> INLINE float magnitude(float a) { return fabsf(a); }
template <> INLINE double magnitude(double a) { return fabs(a); }
template <> INLINE bool magnitude(bool a) { return a; }
INLINE bool mask_and(bool a, bool b) { return a && b; }
INLINE bool mask_or(bool a, bool b) { return a || b; }
INLINE bool mask_not(bool a) { return !a; }

// ---- integers

template <class T> INLINE T bit_and(T a, T b) { return T(a & b); }
template <class T> INLINE T bit_or(T a, T b) { return T(a | b); }
template <class T> INLINE T bit_xor(T a, T b) { return T(a ^ b); }
template <class T> INLINE T bit_not(T a) { return T(~a); }
template <> INLINE bool bit_not(bool a) { return !a; }
template <class T> INLINE T shl(T a, T by) {
    const int width = 8 * sizeof(T);
    return by < T(0) || (int64)by >= width ? T(0) : T(UNSIGNED(T)(a) << (int)by);
}
template <> INLINE bool shl(bool a, bool by) { return a && !by; }
template <class T> INLINE T shr(T a, T by) {
    const int last = 8 * sizeof(T) - 1;
    if (by < T(0) || (int64)by > last) return T(-1) > T(0) ? T(0) : T(a >> last);
    return T(a >> (int)by);
}
template <> INLINE bool shr(bool a, bool by) { return a && !by; }
template <class T> INLINE T div_trunc(T a, T b) {
    if (b == T(0)) return T(0);
    if (T(-1) < T(0) && b == T(-1)) return neg(a);
    return T(a / b);
}
template <> INLINE bool div_trunc(bool a, bool b) { return a && b; }
template <class T> INLINE T remainder_trunc(T a, T b) {
    if (b == T(0) || (T(-1) < T(0) && b == T(-1))) return T(0);
    return T(a % b);
}
template <> INLINE bool remainder_trunc(bool, bool) { return false; }
template <class T> INLINE T div_floor(T a, T b) {
    T quotient = div_trunc(a, b), rest = sub(a, mul(quotient, b));
    bool down = b != T(0) && rest != T(0) && ((rest < T(0)) != (b < T(0)));
    return sub(quotient, T(down));
}
template <> INLINE bool div_floor(bool a, bool b) { return a && b; }
template <class T> INLINE T remainder_floor(T a, T b) {
    T rest = remainder_trunc(a, b);
    return rest != T(0) && ((rest < T(0)) != (b < T(0))) ? add(rest, b) : rest;
}
template <> INLINE bool remainder_floor(bool, bool) { return false; }

template <class T> INLINE T gcd_of(T a, T b) {
    T high = magnitude(a), low = magnitude(b);
    while (low != T(0)) {
        const T rest = remainder_trunc(high, low);
        high = low;
        low = rest;
    }
    // Remainders of the smallest integer, whose magnitude wraps, are negative.
    return magnitude(high);
}
template <class T> INLINE T lcm_of(T a, T b) { return magnitude(mul(div_trunc(a, gcd_of(a, b)), b)); }
// By repeated squaring. For negative exponents the result is truncated.
template <class T> INLINE T power_of(T base, T exponent) {
    if (exponent < T(0)) {
        if (base == T(1)) return base;
        return base == T(-1) ? ((exponent & T(1)) ? base : T(1)) : T(0);
    }
    T result = T(1), square = base;
    for (T left = exponent; left > T(0); left = T(left >> 1)) {
        if (left & T(1)) result = mul(result, square);
        square = mul(square, square);
    }
    return result;
}

// ---- bits of floating point numbers

template <class T> struct bits_of { typedef uint64 type; };
template <> struct bits_of<float> { typedef uint32 type; };
INLINE uint32 to_bits(float x) { return __float_as_uint(x); }
INLINE uint64 to_bits(double x) { return (uint64)__double_as_longlong(x); }
INLINE float from_bits(uint32 bits) { return __uint_as_float(bits); }
INLINE double from_bits(uint64 bits) { return __longlong_as_double((int64)bits); }

// ---- functions of floating point numbers

#define FUNCTION(name, of_float, of_double) \
    INLINE float name(float x) { return of_float(x); } \
    INLINE double name(double x) { return of_double(x); }

FUNCTION(root, sqrtf, sqrt)
FUNCTION(round_down, floorf, floor)
FUNCTION(round_up, ceilf, ceil)
FUNCTION(round_even, rintf, rint)
FUNCTION(round_to_zero, truncf, trunc)
FUNCTION(exp_of, expf, exp)
FUNCTION(exp2_of, exp2f, exp2)
FUNCTION(expm1_of, expm1f, expm1)
FUNCTION(log_of, logf, log)
FUNCTION(log2_of, log2f, log2)
FUNCTION(log10_of, log10f, log10)
FUNCTION(log1p_of, log1pf, log1p)
FUNCTION(sin_of, sinf, sin)
FUNCTION(cos_of, cosf, cos)
FUNCTION(tan_of, tanf, tan)
FUNCTION(asin_of, asinf, asin)
FUNCTION(acos_of, acosf, acos)
FUNCTION(atan_of, atanf, atan)
FUNCTION(tanh_of, tanhf, tanh)
FUNCTION(sinh_of, sinhf, sinh)
FUNCTION(cosh_of, coshf, cosh)
FUNCTION(asinh_of, asinhf, asinh)
FUNCTION(acosh_of, acoshf, acosh)
FUNCTION(atanh_of, atanhf, atanh)
FUNCTION(erf_of, erff, erf)
FUNCTION(erfc_of, erfcf, erfc)
FUNCTION(erfcx_of, erfcxf, erfcx)

INLINE float mul_add(float x, float factor, float term) { return fmaf(x, factor, term); }
INLINE double mul_add(double x, double factor, double term) { return fma(x, factor, term); }
INLINE int64 mul_add(int64 x, int64 factor, int64 term) { return add(term, mul(x, factor)); }
INLINE float pow_of(float x, float exponent) { return powf(x, exponent); }
INLINE double pow_of(double x, double exponent) { return pow(x, exponent); }
INLINE float fmod_of(float x, float by) { return fmodf(x, by); }
INLINE double fmod_of(double x, double by) { return fmod(x, by); }
INLINE float with_sign(float x, float sign) { return copysignf(x, sign); }
INLINE double with_sign(double x, double sign) { return copysign(x, sign); }
INLINE float scale(float x, float n) { return ldexpf(x, (int)n); }
INLINE double scale(double x, double n) { return ldexp(x, (int)n); }
template <class T> INLINE T scale_floor(T x, T n) { return scale(x, round_down(n)); }
INLINE float exponent(float x) { return (float)ilogbf(x); }
INLINE double exponent(double x) { return (double)ilogb(x); }
template <class T> INLINE T significand(T x) {
    T s = scale(x, neg(exponent(x)));
    return s >= T(1.5) ? s * T(0.5) : s;
}
template <class T> INLINE T sigmoid(T x) { return T(1) / (T(1) + exp_of(-x)); }
template <class T> INLINE T gelu(T x) {
    return x < T(-40) ? T(-0.0) : T(0.5) * x * erfc_of(-x * T(0.70710678118654752440));
}
template <class T> INLINE T gelu_slope(T x) {
    T above = T(0.5) * erfc_of(-x * T(0.70710678118654752440));
    T bell = exp_of(T(-0.5) * x * x);
    return bell == T(0) ? above : above + x * bell * T(0.39894228040143267794);
}

// ---- offsets of elements in memory

// A count of 32 bits divided by a number that is known before the launch: by a multiplication.
INLINE uint32 quotient(uint32 n, uint32 magic, uint32 shift) { return (__umulhi(n, magic) + n) >> shift; }

// ---- faults

// The first fault since the last wait is reported, so later ones are dropped.
INLINE void report_fault(int64* fault, int64 number, int64 index, int64 size) {
    if (atomicCAS((uint64*)fault, 0ull, (uint64)number) == 0) {
        fault[1] = index;
        fault[2] = size;
    }
}
