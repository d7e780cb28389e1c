// Softmax and its logarithm, along a dimension whose elements are `inner` apart.

#define AT(i) (base + (i) * inner)

#ifdef BACKWARD

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, int64 inner, const T* grad, const T* out, T* result
) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 base = row / inner * n * inner + row % inner;
    V sum = V(0);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V g = upcast(grad[AT(i)]);
        sum += LOGARITHM ? g : g * upcast(out[AT(i)]);
    }
    sum = team<Plus>(sum);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V g = upcast(grad[AT(i)]), y = upcast(out[AT(i)]);
        result[AT(i)] = cast<T>(LOGARITHM ? g - exp_of(y) * sum : y * (g - sum));
    }
}

#else

// So many elements of a row each thread keeps in registers, if that is all of its elements.
#define KEPT 32

extern "C" __global__ void __launch_bounds__(256) kernel(int64 rows, int64 n, int64 inner, const T* in, T* result) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 base = row / inner * n * inner + row % inner;
    V highest = V(-INFINITY_F), sum = V(0);
    if (n <= KEPT * TEAM) {
        V kept[KEPT];
        #pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            const int64 i = LANE + k * TEAM;
            kept[k] = i < n ? (V)upcast(in[AT(i)]) : V(-INFINITY_F);
            highest = Maximum::merge(highest, kept[k]);
        }
        highest = team<Maximum>(highest);
        #pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            if (LANE + k * TEAM >= n) break;
            kept[k] -= highest;
            const V power = exp_of(kept[k]);
            sum += power;
            if (!LOGARITHM) kept[k] = power;
        }
        sum = team<Plus>(sum);
        const V logarithm = log_of(sum);
        #pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            const int64 i = LANE + k * TEAM;
            if (i >= n) break;
            result[AT(i)] = cast<T>(LOGARITHM ? kept[k] - logarithm : kept[k] / sum);
        }
        return;
    }
    for (int64 i = LANE; i < n; i += TEAM) highest = Maximum::merge(highest, (V)upcast(in[AT(i)]));
    highest = team<Maximum>(highest);
    for (int64 i = LANE; i < n; i += TEAM) sum += exp_of(upcast(in[AT(i)]) - highest);
    sum = team<Plus>(sum);
    const V logarithm = log_of(sum);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V x = upcast(in[AT(i)]) - highest;
        result[AT(i)] = cast<T>(LOGARITHM ? x - logarithm : exp_of(x) / sum);
    }
}

#endif
