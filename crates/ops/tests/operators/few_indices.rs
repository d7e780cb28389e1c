//! Rows that are written at the same few indices, tables of few elements, and masks of one row, against loops in the order of the indices.

use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const ONE: Scalar = Scalar::Int(1);
const ROWS: i64 = 3000;

/// Numbers of which sums depend on their order.
fn numbers(sizes: &[i64], seed: u64) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    let number = |i: u64| {
        let h = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        (h % 2003) as f32 * 1.0001e-3 - (h % 5) as f32 * 1e5
    };
    Tensor::from_vec((0..n as u64).map(number).collect(), sizes)
}

/// The same elements, columns after each other.
fn by_columns(matrix: &Tensor) -> Result<Tensor> {
    let columns = ops::contiguous(&ops::transpose_int(matrix, 0, 1)?, MemoryFormat::Contiguous)?;
    ops::transpose_int(&columns, 0, 1)
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect())
}

#[test]
fn columns_are_added_in_the_order_of_the_indices() -> Result<()> {
    let at = [3usize, 0, 3, 4, 3];
    let index = Tensor::from_vec(at.iter().map(|i| *i as i64).collect(), &[5])?;
    let (x, source) = (numbers(&[ROWS, 6], 1)?, numbers(&[ROWS, 5], 2)?);
    let (mut want, from) = (x.to_vec::<f32>()?, source.to_vec::<f32>()?);
    for (offset, new) in from.iter().enumerate() {
        want[offset / 5 * 6 + at[offset % 5]] += new;
    }
    let want = bits(&Tensor::from_vec(want, &[ROWS, 6])?)?;
    for threads in [1, 2] {
        parallel::set_num_threads(threads);
        for source in [source.clone(), by_columns(&source)?] {
            assert!(bits(&ops::index_add(&x, 1, &index, &source, ONE)?)? == want, "{threads} threads");
            let target = by_columns(&x)?;
            ops::index_add_(&target, 1, &index, &source, ONE)?;
            assert!(bits(&target)? == want, "by columns, {threads} threads");
        }
    }
    parallel::set_num_threads(1);
    let filled = ops::index_fill_int_scalar(&x, 1, &index, Scalar::Int(7))?.to_vec::<f32>()?;
    let old = x.to_vec::<f32>()?;
    for (offset, value) in filled.iter().enumerate() {
        let is_filled = [0, 3, 4].contains(&(offset % 6));
        assert_eq!(*value, if is_filled { 7.0 } else { old[offset] });
    }
    Ok(())
}

#[test]
fn half_precision_is_rounded_once_at_few_indices() -> Result<()> {
    let half = |t: &Tensor| ops::to_dtype(t, ScalarType::BF16, false, false, None);
    let wide = |t: &Tensor| ops::to_dtype(t, ScalarType::F32, false, false, None);
    let (x, source) = (half(&numbers(&[3, 4000], 1)?)?, half(&numbers(&[3, 4], 2)?)?);
    let index = Tensor::from_vec(vec![17i64, 3999, 17, 0], &[4])?;
    let want = half(&ops::index_add(&wide(&x)?, 1, &index, &wide(&source)?, ONE)?)?;
    assert_eq!(bits(&wide(&ops::index_add(&x, 1, &index, &source, ONE)?)?)?, bits(&wide(&want)?)?);
    let row = ops::select_int(&source, 0, 0)?;
    let want = half(&ops::put(&wide(&x)?, &index, &wide(&row)?, true)?)?;
    assert_eq!(bits(&wide(&ops::put(&x, &index, &row, true)?)?)?, bits(&wide(&want)?)?);
    let want = half(&ops::index_reduce(&wide(&x)?, 1, &index, &wide(&source)?, "prod", true)?)?;
    let got = ops::index_reduce(&x, 1, &index, &source, "prod", true)?;
    assert_eq!(bits(&wide(&got)?)?, bits(&wide(&want)?)?);
    let outside = Tensor::from_vec(vec![4000i64], &[1])?;
    let one = ops::slice_tensor(&source, 1, Some(0), Some(1), 1)?;
    assert!(ops::index_add(&x, 1, &outside, &one, ONE).is_err());
    Ok(())
}

#[test]
fn few_elements_and_strided_rows_are_gathered() -> Result<()> {
    let table = numbers(&[2, 5], 1)?;
    let index = Tensor::from_vec((0..2 * ROWS).map(|i| i * i % 5).collect(), &[2, ROWS])?;
    let (old, at) = (table.to_vec::<f32>()?, index.to_vec::<i64>()?);
    let want: Vec<f32> =
        at.iter().enumerate().map(|(offset, i)| old[offset / ROWS as usize * 5 + *i as usize]).collect();
    for table in [table.clone(), by_columns(&table)?] {
        assert_eq!(ops::gather(&table, 1, &index, false)?.to_vec::<f32>()?, want);
    }
    for rows in [2, 3, 4, 7] {
        let weight = numbers(&[rows, ROWS], 3)?;
        let index = Tensor::from_vec(vec![rows - 1, 0, rows - 1], &[3])?;
        let want = ops::embedding(&weight, &index, -1, false, false)?;
        let got = ops::embedding(&by_columns(&weight)?, &index, -1, false, false)?;
        assert_eq!(bits(&got)?, bits(&want)?, "{rows} rows");
    }
    Ok(())
}

#[test]
fn masks_of_one_row_choose_columns() -> Result<()> {
    let (x, source) = (numbers(&[ROWS, 3], 1)?, numbers(&[ROWS, 3], 2)?);
    let row = Tensor::from([true, false, true]);
    let column = ops::gt_scalar(&ops::slice_tensor(&x, 1, Some(0), Some(1), 1)?, Scalar::Int(-100_000))?;
    let mixed = ops::gt_scalar(&x, Scalar::Int(-100_000))?;
    for mask in [row, column, mixed, Tensor::from([false]), Tensor::from([true])] {
        let chosen = ops::expand(&mask, &[ROWS, 3], false)?.to_vec::<bool>()?;
        let (mut from, mut want) = (source.to_vec::<f32>()?.into_iter(), x.to_vec::<f32>()?);
        for (to, is_chosen) in want.iter_mut().zip(chosen) {
            if is_chosen {
                *to = from.next().unwrap();
            }
        }
        assert_eq!(ops::masked_scatter(&x, &mask, &source)?.to_vec::<f32>()?, want);
        let target = by_columns(&x)?;
        ops::masked_scatter_(&target, &mask, &source)?;
        assert_eq!(target.to_vec::<f32>()?, want);
    }
    Ok(())
}

#[test]
fn unpooled_images_have_the_order_of_their_channels() -> Result<()> {
    let (x, index) = (numbers(&[50, 3, 2, 2], 1)?, numbers(&[50, 3, 2, 2], 2)?);
    let index =
        ops::to_dtype(&ops::remainder_scalar(&index, Scalar::Int(12))?, ScalarType::I64, false, false, None)?;
    let want = ops::max_unpool2d(&x, &index, &[3, 4])?;
    let last = |t: &Tensor| ops::contiguous(t, MemoryFormat::ChannelsLast);
    let got = ops::max_unpool2d(&last(&x)?, &last(&index)?, &[3, 4])?;
    assert_eq!(got.strides(), last(&want)?.strides());
    assert_eq!(bits(&got)?, bits(&want)?);
    Ok(())
}

#[test]
fn indices_are_repeated_as_often_as_counts_say() -> Result<()> {
    let counts: Vec<i64> = (0..ROWS).map(|i| [0, 1, 3, 4, 5, 9][(i * i % 6) as usize]).collect();
    let want: Vec<i64> =
        (0i64..).zip(&counts).flat_map(|(i, count)| std::iter::repeat_n(i, *count as usize)).collect();
    let counts = Tensor::from_vec(counts, &[ROWS])?;
    assert_eq!(ops::repeat_interleave_tensor(&counts, None)?.to_vec::<i64>()?, want);
    Ok(())
}
