// Products of matrices of any strides: a block of 256 threads computes a tile of 64 x 64 results, each thread 4 x 4 of them. The sums
// run over all of k in its order, whatever the grid is.

#define SIDE 64
#define DEPTH 16

struct Matrix {
    int64 address, rows, columns, batch;
};

INLINE const T* element(const Matrix& m, int64 batch, int64 row, int64 column) {
    return (const T*)m.address + batch * m.batch + row * m.rows + column * m.columns;
}

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 m, int64 n, int64 k, int64 batches, double alpha, double beta, const __grid_constant__ Matrix a,
    const __grid_constant__ Matrix b, const __grid_constant__ Matrix c, const __grid_constant__ Matrix out
) {
    typedef typename summing<T>::type A;
    typedef typename computing<T>::type V;
    __shared__ A left[DEPTH][SIDE + 1];
    __shared__ A right[DEPTH][SIDE + 1];
    const int thread = threadIdx.x, across = thread % 16, down = thread / 16;
    const int64 first_row = (int64)blockIdx.x * SIDE, first_column = (int64)blockIdx.y * SIDE;
    // Threads that are adjacent read elements that are.
    const bool left_along_k = a.columns == 1, right_along_k = b.rows == 1 && b.columns != 1;
    for (int64 batch = blockIdx.z; batch < batches; batch += gridDim.z) {
        A sums[4][4];
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j) sums[i][j] = A(0);
        for (int64 start = 0; start < k; start += DEPTH) {
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                int row = left_along_k ? thread / 16 + 16 * i : thread % 64;
                int depth = left_along_k ? thread % 16 : thread / 64 + 4 * i;
                bool is_inside = first_row + row < m && start + depth < k;
                left[depth][row] = is_inside ? A(upcast(*element(a, batch, first_row + row, start + depth))) : A(0);
                int column = right_along_k ? thread / 16 + 16 * i : thread % 64;
                depth = right_along_k ? thread % 16 : thread / 64 + 4 * i;
                is_inside = first_column + column < n && start + depth < k;
                right[depth][column] = is_inside ? A(upcast(*element(b, batch, start + depth, first_column + column))) : A(0);
            }
            __syncthreads();
            #pragma unroll
            for (int depth = 0; depth < DEPTH; ++depth) {
                A x[4], y[4];
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    x[i] = left[depth][down + 16 * i];
                    y[i] = right[depth][across + 16 * i];
                }
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) sums[i][j] = mul_add(x[i], y[j], sums[i][j]);
            }
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int64 row = first_row + down + 16 * i, column = first_column + across + 16 * j;
                if (row >= m || column >= n) continue;
                A result = sums[i][j];
                if (alpha != 1) result = mul(A(alpha), result);
                if (c.address) {
                    const A addend = A(upcast(*element(c, batch, row, column)));
                    result = add(result, beta == 1 ? addend : mul(A(beta), addend));
                }
                *(T*)element(out, batch, row, column) = cast<T>(result);
            }
    }
}
