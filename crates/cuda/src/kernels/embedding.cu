// Rows of a table that indices name, and the gradient of the table: each row sums the gradients of its indices in their order.

#ifdef BACKWARD

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 width, int64 padding, int64 by_frequency, const T* grad, const int64* indices, T* result
) {
    typedef typename summing<T>::type A;
    const int64 row = blockIdx.x, column = (int64)blockIdx.y * 256 + threadIdx.x;
    __shared__ int64 tile[256];
    A sum = A(0);
    int64 found = 0;
    for (int64 start = 0; start < count; start += 256) {
        __syncthreads();
        tile[threadIdx.x] = start + threadIdx.x < count ? indices[start + threadIdx.x] : -1;
        __syncthreads();
        for (int i = 0; i < 256; ++i) {
            if (tile[i] != row) continue;
            ++found;
            if (column < width) sum += A(upcast(grad[(start + i) * width + column]));
        }
    }
    if (column >= width) return;
    if (by_frequency && found > 1) sum = A(sum / A(found));
    result[row * width + column] = cast<T>(row == padding ? A(0) : sum);
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 width, int64 size, int64 row_stride, int64 column_stride, const T* table, const int64* indices, T* result,
    int64* fault, int64 number
) {
    const int64 at = blockIdx.x, index = indices[at];
    const bool is_inside = index >= 0 && index < size;
    if (!is_inside && threadIdx.x == 0) report_fault(fault, number, index, size);
    for (int64 i = threadIdx.x; i < width; i += 256) {
        if (is_inside) result[at * width + i] = table[index * row_stride + i * column_stride];
    }
}

#endif
