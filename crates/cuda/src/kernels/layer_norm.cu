// Layer normalization of rows: forward, the gradient of the input, and the sums for the gradients of weight and bias.

#if defined(PARAMETERS)

// A thread sums one column of `chunk` rows: what the weight is multiplied with, and the gradient itself.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, int64 chunk, const T* grad, const T* in, const V* mean, const V* rstd, V* sums
) {
    const int64 column = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n) return;
    const int64 from = blockIdx.y * chunk, end = from + chunk, to = end < rows ? end : rows;
    V of_weight = V(0), of_bias = V(0);
    for (int64 row = from; row < to; ++row) {
        const V g = upcast(grad[row * n + column]);
        of_weight += g * ((upcast(in[row * n + column]) - mean[row]) * rstd[row]);
        of_bias += g;
    }
    sums[(blockIdx.y * 2) * n + column] = of_weight;
    sums[(blockIdx.y * 2 + 1) * n + column] = of_bias;
}

#elif defined(BACKWARD)

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, const T* grad, const T* in, const V* weight, const V* mean, const V* rstd, T* result
) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 base = row * n;
    const V middle = mean[row], scale_of_row = rstd[row];
    V sum = V(0), weighed = V(0);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V g = upcast(grad[base + i]) * (weight ? weight[i] : V(1));
        sum += g;
        weighed += g * ((upcast(in[base + i]) - middle) * scale_of_row);
    }
    sum = team<Plus>(sum) / V(n);
    weighed = team<Plus>(weighed) / V(n);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V g = upcast(grad[base + i]) * (weight ? weight[i] : V(1));
        const V x = (upcast(in[base + i]) - middle) * scale_of_row;
        result[base + i] = cast<T>(scale_of_row * (g - sum - x * weighed));
    }
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 rows, int64 n, const T* in, const V* weight, const V* bias, T* result, V* mean, V* rstd, double epsilon
) {
    const int64 row = ROW;
    if (row >= rows) return;
    const int64 base = row * n;
    V sum = V(0), squares = V(0);
    for (int64 i = LANE; i < n; i += TEAM) sum += upcast(in[base + i]);
    const V middle = team<Plus>(sum) / V(n);
    for (int64 i = LANE; i < n; i += TEAM) {
        const V x = upcast(in[base + i]) - middle;
        squares += x * x;
    }
    const V scale_of_row = V(1) / root(team<Plus>(squares) / V(n) + V(epsilon));
    for (int64 i = LANE; i < n; i += TEAM) {
        const V x = (upcast(in[base + i]) - middle) * scale_of_row * (weight ? weight[i] : V(1));
        result[base + i] = cast<T>(bias ? x + bias[i] : x);
    }
    if (LANE == 0) {
        mean[row] = middle;
        rstd[row] = scale_of_row;
    }
}

#endif
