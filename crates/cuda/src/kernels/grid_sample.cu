// Images sampled at the coordinates of a grid: the pixels of each sample and their weights (`TABLE`), the weighted sums of pixels, and their
// transpose, where each pixel sums the samples that have it, which a sort has made adjacent. As on the host, in
// `crates/ops/src/native/nn/grid_sample`, which says how weights are computed.

typedef typename computing<T>::type V;

#ifdef TABLE

struct Sampling {
    int64 sizes[3], orders[3];
    // 0, 1, 2: nearest, linear and cubic; 0, 1, 2: zeros, the border and reflection outside.
    int64 dims, interpolation, padding, aligns_corners;
};

struct Axis {
    int64 indices[4];
    double weights[4];
};

INLINE void reflect(double& position, double& slope, double low, double high) {
    const double span = high - low;
    if (span <= 0) {
        position = slope = 0;
        return;
    }
    const bool is_before = position < low;
    const double distance = is_before ? low - position : position - low;
    const double rest = fmod(distance, span), sign = is_before ? -1 : 1;
    const bool is_even = fmod(floor(distance / span), 2.0) == 0;
    position = is_even ? low + rest : high - rest;
    slope = is_even ? sign : -sign;
}

// Moves a position into the image, if that is what happens outside; and its derivative.
INLINE void pad(const Sampling& s, int64 size, double& position, double& slope) {
    slope = 1;
    if (s.padding == 0) return;
    const double last = size - 1.0;
    if (s.padding == 2) {
        if (s.aligns_corners) reflect(position, slope, 0, last);
        else reflect(position, slope, -0.5, last + 0.5);
    }
    if (!(position - position == 0)) {
        position = -100;
        slope = 0;
    } else if (position <= 0) {
        position = slope = 0;
    } else if (position >= last) {
        position = last;
        slope = 0;
    }
}

INLINE int64 inside(double position, int64 size) { return position >= 0 && position < size ? (int64)position : -1; }

INLINE double cubic_value(double a, double b, double c, double d, double x, int64 order) {
    for (int64 k = 0; k < order; ++k) {
        d = c;
        c = 2 * b;
        b = 3 * a;
        a = 0;
    }
    return ((a * x + b) * x + c) * x + d;
}

INLINE double inner(double x, int64 order) { return cubic_value(1.25, -2.25, 0, 1, x, order); }
INLINE double outer(double x, int64 order) { return cubic_value(0.75, -0.75, 0, 0, x, order); }

INLINE Axis weights_of(const Sampling& s, double at, int d) {
    Axis axis;
    for (int k = 0; k < 4; ++k) {
        axis.indices[k] = -1;
        axis.weights[k] = 0;
    }
    const int64 size = s.sizes[d], order = s.orders[d];
    const double n = size, scale = s.aligns_corners ? (n - 1) / 2 : n / 2;
    double position = s.aligns_corners ? (at + 1) / 2 * (n - 1) : ((at + 1) * n - 1) / 2, slope;
    if (s.interpolation == 2) {
        const double first = floor(position), t = position - first, sign = order % 2 ? -1 : 1;
        double factor = 1;
        for (int64 k = 0; k < order; ++k) factor *= scale;
        for (int k = 0; k < 4; ++k) {
            double neighbour = first - 1 + k;
            pad(s, size, neighbour, slope);
            axis.indices[k] = inside(neighbour, size);
        }
        axis.weights[0] = sign * outer(1 - t, order) * factor;
        axis.weights[1] = inner(t, order) * factor;
        axis.weights[2] = sign * inner(1 - t, order) * factor;
        axis.weights[3] = outer(t, order) * factor;
        return axis;
    }
    pad(s, size, position, slope);
    if (s.interpolation == 0) {
        if (order == 0) axis.indices[0] = inside(rint(position), size);
        axis.weights[0] = 1;
        return axis;
    }
    if (order > 1) return axis;
    const double first = floor(position), t = position - first;
    axis.indices[0] = inside(first, size);
    axis.indices[1] = inside(first + 1, size);
    axis.weights[0] = order ? -slope * scale : 1 - t;
    axis.weights[1] = order ? slope * scale : t;
    return axis;
}

// For each sample its pixels, of all images, and their weights; a pixel of -1 is outside.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 points, int64 each, const T* grid, int64* pixels, V* weights, const __grid_constant__ Sampling s
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Axis axes[3];
    // Coordinates in the grid begin with the innermost dimension.
    for (int d = 0; d < s.dims; ++d) axes[d] = weights_of(s, upcast(grid[i * s.dims + s.dims - 1 - d]), d);
    const int64 along = s.interpolation == 0 ? 1 : 2 * s.interpolation;
    for (int64 k = 0; k < each; ++k) {
        int64 rest = k, step = 1, pixel = 0;
        double weight = 1;
        bool exists = true;
        for (int d = (int)s.dims - 1; d >= 0; --d) {
            const int64 part = rest % along;
            rest /= along;
            exists = exists && axes[d].indices[part] >= 0;
            pixel += axes[d].indices[part] * step;
            weight *= axes[d].weights[part];
            step *= s.sizes[d];
        }
        pixels[i * each + k] = exists ? i / points * step + pixel : -1;
        weights[i * each + k] = exists ? V(weight) : V(0);
    }
}

#elif defined(TRANSPOSED)

// `order` gives the places of the sorted pixels, each of which is summed by a thread for each channel.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 channels, int64 points, int64 size, int64 each, const int64* sorted, const int64* order, const V* weights,
    const T* grad, T* result
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * channels) return;
    const int64 at = i % count, channel = i / count, pixel = sorted[at];
    if (pixel < 0 || (at > 0 && sorted[at - 1] == pixel)) return;
    const int64 image = pixel / size * channels + channel;
    V sum = V(0);
    for (int64 k = at; k < count && sorted[k] == pixel; ++k) {
        sum += upcast(grad[image * points + order[k] / each % points]) * weights[order[k]];
    }
    result[image * size + pixel % size] = cast<T>(sum);
}

#else

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 channels, int64 points, int64 size, int64 each, const int64* pixels, const V* weights, const T* in, T* result
) {
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int64 image = i / points, sample = image / channels * points + i % points;
    V sum = V(0);
    for (int64 k = sample * each; k < (sample + 1) * each; ++k) {
        if (pixels[k] >= 0) sum += upcast(in[image * size + pixels[k] % size]) * weights[k];
    }
    result[i] = cast<T>(sum);
}

#endif
