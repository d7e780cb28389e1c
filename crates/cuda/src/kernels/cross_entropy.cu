// The cross entropy of rows of scores and classes.

INLINE bool is_class(int64 target, int64 n, int64 ignored, int64* fault, int64 number) {
    if (target == ignored) return false;
    if (target >= 0 && target < n) return true;
    if (LANE == 0) report_fault(fault, number, target, n);
    return false;
}

#ifdef BACKWARD

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, const T* in, const int64* targets, const T* weights, int64 ignored, const T* max_score,
    const T* log_sum, const T* grad, int64 grad_stride, const T* total, T* result, int64* fault, int64 number
) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 target = targets[row];
    const bool counts = is_class(target, n, ignored, fault, number);
    V amount = counts ? upcast(grad[row * grad_stride]) * (weights ? weights[target] : V(1)) : V(0);
    if (total && counts) amount /= *total;
    for (int64 i = LANE; i < n; i += TEAM) {
        const V share = exp_of((in[row * n + i] - max_score[row]) - log_sum[row]);
        result[row * n + i] = counts ? amount * (share - V(i == target)) : V(0);
    }
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, const T* in, const int64* targets, const T* weights, int64 ignored, T* losses, T* shares,
    T* max_score, T* log_sum, int64* fault, int64 number
) {
    const int64 row = ROW;
    if (row >= rows) return;
    V highest = V(-INFINITY_F), sum = V(0);
    for (int64 i = LANE; i < n; i += TEAM) highest = Maximum::merge(highest, in[row * n + i]);
    highest = team<Maximum>(highest);
    for (int64 i = LANE; i < n; i += TEAM) sum += exp_of(in[row * n + i] - highest);
    const V logarithm = log_of(team<Plus>(sum));
    if (LANE != 0) return;
    const int64 target = targets[row];
    const bool counts = is_class(target, n, ignored, fault, number);
    const V weight = counts ? (weights ? weights[target] : V(1)) : V(0);
    max_score[row] = highest;
    log_sum[row] = logarithm;
    losses[row] = counts ? ((highest - in[row * n + target]) + logarithm) * weight : V(0);
    shares[row] = weight;
}

#endif
