// Reports the first index that is out of range.

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 size, const int64* indices, int64* fault, int64 number
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && (indices[i] < 0 || indices[i] >= size)) report_fault(fault, number, indices[i], size);
}
