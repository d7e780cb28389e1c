// Sparse matrices in compressed rows: `crow` has where each row starts in the lists of columns and values, and where the last one ends. Each
// result is computed by one thread in the order of the elements. Pointers and columns out of range are faults, and what they name is skipped.

struct Fault {
    int64 word, number;
};

// Whether an index is one of a dimension of `size`.
INLINE bool is_index(int64 index, int64 size, const Fault& fault) {
    if (index >= 0 && index < size) return true;
    report_fault((int64*)fault.word, fault.number, index, size);
    return false;
}

struct Segment {
    int64 start, end;
};

// The positions of a row, of `count` in all.
INLINE Segment segment(const int64* crow, int64 row, int64 count, const Fault& fault) {
    Segment s = {crow[row], crow[row + 1]};
    const bool is_right = s.start >= 0 && s.start <= s.end && s.end <= count;
    if (!is_right) report_fault((int64*)fault.word, fault.number, s.start <= s.end ? s.end : s.start, count + 1);
    return is_right ? s : Segment{0, 0};
}

// The first position whose number in an ascending list is at least `value`, or more than that.
INLINE int64 bound(const int64* list, int64 count, int64 value, bool is_above) {
    int64 low = 0, high = count;
    while (low < high) {
        const int64 middle = (low + high) / 2;
        if (is_above ? list[middle] <= value : list[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

#define AT ((int64)blockIdx.x * blockDim.x + threadIdx.x)

#if defined(POINTERS)

// Where each of `size` rows starts in an ascending list, and where the last one ends. The list is checked.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 threads, int64 size, int64 count, const int64* list, int64* crow, const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= threads) return;
    if (i <= size) crow[i] = bound(list, count, i, false);
    if (i < count && is_index(list[i], size, fault) && i > 0 && list[i - 1] > list[i]) {
        report_fault((int64*)fault.word, fault.number, list[i - 1], list[i] + 1);
    }
}

#elif defined(ROWS)

// The row of each position. The first and the last pointer are checked with the others.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 rows, const int64* crow, int64* result, const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= count) return;
    if (i == 0 && (crow[0] != 0 || crow[rows] != count)) {
        report_fault((int64*)fault.word, fault.number, crow[0] != 0 ? crow[0] : crow[rows], count + 1);
    }
    const int64 row = bound(crow, rows + 1, i, true) - 1;
    result[i] = row < 0 ? 0 : row < rows ? row : rows - 1;
}

#elif defined(KEYS)

// The row-major index of each coordinate, and -1 for one out of range.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 rank, const int64* sizes, const int64* indices, int64* result, const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= count) return;
    int64 key = 0;
    for (int64 d = 0; d < rank; ++d) {
        const int64 index = indices[d * count + i];
        if (!is_index(index, sizes[d], fault)) {
            key = -1;
            break;
        }
        key = key * sizes[d] + index;
    }
    result[i] = key;
}

#elif defined(EXPAND)

// The products of elements of a matrix with a row of another: the row-major index of the result that each is added to. `ends` has how many
// there are up to each element of the first.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 elements, int64 inner, int64 others, int64 columns, const int64* ends, const int64* rows,
    const int64* col1, const int64* crow2, const int64* col2, int64* result, const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= count) return;
    result[i] = -1;
    const int64 element = bound(ends, elements, i, true);
    if (element >= elements || !is_index(col1[element], inner, fault)) return;
    const int64 at = crow2[col1[element]] + i - (element > 0 ? ends[element - 1] : 0);
    if (at < 0 || at >= others || !is_index(col2[at], columns, fault)) return;
    result[i] = rows[element] * columns + col2[at];
}

#else

typedef typename summing<T>::type A;

INLINE A product(T a, T b) { return mul(A(upcast(a)), A(upcast(b))); }

#if defined(SEGMENTS)

// The sum of the rows of values that a segment has, in its order.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 threads, int64 width, int64 count, int64 listed, const int64* starts, const int64* order, const T* values,
    T* result, const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= threads) return;
    const Segment s = segment(starts, i / width, listed, fault);
    A sum = A(0);
    for (int64 at = s.start; at < s.end; ++at) {
        const int64 row = order ? order[at] : at;
        if (is_index(row, count, fault)) sum = add(sum, A(upcast(values[row * width + i % width])));
    }
    result[i] = cast<T>(sum);
}

#elif defined(TIMES_DENSE)

extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 threads, int64 width, int64 count, int64 size, const int64* crow, const int64* col, const T* values,
    const T* dense, T* result, const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= threads) return;
    const Segment s = segment(crow, i / width, count, fault);
    A sum = A(0);
    for (int64 at = s.start; at < s.end; ++at) {
        if (is_index(col[at], size, fault)) sum = add(sum, product(values[at], dense[col[at] * width + i % width]));
    }
    result[i] = cast<T>(sum);
}

#elif defined(SAMPLED)

// The inner product of a row of each matrix for each position.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 width, int64 size, const int64* rows, const int64* col, const T* a, const T* b, T* result,
    const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= count) return;
    A sum = A(0);
    if (is_index(col[i], size, fault)) {
        for (int64 k = 0; k < width; ++k) sum = add(sum, product(a[rows[i] * width + k], b[col[i] * width + k]));
    }
    result[i] = cast<T>(sum);
}

#elif defined(TIMES_SPARSE)

// The product of two matrices at each position of a pattern.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 count, int64 count1, int64 count2, int64 inner, const int64* rows, const int64* col, const int64* crow1,
    const int64* col1, const T* values1, const int64* crow2, const int64* col2, const T* values2, T* result,
    const __grid_constant__ Fault fault
) {
    const int64 i = AT;
    if (i >= count) return;
    const Segment own = segment(crow1, rows[i], count1, fault);
    A sum = A(0);
    for (int64 at = own.start; at < own.end; ++at) {
        if (!is_index(col1[at], inner, fault)) continue;
        const Segment other = segment(crow2, col1[at], count2, fault);
        for (int64 k = other.start; k < other.end; ++k) {
            if (col2[k] == col[i]) sum = add(sum, product(values1[at], values2[k]));
        }
    }
    result[i] = cast<T>(sum);
}

#else

// Substitution in a triangle: a thread has a column of the solution, whose rows depend on those before, or if `upper` on those after.
extern "C" __global__ void __launch_bounds__(256) kernel(
    int64 width, int64 size, int64 count, int64 upper, int64 unitriangular, const int64* crow, const int64* col,
    const T* values, T* x, const __grid_constant__ Fault fault
) {
    const int64 j = AT;
    if (j >= width) return;
    for (int64 step = 0; step < size; ++step) {
        const int64 row = upper ? size - 1 - step : step;
        const Segment s = segment(crow, row, count, fault);
        T diagonal = T(0), value = x[row * width + j];
        for (int64 at = s.start; at < s.end; ++at) {
            const int64 column = col[at];
            if (!is_index(column, size, fault)) continue;
            if (column == row) diagonal = values[at];
            else if ((column > row) == (upper != 0)) value = value - values[at] * x[column * width + j];
        }
        x[row * width + j] = unitriangular ? value : value / diagonal;
    }
}

#endif
#endif
