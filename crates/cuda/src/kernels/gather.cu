// Elements that indices name along a dimension, or by offsets.

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
