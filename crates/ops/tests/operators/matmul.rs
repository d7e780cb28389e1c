//! Products of matrices, vectors and batches against sums in f64.

use crate::exact::{NUMBERS, empty, layouts, numel, product, small, tensor, values};
use flambeau_core::{Device, ErrorKind, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const ONE: Scalar = Scalar::Int(1);

fn made(sizes: &[i64], seed: u64, dtype: ScalarType) -> (Tensor, Vec<f64>) {
    let data = small(numel(sizes), seed, dtype);
    (tensor(&data, sizes, dtype), data)
}

#[test]
fn mm_of_every_type_and_layout() {
    for dtype in NUMBERS {
        for [m, k, n] in [[3, 4, 5], [1, 7, 2], [6, 1, 3], [2, 0, 3], [0, 2, 2], [17, 9, 33]] {
            let (a, x) = made(&[m, k], 1, dtype);
            let (b, y) = made(&[k, n], 2, dtype);
            let expected = product(&x, &y, [1, m as usize, k as usize, n as usize]);
            for a in layouts(&a) {
                for b in layouts(&b) {
                    let c = ops::mm(&a, &b).unwrap();
                    assert_eq!((c.dtype(), c.sizes()), (dtype, [m, n].as_slice()));
                    assert_eq!(values(&c), expected, "{dtype} {m}x{k}x{n}");
                }
            }
        }
    }
}

#[test]
fn batches_of_every_type_and_layout() {
    for dtype in NUMBERS {
        let (a, x) = made(&[3, 2, 4], 3, dtype);
        let (b, y) = made(&[3, 4, 5], 4, dtype);
        let expected = product(&x, &y, [3, 2, 4, 5]);
        let (addend, z) = made(&[5], 5, dtype);
        let added: Vec<f64> = expected.iter().enumerate().map(|(i, e)| e + 3.0 * z[i % 5]).collect();
        for a in layouts(&a) {
            for b in layouts(&b) {
                assert_eq!(values(&ops::bmm(&a, &b).unwrap()), expected, "{dtype}");
                let sum = ops::baddbmm(&addend, &a, &b, Scalar::Int(3), ONE).unwrap();
                assert_eq!(values(&sum), added, "{dtype}");
            }
        }
        let expanded = ops::expand(&addend, &[3, 2, 5], false).unwrap();
        assert_eq!(values(&ops::baddbmm(&expanded, &a, &b, Scalar::Int(3), ONE).unwrap()), added);
    }
}

#[test]
fn sums_and_products_of_matrices() {
    let dtype = ScalarType::F32;
    let (c, z) = made(&[4, 1], 6, dtype);
    let (a, x) = made(&[4, 3], 7, dtype);
    let (b, y) = made(&[3, 5], 8, dtype);
    let p = product(&x, &y, [1, 4, 3, 5]);
    let expected: Vec<f64> = p.iter().enumerate().map(|(i, p)| 0.5 * z[i / 5] - 2.0 * p).collect();
    let sum = ops::addmm(&c, &a, &b, Scalar::Float(0.5), Scalar::Int(-2)).unwrap();
    assert_eq!(values(&sum), expected);
    let nan = ops::full(&[4, 5], Scalar::Float(f64::NAN), None, None, None, None).unwrap();
    assert_eq!(values(&ops::addmm(&nan, &a, &b, Scalar::Int(0), ONE).unwrap()), p);
    let target = ops::clone(&ops::expand(&c, &[4, 5], false).unwrap(), None).unwrap();
    ops::addmm_(&target, &a, &b, Scalar::Float(0.5), Scalar::Int(-2)).unwrap();
    assert_eq!(values(&target), expected);
    let out = empty(&[0], dtype);
    ops::addmm_out(&c, &a, &b, Scalar::Float(0.5), Scalar::Int(-2), &out).unwrap();
    assert_eq!(values(&out), expected);
    let (none, wide) = (empty(&[4, 0], dtype), empty(&[0, 5], dtype));
    let scaled = ops::addmm(&c, &none, &wide, Scalar::Float(0.5), ONE).unwrap();
    assert_eq!(values(&scaled), (0..20).map(|i| 0.5 * z[i / 5]).collect::<Vec<_>>());
}

#[test]
fn without_an_addend_the_product_is_scaled_all_the_same() {
    let dtype = ScalarType::F64;
    let nan = ops::full(&[], Scalar::Float(f64::NAN), Some(dtype), None, None, None).unwrap();
    let (a, x) = made(&[3, 4, 6], 18, dtype);
    let (b, y) = made(&[3, 6, 5], 19, dtype);
    let (none, thrice) = (Scalar::Int(0), Scalar::Int(-3));
    let scaled = |p: Vec<f64>| p.iter().map(|p| -3.0 * p).collect::<Vec<_>>();
    let batches = scaled(product(&x, &y, [3, 4, 6, 5]));
    assert_eq!(values(&ops::baddbmm(&nan, &a, &b, none, thrice).unwrap()), batches);
    let (a, b) = (ops::select_int(&a, 0, 0).unwrap(), ops::select_int(&b, 0, 0).unwrap());
    assert_eq!(values(&ops::addmm(&nan, &a, &b, none, thrice).unwrap()), batches[..20]);
    let column = ops::select_int(&b, 1, 0).unwrap();
    let first: Vec<f64> = batches[..20].iter().step_by(5).copied().collect();
    assert_eq!(values(&ops::addmv(&nan, &a, &column, none, thrice).unwrap()), first);
}

#[test]
fn a_result_may_be_written_over_an_operand() {
    let (a, x) = made(&[4, 4], 9, ScalarType::F64);
    let expected = product(&x, &x, [1, 4, 4, 4]);
    ops::mm_out(&a, &ops::t(&ops::t(&a).unwrap()).unwrap(), &a).unwrap();
    assert_eq!(values(&a), expected);
}

#[test]
fn vectors() {
    for dtype in NUMBERS {
        let (a, x) = made(&[5, 7], 10, dtype);
        let (v, y) = made(&[7], 11, dtype);
        let (w, z) = made(&[5], 12, dtype);
        let expected = product(&x, &y, [1, 5, 7, 1]);
        for a in layouts(&a) {
            for v in layouts(&v) {
                assert_eq!(values(&ops::mv(&a, &v).unwrap()), expected, "{dtype}");
                let sum: Vec<f64> = expected.iter().zip(&z).map(|(e, z)| 2.0 * z + e).collect();
                assert_eq!(values(&ops::addmv(&w, &a, &v, Scalar::Int(2), ONE).unwrap()), sum, "{dtype}");
                let square = y.iter().map(|y| y * y).sum::<f64>();
                let dot = ops::dot(&v, &v).unwrap();
                assert_eq!((values(&dot), dot.dim()), (vec![square], 0), "{dtype}");
            }
        }
        let outer = ops::outer(&v, &w).unwrap();
        assert_eq!((values(&outer), outer.sizes()), (product(&y, &z, [1, 7, 1, 5]), [7, 5].as_slice()));
    }
    let none = empty(&[0], ScalarType::F32);
    assert_eq!(values(&ops::dot(&none, &none).unwrap()), [0.0]);
    assert_eq!(values(&ops::mv(&empty(&[2, 0], ScalarType::F32), &none).unwrap()), [0.0, 0.0]);
}

#[test]
fn sums_of_batches_and_outer_products() {
    let dtype = ScalarType::I32;
    let (a, x) = made(&[3, 2, 4], 13, dtype);
    let (b, y) = made(&[3, 4, 5], 14, dtype);
    let (c, z) = made(&[2, 5], 15, dtype);
    let parts = product(&x, &y, [3, 2, 4, 5]);
    let sums: Vec<f64> =
        (0..10).map(|i| 2.0 * z[i] - (0..3).map(|p| parts[p * 10 + i]).sum::<f64>()).collect();
    assert_eq!(values(&ops::addbmm(&c, &a, &b, Scalar::Int(2), Scalar::Int(-1)).unwrap()), sums);
    let (v, w) = (made(&[2], 16, dtype), made(&[5], 17, dtype));
    let outer = product(&v.1, &w.1, [1, 2, 1, 5]);
    let sums: Vec<f64> = (0..10).map(|i| 2.0 * z[i] - outer[i]).collect();
    assert_eq!(values(&ops::addr(&c, &v.0, &w.0, Scalar::Int(2), Scalar::Int(-1)).unwrap()), sums);
}

#[test]
fn factors_of_an_outer_product_have_the_kind_of_its_result() {
    let whole = (Tensor::from([[1i64, 2], [3, 4]]), Tensor::from([1i64, 2]));
    let kind =
        |beta, alpha| ops::addr(&whole.0, &whole.1, &whole.1, beta, alpha).map_err(|e| e.kind()).map(drop);
    let (one, half, yes) = (Scalar::Int(1), Scalar::Float(0.5), Scalar::Bool(true));
    assert_eq!(kind(one, one), Ok(()));
    for wrong in [half, yes, Scalar::Complex(0.0, 1.0)] {
        assert_eq!(kind(wrong, one), Err(ErrorKind::Dtype));
        assert_eq!(kind(one, wrong), Err(ErrorKind::Dtype));
    }
    let real = Tensor::from([1.0f32, 2.0]);
    assert_eq!(values(&ops::addr(&whole.0, &real, &whole.1, half, half).unwrap()), [1.0, 2.0, 2.5, 4.0]);
    let bools = Tensor::from([true, false]);
    assert!(ops::addr(&bools, &bools, &bools, yes, yes).is_ok());
    assert!(ops::addr(&bools, &bools, &bools, half, yes).is_err());
}

/// `matmul` by its definition: broadcast batches, a vector as a row or a column.
fn reference(x: &[f64], a: &[i64], y: &[f64], b: &[i64]) -> (Vec<i64>, Vec<f64>) {
    let full = |s: &[i64], row: bool| match s {
        [n] if row => vec![1, *n],
        [n] => vec![*n, 1],
        s => s.to_vec(),
    };
    let (fa, fb) = (full(a, true), full(b, false));
    let (ba, bb) = (&fa[..fa.len() - 2], &fb[..fb.len() - 2]);
    let batch = flambeau_core::shape::broadcast(ba, bb).unwrap();
    let [m, k, n] = [fa[fa.len() - 2], fa[fa.len() - 1], fb[fb.len() - 1]].map(|d| d as usize);
    let mut out = vec![];
    for index in 0..numel(&batch) {
        let offset = |own: &[i64]| {
            let (mut rest, mut at, mut step) = (index as i64, 0, 1);
            for d in 0..batch.len() {
                let (size, back) = (batch[batch.len() - 1 - d], d + 1);
                let here = rest % size;
                rest /= size;
                if back <= own.len() {
                    let length = own[own.len() - back];
                    at += if length == 1 { 0 } else { here * step };
                    step *= length;
                }
            }
            at as usize
        };
        let (i, j) = (offset(ba), offset(bb));
        out.extend(product(&x[i * m * k..][..m * k], &y[j * k * n..][..k * n], [1, m, k, n]));
    }
    let mut sizes = batch.to_vec();
    sizes.extend((a.len() > 1).then_some(m as i64));
    sizes.extend((b.len() > 1).then_some(n as i64));
    (sizes, out)
}

#[test]
fn matmul_of_every_rank() {
    let shapes: [(&[i64], &[i64]); 14] = [
        (&[4], &[4]),
        (&[3, 4], &[4]),
        (&[4], &[4, 5]),
        (&[3, 4], &[4, 5]),
        (&[2, 3, 4], &[4]),
        (&[2, 3, 4], &[4, 5]),
        (&[4], &[2, 4, 5]),
        (&[3, 4], &[2, 4, 5]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[2, 1, 3, 4], &[5, 4, 2]),
        (&[2, 3, 3, 4], &[1, 4, 2]),
        (&[0, 3, 4], &[4, 5]),
        (&[2, 3, 0], &[0, 5]),
        (&[2, 1, 3, 4], &[2, 0, 4, 2]),
    ];
    for (a, b) in shapes {
        let (t, x) = made(a, 18, ScalarType::F32);
        let (u, y) = made(b, 19, ScalarType::F32);
        let (sizes, expected) = reference(&x, a, &y, b);
        for t in layouts(&t) {
            for u in layouts(&u) {
                let c = ops::matmul(&t, &u).unwrap();
                assert_eq!((c.sizes(), values(&c)), (sizes.as_slice(), expected.clone()), "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn linear_of_every_rank() {
    for sizes in [vec![4], vec![3, 4], vec![2, 3, 4], vec![2, 1, 3, 4], vec![0, 4]] {
        let (input, x) = made(&sizes, 20, ScalarType::F32);
        let (weight, w) = made(&[5, 4], 21, ScalarType::F32);
        let (bias, b) = made(&[5], 22, ScalarType::F32);
        let wt: Vec<f64> = (0..20).map(|i| w[i % 5 * 4 + i / 5]).collect();
        let plain = product(&x, &wt, [1, x.len() / 4, 4, 5]);
        let sum: Vec<f64> = plain.iter().enumerate().map(|(i, p)| p + b[i % 5]).collect();
        for input in layouts(&input) {
            assert_eq!(values(&ops::linear(&input, &weight, None).unwrap()), plain);
            let y = ops::linear(&input, &weight, Some(&bias)).unwrap();
            assert_eq!(values(&y), sum, "{sizes:?}");
            assert_eq!((y.sizes().last(), y.dim()), (Some(&5), sizes.len()));
        }
    }
}

#[test]
fn errors_name_the_operator() {
    let of = |sizes: &[i64]| empty(sizes, ScalarType::F32);
    let check = |result: flambeau_core::Result<Tensor>, kind, words: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
    };
    use ErrorKind::{Device as DeviceError, Dtype, NotImplemented, Shape};
    let whole = empty(&[2, 2], ScalarType::I64);
    check(
        ops::mm(&of(&[2, 2]), &of(&[3, 2])),
        Shape,
        "mm: mat1 and mat2 shapes cannot be multiplied (2x2 and 3x2)",
    );
    check(ops::mm(&of(&[2]), &of(&[2, 2])), Shape, "mm: self must be a matrix, got 1-D tensor");
    check(ops::mm(&of(&[2, 2]), &whole), Dtype, "expected m1 and m2 to have the same dtype");
    let truths = empty(&[2, 2], ScalarType::Bool);
    check(ops::mm(&truths, &truths), NotImplemented, "bool");
    check(ops::bmm(&of(&[2, 2]), &of(&[2, 2])), Shape, "batch1 must be a 3D tensor");
    check(ops::bmm(&of(&[1, 2, 2]), &of(&[1, 3, 2])), Shape, "[1, 2] but got: [1, 3]");
    check(ops::addmm(&of(&[3]), &of(&[2, 2]), &of(&[2, 2]), ONE, ONE), Shape, "addmm");
    check(ops::addmm(&of(&[1, 2, 2]), &of(&[2, 2]), &of(&[2, 2]), ONE, ONE), Shape, "addmm");
    check(ops::addmm(&whole, &of(&[2, 2]), &of(&[2, 2]), ONE, ONE), Dtype, "self and mat2");
    check(ops::mv(&of(&[2, 2]), &of(&[3])), Shape, "size mismatch, got input (2), mat (2x2), vec (3)");
    check(ops::dot(&of(&[2]), &of(&[3])), Shape, "inconsistent tensor size");
    check(ops::matmul(&of(&[]), &of(&[2])), Shape, "at least 1D, but they are 0D and 1D");
    check(ops::matmul(&of(&[3, 2, 2]), &of(&[2, 2, 2])), Shape, "matmul");
    let meta = ops::empty_memory_format(&[2, 2], None, None, Some(Device::META), None, None).unwrap();
    check(ops::mm(&meta, &of(&[2, 2])), DeviceError, "same device");
    assert_eq!(ops::matmul(&meta, &meta).unwrap().sizes(), &[2, 2]);
    let small = tensor(&[1.0; 4], &[2, 2], ScalarType::I8);
    assert!(ops::addmm(&small, &small, &small, ONE, Scalar::Int(300)).is_err());
    let truncated = ops::addmm(&small, &small, &small, Scalar::Float(1.5), ONE).unwrap();
    assert_eq!(values(&truncated), [3.0; 4]);
}

#[test]
fn bilinear_takes_one_type() {
    let of = |sizes: &[i64], dtype| tensor(&vec![1.0; numel(sizes)], sizes, dtype);
    let (x, w) = (of(&[2, 3], ScalarType::U8), of(&[5, 3, 3], ScalarType::U8));
    let bias = of(&[5], ScalarType::I16);
    assert_eq!(ops::bilinear(&x, &x, &w, None).unwrap().dtype(), ScalarType::U8);
    let error = ops::bilinear(&x, &x, &w, Some(&bias)).unwrap_err();
    assert_eq!((error.kind(), error.argument()), (ErrorKind::Dtype, Some("bias")));
    assert_eq!((error.expected(), error.got()), (Some("uint8"), Some("int16")));
}

/// Results are those of PyTorch 2.15.
#[test]
fn lu_unpack_takes_every_type() {
    let pivots = Tensor::from([2i32, 2]);
    for dtype in [ScalarType::I32, ScalarType::U8, ScalarType::F16, ScalarType::F64, ScalarType::Complex64] {
        let factors = tensor(&[4.0, 2.0, 3.0, 5.0], &[2, 2], dtype);
        let (p, l, u) = ops::lu_unpack(&factors, &pivots, true, true).unwrap();
        let real = |t: &Tensor| {
            assert_eq!(t.dtype(), dtype);
            values(&if dtype.is_complex() { ops::real(t).unwrap() } else { t.clone() })
        };
        assert_eq!(real(&p), [0.0, 1.0, 1.0, 0.0], "{dtype}");
        assert_eq!((real(&l), real(&u)), (vec![1.0, 0.0, 3.0, 1.0], vec![4.0, 2.0, 0.0, 5.0]), "{dtype}");
    }
}

#[test]
fn tolerances_are_real() {
    let a = tensor(&[2.0, 0.0, 0.0, 4.0], &[2, 2], ScalarType::F32);
    let [real, complex] = [ScalarType::F32, ScalarType::Complex64]
        .map(|dtype| tensor(&[0.1], &[], ScalarType::F32).to(dtype).unwrap());
    assert_eq!(values(&ops::linalg_pinv_rcond_tensor(&a, &real, false).unwrap()), [0.5, 0.0, 0.0, 0.25]);
    let error = ops::linalg_pinv_rcond_tensor(&a, &complex, false).unwrap_err();
    assert_eq!((error.kind(), error.got()), (ErrorKind::Dtype, Some("complex64")));
}

#[test]
fn thread_counts_change_no_bit() {
    let data: Vec<f32> = (0..256 * 256).map(|i| (i * 7919 % 1013) as f32 / 1013.0 - 0.5).collect();
    let a = Tensor::from_vec(data, &[4, 128, 128]).unwrap();
    let run = |threads| {
        parallel::set_num_threads(threads);
        values(&ops::matmul(&a, &ops::transpose_int(&a, 1, 2).unwrap()).unwrap())
    };
    let (one, three) = (run(1), run(3));
    assert!(one.iter().zip(&three).all(|(a, b)| a.to_bits() == b.to_bits()));
}

/// Results are those of PyTorch 2.15.
#[test]
fn factors_of_sums() {
    let infinity = Scalar::Float(f64::INFINITY);
    let x = tensor(&[3.0], &[1, 1], ScalarType::F32);
    let [a, b] = [[1, 0], [0, 1]].map(|sizes| empty(&sizes, ScalarType::F32));
    assert_eq!(values(&ops::addmm(&x, &a, &b, Scalar::Int(2), infinity).unwrap()), [6.0]);
    let complex = tensor(&[3.0], &[1, 1], ScalarType::Complex64);
    let sum = ops::addmm(&complex, &complex, &complex, Scalar::Bool(true), ONE).unwrap();
    assert_eq!(values(&ops::real(&sum).unwrap()), [12.0]);
    let bytes = tensor(&[1.0], &[1, 1], ScalarType::U8);
    assert!(ops::addmm(&bytes, &bytes, &bytes, Scalar::Float(-0.5), ONE).is_err());
}

/// The result is that of PyTorch 2.15.
#[test]
fn the_dtype_of_addr_is_that_of_its_tensors() {
    let of = |data: &[f64], dtype| tensor(data, &[data.len() as i64], dtype);
    let (x, a, b) =
        (of(&[1.0, 0.0], ScalarType::Bool), of(&[5.0], ScalarType::I32), of(&[1.0, 0.0], ScalarType::Bool));
    let sum = ops::addr(&x, &a, &b, Scalar::Int(3), Scalar::Int(2)).unwrap();
    assert_eq!((sum.dtype(), values(&sum)), (ScalarType::I32, vec![13.0, 0.0]));
    let half = of(&[1.0], ScalarType::F16);
    assert!(ops::addr(&half, &half, &half, ONE, Scalar::Int(1 << 40)).is_err());
}

#[test]
fn block_diag_promotes_tensors_as_they_are() {
    let number = tensor(&[2.0], &[], ScalarType::F64);
    let matrix = tensor(&[1.0, 1.0], &[1, 2], ScalarType::Complex64);
    assert_eq!(ops::block_diag(&[number, matrix]).unwrap().dtype(), ScalarType::Complex64);
}

#[test]
fn tolerances_may_be_bool_and_reflectors_are_all_given() {
    let a = Tensor::from([[2.0f32, 0.0], [0.0, 1.0]]);
    let yes = Tensor::from([true]).reshape(&[]).unwrap();
    let inverse = ops::linalg_pinv_atol_rtol_tensor(&a, Some(&yes), None, false).unwrap();
    assert_eq!(inverse.to_vec::<f32>().unwrap(), [0.5, 0.0, 0.0, 0.0]);
    let tau = Tensor::from([0.5f32]);
    let error = ops::ormqr(&a, &tau, &a, true, false).unwrap_err();
    assert!(error.message().contains("tau.shape[-1]"), "{error}");
}

#[test]
fn matrix_norms_are_computed_in_types_that_hold_the_matrix() {
    let a = Tensor::from([[1.0f64, 2.0], [3.0, 5.0]]);
    for ord in ["nuc", "fro"] {
        for dtype in [ScalarType::F32, ScalarType::Complex128] {
            let error = ops::linalg_matrix_norm_str_ord(&a, ord, &[0, 1], false, Some(dtype)).unwrap_err();
            assert!(error.message().contains("without narrowing"), "{ord} {dtype}: {error}");
        }
    }
}

#[test]
fn attention_drops_a_part_of_its_weights() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 5.0]]);
    for p in [-0.5, 1.5, f64::NAN] {
        let error = ops::scaled_dot_product_attention(&x, &x, &x, None, p, false, None, false).unwrap_err();
        assert!(error.message().contains("between 0 and 1"), "{error}");
    }
}
