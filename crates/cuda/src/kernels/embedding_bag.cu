// The rows of a table that the indices of each bag name: their sum, mean or maximum, in their order. A block has a bag, which ends where
// the next one begins, and a thread some columns.

#define MEAN 1
#define MAX 2

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 bags, int64 total, int64 width, int64 size, int64 row_stride, int64 column_stride, int64 padding, int64 mode,
    const T* table, const int64* indices, const int64* offsets, const T* scales, T* result, int64* counts, int64* best_rows,
    int64* fault, int64 number
) {
    typedef typename summing<T>::type A;
    const int64 bag = blockIdx.x;
    const int64 first = offsets[bag] > 0 ? offsets[bag] : 0;
    const int64 next = bag + 1 < bags ? offsets[bag + 1] : total;
    const int64 end = next < total ? next : total;
    // The first thread counts, also where there are no columns.
    for (int64 column = threadIdx.x; column == 0 || column < width; column += 256) {
        const bool is_column = column < width;
        A value = A(0);
        int64 found = 0, best_row = 0;
        #pragma unroll 1
        for (int64 at = first; at < end; ++at) {
            const int64 row = indices[at];
            if (row < 0 || row >= size) {
                if (column == 0) report_fault(fault, number, row, size);
                continue;
            }
            if (row == padding) continue;
            ++found;
            if (!is_column) continue;
            const A element = A(upcast(table[row * row_stride + column * column_stride]));
            if (mode != MAX) {
                value += scales ? element * A(upcast(scales[at])) : element;
            } else if (found == 1 || element > value) {
                value = element;
                best_row = row;
            }
        }
        if (column == 0) counts[bag] = found;
        if (!is_column) continue;
        if (mode == MEAN && found > 1) value = value / A(found);
        result[bag * width + column] = cast<T>(value);
        if (mode == MAX) best_rows[bag * width + column] = best_row;
    }
}
