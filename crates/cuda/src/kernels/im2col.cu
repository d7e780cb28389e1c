// Convolutions as matrix products: the columns of an image, one for each position of the kernel on it, and the sums of columns by the
// element of the image that they are of. Sizes are those of three spatial dimensions.

struct Geometry {
    int64 image[3], positions[3], kernel[3], stride[3], padding[3], dilation[3];
};

#ifdef TO_IMAGE

// Each element of the image asks which columns have it, so that sums have one order.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 samples, int64 channels, const T* columns, T* image, const __grid_constant__ Geometry g
) {
    typedef typename summing<T>::type A;
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    POSITION rest = (POSITION)i, x[3];
    #pragma unroll
    for (int d = 2; d >= 0; --d) {
        x[d] = rest % (POSITION)g.image[d];
        rest /= (POSITION)g.image[d];
    }
    const int64 channel = rest % (POSITION)channels, sample = rest / (POSITION)channels;
    const int64 width = samples * g.positions[0] * g.positions[1] * g.positions[2];
    A sum = A(0);
    for (int64 k0 = 0; k0 < g.kernel[0]; ++k0) {
        const int64 t0 = (int64)x[0] + g.padding[0] - k0 * g.dilation[0], o0 = t0 / g.stride[0];
        if (t0 < 0 || o0 * g.stride[0] != t0 || o0 >= g.positions[0]) continue;
        for (int64 k1 = 0; k1 < g.kernel[1]; ++k1) {
            const int64 t1 = (int64)x[1] + g.padding[1] - k1 * g.dilation[1], o1 = t1 / g.stride[1];
            if (t1 < 0 || o1 * g.stride[1] != t1 || o1 >= g.positions[1]) continue;
            for (int64 k2 = 0; k2 < g.kernel[2]; ++k2) {
                const int64 t2 = (int64)x[2] + g.padding[2] - k2 * g.dilation[2], o2 = t2 / g.stride[2];
                if (t2 < 0 || o2 * g.stride[2] != t2 || o2 >= g.positions[2]) continue;
                const int64 row = ((channel * g.kernel[0] + k0) * g.kernel[1] + k1) * g.kernel[2] + k2;
                const int64 column = ((sample * g.positions[0] + o0) * g.positions[1] + o1) * g.positions[2] + o2;
                sum = add(sum, A(upcast(columns[row * width + column])));
            }
        }
    }
    image[i] = cast<T>(sum);
}

#else

// Rows are channels and positions in the kernel; columns are samples and positions of the kernel on the image.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 samples, int64 channels, const T* image, T* columns, const __grid_constant__ Geometry g
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    POSITION rest = (POSITION)i, at[3], k[3];
    #pragma unroll
    for (int d = 2; d >= 0; --d) {
        at[d] = rest % (POSITION)g.positions[d];
        rest /= (POSITION)g.positions[d];
    }
    const int64 sample = rest % (POSITION)samples;
    rest /= (POSITION)samples;
    #pragma unroll
    for (int d = 2; d >= 0; --d) {
        k[d] = rest % (POSITION)g.kernel[d];
        rest /= (POSITION)g.kernel[d];
    }
    int64 offset = sample * channels + (int64)rest;
    bool is_inside = true;
    #pragma unroll
    for (int d = 0; d < 3; ++d) {
        const int64 x = (int64)at[d] * g.stride[d] - g.padding[d] + (int64)k[d] * g.dilation[d];
        is_inside = is_inside && x >= 0 && x < g.image[d];
        offset = offset * g.image[d] + x;
    }
    columns[i] = is_inside ? image[offset] : cast<T>(0);
}

#endif
