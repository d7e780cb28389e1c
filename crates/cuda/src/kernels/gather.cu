// Elements along a dimension that indices name (`gather`, `index_select`), and the sums of elements by index (`scatter_add`, `index_add`),
// which each result makes of its own elements in their order.

#ifdef SCATTER

// `layout` gives the offsets of the results, and of the first element of source and index, for the result's other dimensions.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 size, int64 size_stride, int64 length, int64 index_stride, int64 source_stride, char* result,
    const char* index, const char* source, double alpha, int64* fault, int64 number, const __grid_constant__ Layout layout
) {
    typedef typename summing<T>::type A;
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64 position = i % size;
    int64 at[3];
    layout.offsets(i / size, at);
    T* to = (T*)(result + at[0] + position * size_stride);
    A sum = A(upcast(*to));
    bool changes = false;
    for (int64 k = 0; k < length; ++k) {
        const int64 target = *(const int64*)(index + at[1] + k * index_stride);
        if (target == position) {
            const A term = A(upcast(*(const T*)(source + at[2] + k * source_stride)));
            sum = add(sum, alpha == 1 ? term : mul(A(alpha), term));
            changes = true;
        } else if (position == 0 && (target < 0 || target >= size)) {
            report_fault(fault, number, target, size);
        }
    }
    if (changes) *to = cast<T>(sum);
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 size, int64 stride, const char* in, const char* index, T* result, int64* fault, int64 number,
    const __grid_constant__ Layout layout
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int64 at[2];
    layout.offsets(i, at);
    const int64 target = *(const int64*)(index + at[1]);
    if (target < 0 || target >= size) {
        report_fault(fault, number, target, size);
    } else {
        result[i] = *(const T*)(in + at[0] + target * stride);
    }
}

#endif
