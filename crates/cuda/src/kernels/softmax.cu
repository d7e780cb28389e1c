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

extern "C" __global__ void __launch_bounds__(256) kernel(int64 rows, int64 n, int64 inner, const T* in, T* result) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 base = row / inner * n * inner + row % inner;
    V highest = V(-INFINITY_F), sum = V(0);
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
