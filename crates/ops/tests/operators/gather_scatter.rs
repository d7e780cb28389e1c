//! Gather, scatter and embedding in sizes that are split among threads, against loops in the order of the indices.

use crate::support::{cast, sample, values};
use flambeau_core::{Complex, ErrorKind, Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const ONE: Scalar = Scalar::Int(1);

/// Numbers of which sums depend on their order.
fn numbers(sizes: &[i64], seed: u64) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    let number = |i: u64| {
        let h = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        (h % 2003) as f32 * 1.0001e-3 - (h % 5) as f32 * 1e5
    };
    Tensor::from_vec((0..n as u64).map(number).collect(), sizes)
}

fn indices(sizes: &[i64], bound: i64) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    let index = |i: i64| ((i as u64).wrapping_mul(0xd134_2543_de82_ef95) >> 35) as i64 % bound;
    Tensor::from_vec((0..n).map(index).collect(), sizes)
}

/// Calls `f(offset in self, offset in source)` for every element of an index of `sizes` along `dim` of `shape`, in order.
fn for_each_element(
    shape: &[i64],
    sizes: &[i64],
    dim: usize,
    index: &[i64],
    mut f: impl FnMut(usize, usize),
) {
    for (at, &i) in index.iter().enumerate() {
        let (mut left, mut offset, mut scale) = (at as i64, 0, 1);
        for d in (0..sizes.len()).rev() {
            let here = if d == dim { i } else { left % sizes[d] };
            left /= sizes[d];
            offset += here * scale;
            scale *= shape[d];
        }
        f(offset as usize, at);
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn scattered_elements_arrive_in_order() -> Result<()> {
    // The largest dimension lies before the one that is index_values, after it, on both sides, or is that one.
    let cases: [(&[i64], &[i64], usize); 7] = [
        (&[700, 33], &[700, 150], 1),
        (&[33, 700], &[150, 700], 0),
        (&[20, 11, 300], &[20, 40, 300], 1),
        (&[300, 11, 20], &[300, 40, 20], 1),
        (&[7], &[100_000], 0),
        (&[5, 3, 9], &[2, 3, 70_000], 2),
        (&[40, 600], &[300, 513], 0),
    ];
    for (shape, sizes, dim) in cases {
        let (x, src) = (numbers(shape, 1)?, numbers(sizes, 77)?);
        let index = indices(sizes, shape[dim])?;
        let (from, index_values) = (src.to_vec::<f32>()?, index.to_vec::<i64>()?);
        let mut sums = x.to_vec::<f32>()?;
        for_each_element(shape, sizes, dim, &index_values, |to, at| sums[to] += from[at]);
        let mut last = x.to_vec::<f32>()?;
        for_each_element(shape, sizes, dim, &index_values, |to, at| last[to] = from[at]);
        for threads in [1, 2, 3] {
            parallel::set_num_threads(threads);
            let d = dim as i64;
            let what = format!("{shape:?} {sizes:?} {dim}, {threads} threads");
            let added = ops::scatter_add(&x, d, &index, &src)?.to_vec::<f32>()?;
            assert!(bits(&added) == bits(&sums), "scatter_add {what}");
            let target = ops::clone(&x, None)?;
            ops::scatter_add_(&target, d, &index, &src)?;
            assert!(bits(&target.to_vec::<f32>()?) == bits(&sums), "scatter_add_ {what}");
            let put = ops::scatter_src(&x, d, &index, &src)?.to_vec::<f32>()?;
            assert!(bits(&put) == bits(&last), "scatter {what}");
        }
    }
    parallel::set_num_threads(1);
    Ok(())
}

/// Target, index and source are not dense, and neither are their rows.
#[test]
fn strided_operands_are_scattered_like_dense_ones() -> Result<()> {
    let wide = numbers(&[260, 700], 3)?;
    let transposed = |t: &Tensor| ops::transpose_int(t, 0, 1);
    let (index, src) = (indices(&[130, 350], 130)?, numbers(&[130, 350], 5)?);
    for dim in [0, 1] {
        let target = ops::slice_tensor(&ops::clone(&wide, None)?, 0, None, None, 2)?;
        let (target, index, src) = (transposed(&target)?, transposed(&index)?, transposed(&src)?);
        let index = ops::slice_tensor(&index, 0, Some(0), Some(350), 1)?;
        let mut want = target.to_vec::<f32>()?;
        let from = src.to_vec::<f32>()?;
        for_each_element(&[700, 130], &[350, 130], dim, &index.to_vec::<i64>()?, |to, at| {
            want[to] += from[at]
        });
        ops::scatter_add_(&target, dim as i64, &index, &src)?;
        assert!(bits(&target.to_vec::<f32>()?) == bits(&want), "along {dim}");
    }
    Ok(())
}

#[test]
fn added_rows_arrive_in_order() -> Result<()> {
    for (shape, dim, count) in
        [([50, 1000], 0, 333), ([50, 64], 0, 4000), ([900, 60], 1, 200), ([3, 4000], 1, 9000)]
    {
        let mut sizes = shape;
        sizes[dim] = count;
        let (x, source) = (numbers(&shape, 1)?, numbers(&sizes, 9)?);
        let index = indices(&[count], shape[dim])?;
        let index_values = index.to_vec::<i64>()?;
        let along = |at: i64| if dim == 0 { at / sizes[1] } else { at % sizes[1] };
        let spread: Vec<i64> = (0..sizes[0] * sizes[1]).map(|at| index_values[along(at) as usize]).collect();
        let (mut want, from) = (x.to_vec::<f32>()?, source.to_vec::<f32>()?);
        for_each_element(&shape, &sizes, dim, &spread, |to, at| want[to] += from[at]);
        for threads in [1, 2] {
            parallel::set_num_threads(threads);
            let got = ops::index_add(&x, dim as i64, &index, &source, ONE)?.to_vec::<f32>()?;
            assert!(bits(&got) == bits(&want), "index_add {shape:?} {dim}, {threads} threads");
            let all = [dim == 0, dim == 1].map(|is_indexed| is_indexed.then(|| index.clone()));
            let got = ops::index_put(&x, &all, &source, true)?.to_vec::<f32>()?;
            assert!(bits(&got) == bits(&want), "index_put {shape:?} {dim}, {threads} threads");
        }
    }
    parallel::set_num_threads(1);
    Ok(())
}

/// Results are those of PyTorch 2.15.
#[test]
fn index_add_takes_complex_factors() -> Result<()> {
    let x = Tensor::from([Complex::new(0.0f32, 0.0); 3]);
    let source = Tensor::from([Complex::new(1.0f32, 0.0), Complex::new(0.0, 1.0)]);
    let sum = ops::index_add(&x, 0, &Tensor::from([0i64, 1]), &source, Scalar::Complex(1.0, 2.0))?;
    let expected = [Complex::new(1.0, 2.0), Complex::new(-2.0, 1.0), Complex::new(0.0, 0.0)];
    assert_eq!(sum.to_vec::<Complex<f32>>()?, expected);
    Ok(())
}

#[test]
fn a_wrong_index_is_named_and_changes_nothing() -> Result<()> {
    let (x, src) = (numbers(&[600, 30], 1)?, numbers(&[600, 90], 2)?);
    // At the ends, in the middle, and anywhere among the last elements of a row.
    let wrong_ones =
        [(53_999, 30), (0, -1), (20_000, i64::MAX)].into_iter().chain((53_970..53_999).map(|at| (at, 30)));
    for (position, wrong) in wrong_ones {
        let mut index = indices(&[600, 90], 30)?.to_vec::<i64>()?;
        index[position] = wrong;
        let index = Tensor::from_vec(index, &[600, 90])?;
        for threads in [1, 2] {
            parallel::set_num_threads(threads);
            let target = ops::clone(&x, None)?;
            let said = |error: flambeau_core::Error| (error.kind(), error.to_string());
            let want = (
                ErrorKind::InvalidArgument,
                format!("scatter_add: index {wrong} is out of bounds for dimension 1 with size 30"),
            );
            assert_eq!(ops::scatter_add_(&target, 1, &index, &src).map_err(said), Err(want.clone()));
            assert_eq!(values(&target), values(&x));
            assert_eq!(ops::scatter_add(&x, 1, &index, &src).map(drop).map_err(said), Err(want));
        }
    }
    parallel::set_num_threads(1);
    Ok(())
}

/// Rows are prefetched before they are read: the last has none after it, and those of a view are not adjacent in memory.
#[test]
fn gathered_elements_are_those_of_the_indices() -> Result<()> {
    for (rows, width, picked) in
        [(70, 1000, 600), (1, 5000, 40_000), (300, 17, 400), (9, 40_000, 9000), (40, 513, 33)]
    {
        let table = numbers(&[2 * rows, width], 4)?;
        let index = indices(&[rows, picked], width)?;
        for (name, x) in [
            ("dense", ops::narrow(&table, 0, rows, rows)?),
            ("apart", ops::slice_tensor(&table, 0, Some(1), None, 2)?),
        ] {
            let (from, index_values) = (x.to_vec::<f32>()?, index.to_vec::<i64>()?);
            let want: Vec<f32> = (0..rows * picked)
                .map(|at| from[(at / picked * width + index_values[at as usize]) as usize])
                .collect();
            for threads in [1, 2] {
                parallel::set_num_threads(threads);
                let got = ops::gather(&x, 1, &index, false)?.to_vec::<f32>()?;
                assert!(bits(&got) == bits(&want), "{rows} rows of {width}, {name}, {threads} threads");
            }
        }
    }
    parallel::set_num_threads(1);
    Ok(())
}

/// Tables large enough for non-temporal stores, of rows of whole cache lines and of others.
#[test]
fn gradients_of_tables_are_sums_in_order() -> Result<()> {
    for (rows, width) in [(9000, 512), (9100, 509), (40, 5)] {
        let count = 3000;
        let index = indices(&[count], rows)?;
        let index_values = index.to_vec::<i64>()?;
        let dense = numbers(&[count, width], 8)?;
        let one = ops::expand(&Tensor::from_vec(vec![0.25f32], &[1])?, &[count, width], false)?;
        let row = ops::expand(&numbers(&[1, width], 8)?, &[count, width], false)?;
        for (name, grad) in [("dense", dense), ("one number", one), ("one row", row)] {
            for (padding, by_count) in [(-1, false), (index_values[5], true)] {
                let from = grad.to_vec::<f32>()?;
                let mut want = vec![0f32; (rows * width) as usize];
                let mut counts = vec![0; rows as usize];
                for (at, &row) in index_values.iter().enumerate().filter(|(_, row)| **row != padding) {
                    counts[row as usize] += 1;
                    for column in 0..width as usize {
                        want[row as usize * width as usize + column] += from[at * width as usize + column];
                    }
                }
                if by_count {
                    for (at, sum) in want.iter_mut().enumerate() {
                        let count = counts[at / width as usize];
                        *sum *= if count > 1 { (1.0 / f64::from(count)) as f32 } else { 1.0 };
                    }
                }
                for threads in [1, 2] {
                    parallel::set_num_threads(threads);
                    let got = ops::embedding_dense_backward(&grad, &index, rows, padding, by_count)?;
                    let what = format!("{rows} rows of {width}, {name}, {threads} threads");
                    assert!(bits(&got.to_vec::<f32>()?) == bits(&want), "{what}");
                }
            }
        }
    }
    parallel::set_num_threads(1);
    let none = Tensor::from_vec(Vec::<i64>::new(), &[0])?;
    let grad = Tensor::from_vec(Vec::<f32>::new(), &[0, 3])?;
    let made = ops::embedding_dense_backward(&grad, &none, 2, -1, false)?;
    assert_eq!(made.to_vec::<f32>()?, [0.0; 6]);
    Ok(())
}

/// Indices of which many are adjacent: padding by reflection, a shift in a circle, repeated blocks, and single ones between them.
fn runs(size: i64) -> Vec<Vec<i64>> {
    let reflected = |i: i64| if i < 0 { -i } else { i.min(2 * (size - 1) - i) };
    vec![
        (-3..size + 3).map(reflected).collect(),
        (0..size).map(|i| (i + 5) % size).collect(),
        (0..4 * size).map(|i| i % size).collect(),
        (0..size).map(|i| if i % 9 == 4 { size - 1 } else { i }).collect(),
        vec![0; size as usize],
    ]
}

#[test]
fn adjacent_indices_are_as_others() -> Result<()> {
    for (rows, size) in [(1, 37), (3, 8), (500, 37), (70, 1030)] {
        let table = numbers(&[rows, size], 3)?;
        let padded = numbers(&[rows, size + 5], 3)?;
        let sliced = ops::slice_tensor(&padded, 1, Some(2), Some(size + 2), 1)?;
        let half = table.to(ScalarType::BF16)?;
        for index in runs(size) {
            let n = index.len() as i64;
            let as_tensor = Tensor::from_vec(index.clone(), &[n])?;
            for x in [&table, &sliced, &half] {
                let made = ops::index_select(x, 1, &as_tensor)?.to(ScalarType::F32)?.to_vec::<f32>()?;
                let from = x.to(ScalarType::F32)?.to_vec::<f32>()?;
                let row = |r: i64| index.iter().map(move |i| (r * size + i) as usize);
                let expected: Vec<f32> = (0..rows).flat_map(row).map(|at| from[at]).collect();
                assert_eq!(bits(&made), bits(&expected), "{rows} {size}");
            }
            // The sums of each element are those of a loop in the order of the indices.
            let source = numbers(&[rows, n], 9)?;
            let (mut expected, from) = (table.to_vec::<f32>()?, source.to_vec::<f32>()?);
            for r in 0..rows {
                for (at, i) in index.iter().enumerate() {
                    expected[(r * size + i) as usize] += from[r as usize * index.len() + at];
                }
            }
            for threads in [1, 2, 3, 7] {
                parallel::set_num_threads(threads);
                let made = ops::index_add(&table, 1, &as_tensor, &source, ONE)?.to_vec::<f32>()?;
                assert_eq!(bits(&made), bits(&expected), "{rows} {size}, {threads} threads");
            }
        }
        // The last of adjacent indices is outside.
        let outside: Vec<i64> = (1..=size).collect();
        let outside = Tensor::from_vec(outside, &[size])?;
        let error = ops::index_add(&table, 1, &outside, &table, ONE).err();
        assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::InvalidArgument));
        assert!(ops::index_select(&table, 1, &outside).is_err());
    }
    parallel::set_num_threads(1);
    Ok(())
}

/// A tensor without dimensions has one element, at index 0.
#[test]
fn elements_are_put_where_there_are_no_dimensions() -> Result<()> {
    let (x, zero) = (Tensor::from(2.0f32), Tensor::from(0i64));
    let one = Tensor::from(1.0f32);
    assert_eq!(ops::put(&x, &zero, &one, true)?.to_vec::<f32>()?, [3.0]);
    assert_eq!(ops::put(&x, &zero, &one, false)?.to_vec::<f32>()?, [1.0]);
    assert_eq!(ops::take(&x, &zero)?.to_vec::<f32>()?, [2.0]);
    Ok(())
}

#[test]
fn slices_are_filled_with_numbers_that_the_type_holds() {
    let index = Tensor::from([0i64]);
    let fill = |dtype, value: &Tensor| {
        ops::index_fill_int_tensor(
            &ops::zeros(&[2], Some(dtype), None, None, None).unwrap(),
            0,
            &index,
            value,
        )
    };
    let number = |t: &Tensor| t.reshape(&[]).unwrap();
    let (complex, large) =
        (number(&Tensor::from([Complex::new(1.0f32, 0.0)])), number(&Tensor::from([u64::MAX])));
    assert!(fill(ScalarType::F32, &complex).unwrap_err().message().contains("a real value"));
    assert!(fill(ScalarType::I16, &large).unwrap_err().message().contains("without overflow"));
    assert_eq!(values(&fill(ScalarType::F32, &number(&Tensor::from([2.5f64]))).unwrap()), [2.5, 0.0]);
    assert!(fill(ScalarType::Complex64, &complex).is_ok());
}

#[test]
fn sources_and_indices_have_the_required_dimensions_and_types() {
    let index = Tensor::from([0i64]);
    let (vector, number) = (Tensor::from([1.0f32]), Tensor::from([1.0f32]).reshape(&[]).unwrap());
    for (to, source) in [(&vector, &number), (&number, &vector)] {
        let error = ops::index_add(to, 0, &index, source, Scalar::Int(1)).unwrap_err();
        assert!(error.message().contains("shape must match"), "{error}");
    }
    let mask = Tensor::from([true]);
    for include in [false, true] {
        assert!(ops::index_reduce(&mask, 0, &index, &mask, "prod", include).is_err());
    }
    assert!(ops::take_along_dim(&vector, &mask, Some(0)).unwrap_err().message().contains("int64 or int32"));
    assert!(ops::take_along_dim(&vector, &mask, None).is_err());
}

#[test]
fn runs_of_slices_come_with_what_is_requested() {
    let x = Tensor::from([3.0f32, 3.0, 1.0]);
    let (chosen, inverse, counts) = ops::unique_consecutive(&x, false, true, Some(0)).unwrap();
    assert_eq!(
        (values(&chosen), values(&inverse), values(&counts)),
        (vec![3.0, 1.0], vec![], vec![2.0, 1.0])
    );
    let (_, inverse, counts) = ops::unique_consecutive(&x, true, false, Some(0)).unwrap();
    assert_eq!((values(&inverse), values(&counts)), (vec![0.0, 0.0, 1.0], vec![]));
    let number = x.select(0, 0).unwrap();
    assert!(
        ops::unique_consecutive(&number, false, false, Some(0))
            .unwrap_err()
            .message()
            .contains("no dimensions")
    );
}

#[test]
fn windows_are_put_back_where_they_were() {
    let windows = sample(&[3, 4], ScalarType::F64, 5);
    let whole = values(&ops::unfold_backward(&windows, &[8], 0, 4, 2).unwrap());
    let w = values(&windows);
    assert_eq!(whole, [w[0], w[1], w[2] + w[4], w[3] + w[5], w[6] + w[8], w[7] + w[9], w[10], w[11]]);
    for (sizes, size, step) in [(&[10][..], 4, 2), (&[8], 3, 2), (&[], 4, 1)] {
        let error = ops::unfold_backward(&windows, sizes, 0, size, step).unwrap_err();
        assert!(error.message().contains("expected windows"), "{error}");
    }
    let half = sample(&[99, 60], ScalarType::F16, 6);
    let wide = ops::unfold_backward(&cast(&half, ScalarType::F32), &[158], 0, 60, 1).unwrap();
    let sums = ops::unfold_backward(&half, &[158], 0, 60, 1).unwrap();
    assert_eq!(values(&sums), values(&cast(&wide, ScalarType::F16)));
}

#[test]
fn images_have_one_window_at_strides_beyond_their_size() {
    let x = sample(&[2, 3, 5, 5], ScalarType::F32, 7);
    let columns = |stride| ops::im2col(&x, &[2, 2], &[1, 1], &[0, 0], &[stride, 1]);
    assert_eq!(values(&columns(1 << 40).unwrap()), values(&columns(4).unwrap()));
    let wide = columns(i64::MAX).unwrap();
    let image =
        |stride| values(&ops::col2im(&wide, &[5, 5], &[2, 2], &[1, 1], &[0, 0], &[stride, 1]).unwrap());
    assert_eq!(image(i64::MAX), image(4));
    assert!(
        ops::im2col(&x, &[2, 2], &[1, 1], &[1 << 31, 0], &[1, 1]).unwrap_err().message().contains("at most")
    );
    let none = x.narrow(3, 0, 0).unwrap();
    assert!(
        ops::im2col(&none, &[2, 2], &[1, 1], &[1, 2], &[1, 1]).unwrap_err().message().contains("non-zero")
    );
}

#[test]
fn dimensions_of_one_element_have_any_stride() {
    let pairs = ops::as_strided(&sample(&[48], ScalarType::F32, 8), &[1, 4, 2], &[1, 2, 1], None).unwrap();
    assert_eq!(ops::view_as_complex(&pairs).unwrap().sizes(), [1, 4]);
    let odd = ops::as_strided(&sample(&[48], ScalarType::F32, 8), &[2, 4, 2], &[1, 2, 1], None).unwrap();
    assert!(ops::view_as_complex(&odd).is_err());
}
