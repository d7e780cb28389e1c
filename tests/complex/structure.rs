//! Storage, views, conversions, copies, indexing and text of complex tensors.

use crate::{C, COMPLEX, c, draw, numbers, reals, tensor};
use flambeau_core::{Complex, MemoryFormat, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

#[test]
fn elements_go_in_and_out() {
    let values = vec![Complex::new(1.0f32, -2.0), Complex::new(0.5, 3.0)];
    let t = Tensor::from_vec(values.clone(), &[2]).unwrap();
    assert_eq!((t.dtype(), t.element_size(), t.is_complex()), (ScalarType::Complex64, 8, true));
    assert_eq!(t.to_vec::<Complex<f32>>().unwrap(), values);
    assert!(t.to_vec::<f32>().is_err());
    let one = Tensor::from(Complex::new(1.5f64, -0.5));
    assert_eq!((one.dim(), one.item::<Complex<f64>>().unwrap()), (0, Complex::new(1.5, -0.5)));
    assert_eq!(one.item_scalar().unwrap(), Scalar::Complex(1.5, -0.5));
    assert_eq!(Tensor::new([Complex::new(1.0f64, 2.0)], ()).unwrap().dtype(), ScalarType::Complex64);
    for (made, value) in [
        (ops::zeros(&[3], Some(ScalarType::Complex128), None, None, None), 0.0),
        (ops::ones(&[3], Some(ScalarType::Complex128), None, None, None), 1.0),
    ] {
        assert_eq!(numbers(&made.unwrap()), [c(value, 0.0); 3]);
    }
    let full = ops::full(&[2], Scalar::Complex(1.0, -1.0), None, None, None, None).unwrap();
    assert_eq!(numbers(&full), [c(1.0, -1.0); 2]);
}

#[test]
fn conversions_drop_imaginary_parts_and_add_zeros() {
    let values = draw(1000, 1);
    for dtype in COMPLEX {
        let x = tensor(&values, &[1000], dtype);
        let to = |t: &Tensor, dtype| ops::to_dtype(t, dtype, false, false, None).unwrap();
        let parts: Vec<f64> = values.iter().map(|z| z.re).collect();
        assert_eq!(reals(&to(&x, ScalarType::F64)), parts);
        assert_eq!(reals(&to(&x, ScalarType::I32)), parts.iter().map(|x| x.trunc()).collect::<Vec<_>>());
        let every_second = ops::slice_tensor(&x, 0, Some(1), None, 2).unwrap();
        assert_eq!(
            reals(&to(&every_second, ScalarType::F32)),
            parts.iter().copied().skip(1).step_by(2).collect::<Vec<_>>()
        );
        let wide = to(&Tensor::from_vec(parts.clone(), &[1000]).unwrap(), dtype);
        assert!(numbers(&wide).iter().zip(&parts).all(|(z, x)| *z == c(*x, 0.0)));
        let truth = to(
            &tensor(&[c(0.0, 0.0), c(0.0, 1.0), c(f64::NAN, 0.0), c(-1.0, 0.0)], &[4], dtype),
            ScalarType::Bool,
        );
        assert_eq!(truth.to_vec::<bool>().unwrap(), [false, true, true, true]);
        for from in ScalarType::WORKING {
            let ones = ops::ones(&[300], Some(from), None, None, None).unwrap();
            assert_eq!(numbers(&to(&ones, dtype)), [c(1.0, 0.0); 300], "{from}");
            assert_eq!(to(&to(&ones, dtype), from).to_string(), ones.to_string(), "{from}");
        }
    }
}

#[test]
fn views_share_memory() {
    for dtype in COMPLEX {
        let x = tensor(&draw(6, 2), &[2, 3], dtype);
        let pairs = ops::view_as_real(&x).unwrap();
        assert_eq!(
            (pairs.sizes(), pairs.strides(), pairs.dtype()),
            (&[2, 3, 2][..], &[6, 2, 1][..], dtype.to_real())
        );
        let back = ops::view_as_complex(&pairs).unwrap();
        assert_eq!(numbers(&back), numbers(&x));
        assert_eq!(back.data_ptr(), x.data_ptr());
        ops::fill__scalar(&ops::imag(&x).unwrap(), Scalar::Int(7)).unwrap();
        assert!(numbers(&back).iter().all(|z| z.im == 7.0));
        let transposed = ops::view_as_real(&ops::t(&x).unwrap()).unwrap();
        assert_eq!(transposed.strides(), [2, 6, 1]);
        let part = ops::slice_tensor(&pairs, 1, Some(1), None, 1).unwrap();
        assert_eq!(numbers(&ops::view_as_complex(&part).unwrap())[0], numbers(&x)[1]);
        let odd = ops::slice_tensor(&pairs, 2, Some(1), None, 1).unwrap();
        assert!(ops::view_as_complex(&odd).is_err());
        assert!(ops::view_as_complex(&ops::transpose_int(&pairs, 1, 2).unwrap()).is_err());
    }
    let real = Tensor::from([1.0f32, 2.0]);
    assert!(ops::conj(&real).unwrap().is_same(&real) && ops::real(&real).unwrap().is_same(&real));
    assert!(ops::imag(&real).is_err() && ops::view_as_real(&real).is_err());
}

#[test]
fn parts_are_put_together() {
    for dtype in COMPLEX {
        let part = |values: &[f64], sizes: &[i64]| {
            let wide = Tensor::from_vec(values.to_vec(), sizes).unwrap();
            ops::to_dtype(&wide, dtype.to_real(), false, false, None).unwrap()
        };
        let z = ops::complex(&part(&[1.0, 2.0], &[2]), &part(&[3.0], &[1])).unwrap();
        assert_eq!((z.dtype(), numbers(&z)), (dtype, vec![c(1.0, 3.0), c(2.0, 3.0)]));
        let polar = numbers(&ops::polar(&part(&[2.0], &[1]), &part(&[0.5], &[1])).unwrap());
        crate::expect_close("polar", &polar, &[c(2.0 * 0.5f64.cos(), 2.0 * 0.5f64.sin())], dtype, 2.0);
        let adjoint = ops::adjoint(&tensor(&draw(6, 3), &[2, 3], dtype)).unwrap();
        assert_eq!(adjoint.sizes(), [3, 2]);
        assert_eq!(numbers(&adjoint)[0], draw(6, 3)[0].conj());
    }
    assert!(ops::complex(&Tensor::from([1.0f32]), &Tensor::from([1.0f64])).is_err());
    assert!(ops::complex(&Tensor::from([1i64]), &Tensor::from([1i64])).is_err());
}

/// Operators that move elements, against the same moves of a tensor of indices.
#[test]
fn elements_move_as_their_indices_do() {
    type Move = fn(&Tensor) -> flambeau_ops::Result<Tensor>;
    let moves: &[(&str, Move)] = &[
        ("transpose", |t| ops::contiguous(&ops::transpose_int(t, 0, 2)?, MemoryFormat::Contiguous)),
        ("flip", |t| ops::flip(t, &[0, 2])),
        ("roll", |t| ops::roll(t, &[2], &[1])),
        ("cat", |t| ops::cat(&[t.clone(), ops::flip(t, &[1])?], 1)),
        ("stack", |t| ops::stack(&[t.clone(), ops::flip(t, &[0])?], 1)),
        ("index_select", |t| ops::index_select(t, 1, &Tensor::from([3i64, 0, 3]))),
        ("gather", |t| {
            ops::gather(t, 2, &ops::zeros(&[2, 3, 2], Some(ScalarType::I64), None, None, None)?, false)
        }),
        ("take", |t| ops::take(t, &Tensor::from([5i64, 0, -1]))),
        ("repeat", |t| ops::repeat(t, &[2, 1, 3])),
        ("tril", |t| ops::tril(t, 0)),
        ("masked_select", |t| ops::masked_select(t, &Tensor::from([true, false, true, true, false]))),
        ("where", |t| {
            ops::where_self(&Tensor::from([true, false, true, true, false]), t, &ops::flip(t, &[0])?)
        }),
        ("masked_fill", |t| {
            ops::masked_fill_scalar(t, &Tensor::from([true, false, true, true, false]), Scalar::Int(0))
        }),
        ("pad", |t| ops::constant_pad_nd(t, &[1, 2, 0, 1], Scalar::Int(0))),
        ("slice", |t| ops::clone(&ops::slice_tensor(t, 2, Some(1), None, 3)?, None)),
        ("unfold", |t| ops::clone(&ops::unfold(t, 2, 2, 1)?, None)),
        ("index_copy", |t| {
            ops::index_copy(t, 0, &Tensor::from([1i64]), &ops::slice_tensor(t, 0, Some(0), Some(1), 1)?)
        }),
        ("scatter", |t| {
            ops::scatter_src(
                t,
                0,
                &ops::zeros(&[1, 4, 5], Some(ScalarType::I64), None, None, None)?,
                &ops::flip(t, &[1])?,
            )
        }),
        ("diagonal", |t| ops::clone(&ops::diagonal(t, 0, 1, 2)?, None)),
    ];
    let values = draw(40, 4);
    let at = |t: &Tensor| {
        reals(t)
            .iter()
            .map(|i| if *i == 0.0 { c(0.0, 0.0) } else { values[*i as usize - 1] })
            .collect::<Vec<C>>()
    };
    let indices = Tensor::from_vec((1..=40i64).collect(), &[2, 4, 5]).unwrap();
    for (name, f) in moves {
        for dtype in COMPLEX {
            let (moved, expected) = (f(&tensor(&values, &[2, 4, 5], dtype)).unwrap(), f(&indices).unwrap());
            assert_eq!((moved.dtype(), moved.sizes()), (dtype, expected.sizes()), "{name}");
            assert_eq!(numbers(&moved), at(&expected), "{name} in {dtype}");
        }
    }
}

#[test]
fn large_transposed_copies_are_right() {
    let n = 700;
    for dtype in COMPLEX {
        let x = tensor(&draw(n * n, 5), &[n as i64, n as i64], dtype);
        let copy = numbers(&ops::contiguous(&ops::t(&x).unwrap(), MemoryFormat::Contiguous).unwrap());
        let from = numbers(&x);
        assert!((0..n * n).all(|at| copy[at] == from[at % n * n + at / n]), "{dtype}");
    }
}

#[test]
fn sums_at_indices_are_complex() {
    for dtype in COMPLEX {
        let x = ops::zeros(&[3], Some(dtype), None, None, None).unwrap();
        let source = tensor(&[c(1.0, 2.0), c(3.0, -1.0), c(0.5, 0.5)], &[3], dtype);
        let sum = ops::scatter_add(&x, 0, &Tensor::from([1i64, 1, 2]), &source).unwrap();
        assert_eq!(numbers(&sum), [c(0.0, 0.0), c(4.0, 1.0), c(0.5, 0.5)]);
        let put = ops::index_put(
            &x,
            &[Some(Tensor::from([0i64, 0]))],
            &ops::slice_tensor(&source, 0, Some(0), Some(2), 1).unwrap(),
            true,
        );
        assert_eq!(numbers(&put.unwrap())[0], c(4.0, 1.0));
        let nonzero = ops::nonzero(&tensor(&[c(0.0, 0.0), c(0.0, 1.0)], &[2], dtype)).unwrap();
        assert_eq!(nonzero.to_vec::<i64>().unwrap(), [1]);
    }
}

/// As PyTorch 2.15 prints them.
#[test]
fn text_is_that_of_pytorch() {
    let show = |values: &[C]| tensor(values, &[values.len() as i64], ScalarType::Complex64).to_string();
    assert_eq!(show(&[c(1.0, 2.0), c(3.0, -4.0)]), "tensor([1.+2.j, 3.-4.j])");
    assert_eq!(show(&[c(1e6, 1.0), c(0.5, -1.0)]), "tensor([1.0000e+06+1.j, 5.0000e-01-1.j])");
    assert_eq!(show(&[c(f64::NAN, 1.0), c(0.5, f64::NEG_INFINITY)]), "tensor([   nan+1.j, 0.5000-infj])");
    let wide = tensor(&[c(1.5, -0.25)], &[1], ScalarType::Complex128);
    assert_eq!(wide.to_string(), "tensor([1.5000-0.2500j], dtype=flambeau.complex128)");
    assert_eq!(
        format!("{:?}", tensor(&[c(1.0, 1.0)], &[1], ScalarType::Complex64)),
        "Tensor([1], complex64, cpu, [1.+1.j])"
    );
}

#[test]
fn ranges_are_of_both_parts() {
    let line = |start: C, end: C, dtype| {
        let number = |z: C| Scalar::Complex(z.re, z.im);
        ops::linspace(number(start), number(end), 5, dtype, None, None, None)
    };
    let made = line(c(0.0, 4.0), c(2.0, 0.0), None).unwrap();
    assert_eq!(made.dtype(), ScalarType::Complex64);
    assert_eq!(numbers(&made), [c(0.0, 4.0), c(0.5, 3.0), c(1.0, 2.0), c(1.5, 1.0), c(2.0, 0.0)]);
    let wide = line(c(1.0, 0.0), c(1.0, 2.0), Some(ScalarType::Complex128)).unwrap();
    assert_eq!(numbers(&wide)[3], c(1.0, 1.5));
    let real = ops::linspace(0.into(), 2.into(), 3, Some(ScalarType::Complex64), None, None, None).unwrap();
    assert_eq!(numbers(&real), [c(0.0, 0.0), c(1.0, 0.0), c(2.0, 0.0)]);
    let error = line(c(0.0, 1.0), c(1.0, 1.0), Some(ScalarType::F32)).unwrap_err().to_string();
    assert!(error.contains("can't be safely cast"), "{error}");
}
