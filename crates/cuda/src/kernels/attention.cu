// The weights of attention from scores, in the same memory: the softmax over the keys that a query may attend to. `queries` are the rows
// of one matrix. Where `is_given`, the statistics of each query are read instead of written.

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, int64 queries, int64 is_causal, int64 is_given, T* scores, const T* bias, T* max_score, T* inverse_sum
) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 base = row * n, query = row % queries;
    const int64 keys = is_causal && query + 1 < n ? query + 1 : n;
    V highest = V(-INFINITY_F), sum = V(0);
    for (int64 i = LANE; i < keys; i += TEAM) {
        const V x = scores[base + i] + (bias ? bias[base + i] : V(0));
        scores[base + i] = x;
        highest = Maximum::merge(highest, x);
    }
    highest = is_given ? max_score[row] : team<Maximum>(highest);
    const bool has_keys = highest != V(-INFINITY_F);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V x = i < keys && has_keys ? exp_of(scores[base + i] - highest) : V(0);
        scores[base + i] = x;
        sum += x;
    }
    sum = team<Plus>(sum);
    const V inverse = is_given ? inverse_sum[row] : (has_keys ? V(1) / sum : V(0));
    for (int64 i = LANE; i < n; i += TEAM) scores[base + i] *= inverse;
    if (LANE == 0 && !is_given) {
        max_score[row] = has_keys ? highest : V(0);
        inverse_sum[row] = inverse;
    }
}
