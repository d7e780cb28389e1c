//! Printing, against what PyTorch 2.15 prints for the same tensors.

use flambeau_core::{AutogradMeta, AutogradMetaBox, Device, ScalarType};
use flambeau_ops::tensor::display::{PrintOptions, Suffix};
use flambeau_ops::{Tensor, ops};
use half::{bf16, f16};
use std::any::Any;

/// Tensors and PyTorch's lines for them.
fn table() -> Vec<(Tensor, &'static [&'static str])> {
    vec![
        (Tensor::from(1.0f32), &["tensor(1.)"]),
        (Tensor::from(0.1f32), &["tensor(0.1000)"]),
        (Tensor::from(-0.0f32), &["tensor(-0.)"]),
        (Tensor::from(7i64), &["tensor(7)"]),
        (Tensor::from(true), &["tensor(True)"]),
        (Tensor::from(f32::NAN), &["tensor(nan)"]),
        (Tensor::from(f64::NEG_INFINITY), &["tensor(-inf, dtype=flambeau.float64)"]),
        (Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), &["tensor([[1., 2.],", "        [3., 4.]])"]),
        (Tensor::from([1.0f32, 2.5, -3.0]), &["tensor([ 1.0000,  2.5000, -3.0000])"]),
        (Tensor::from([0.0f32, -0.0]), &["tensor([0., -0.])"]),
        (Tensor::from([0.0f32, f32::NAN, f32::INFINITY]), &["tensor([0., nan, inf])"]),
        (Tensor::from([1.0f32, f32::NAN, f32::NEG_INFINITY, -0.0]), &["tensor([1., nan, -inf, -0.])"]),
        (
            Tensor::from([1.5f32, f32::NAN, f32::NEG_INFINITY, -0.0]),
            &["tensor([1.5000,    nan,   -inf, -0.0000])"],
        ),
        (Tensor::from([1.0f32, 1000.0]), &["tensor([   1., 1000.])"]),
        (Tensor::from([1.0f32, 1001.0]), &["tensor([1.0000e+00, 1.0010e+03])"]),
        (Tensor::from([0.1f32, 100.0]), &["tensor([  0.1000, 100.0000])"]),
        (Tensor::from([0.1f32, 101.0]), &["tensor([1.0000e-01, 1.0100e+02])"]),
        (Tensor::from([1e8f32, 1e6]), &["tensor([100000000.,   1000000.])"]),
        (Tensor::from([1.1e8f32, 2e8]), &["tensor([1.1000e+08, 2.0000e+08])"]),
        (Tensor::from([1e-4f64, 1e-3]), &["tensor([0.0001, 0.0010], dtype=flambeau.float64)"]),
        (Tensor::from([9e-5f64, 1e-3]), &["tensor([9.0000e-05, 1.0000e-03], dtype=flambeau.float64)"]),
        (
            Tensor::from([1e-300f64, 1e300, f64::NAN, 0.0, -0.0]),
            &[
                "tensor([1.0000e-300, 1.0000e+300,         nan,  0.0000e+00, -0.0000e+00],",
                "       dtype=flambeau.float64)",
            ],
        ),
        (Tensor::from([0.03125f32, 0.09375, -0.53125]), &["tensor([ 0.0312,  0.0938, -0.5312])"]),
        (Tensor::from([0.00003125f64, 0.5]), &["tensor([3.1250e-05, 5.0000e-01], dtype=flambeau.float64)"]),
        (Tensor::from([1i64, -20, 300]), &["tensor([  1, -20, 300])"]),
        (Tensor::from([1u8, 255]), &["tensor([  1, 255], dtype=flambeau.uint8)"]),
        (Tensor::from([1i8, -128]), &["tensor([   1, -128], dtype=flambeau.int8)"]),
        (Tensor::from([1i16, 5]), &["tensor([1, 5], dtype=flambeau.int16)"]),
        (Tensor::from([[1i32], [5]]), &["tensor([[1],", "        [5]], dtype=flambeau.int32)"]),
        (Tensor::from([i64::MIN, i64::MAX]), &["tensor([-9223372036854775808,  9223372036854775807])"]),
        (Tensor::from([true, false, true]), &["tensor([ True, False,  True])"]),
        (Tensor::from([[true], [false]]), &["tensor([[ True],", "        [False]])"]),
        (
            Tensor::from([f16::from_f32(0.1), f16::MAX]),
            &["tensor([9.9976e-02, 6.5504e+04], dtype=flambeau.float16)"],
        ),
        (
            Tensor::from([bf16::from_f32(0.1), bf16::from_f32(2.0)]),
            &["tensor([0.1001, 2.0000], dtype=flambeau.bfloat16)"],
        ),
        (Tensor::from([[[1.0f32, 2.0]], [[3.0, 4.0]]]), &["tensor([[[1., 2.]],", "", "        [[3., 4.]]])"]),
        (
            Tensor::from([[[[1i64], [2]]], [[[3], [4]]]]),
            &["tensor([[[[1],", "          [2]]],", "", "", "        [[[3],", "          [4]]]])"],
        ),
        (Tensor::from([0.0f32; 0]), &["tensor([])"]),
        (Tensor::from([0i64; 0]), &["tensor([], dtype=flambeau.int64)"]),
        (Tensor::from([[0.0f32; 0]; 2]), &["tensor([], size=(2, 0))"]),
        (Tensor::from([[[false; 0]; 1]; 3]), &["tensor([], size=(3, 1, 0), dtype=flambeau.bool)"]),
        (
            Tensor::from([1.25f32; 30]),
            &[
                "tensor([1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500,",
                "        1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500,",
                "        1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500, 1.2500,",
                "        1.2500, 1.2500, 1.2500])",
            ],
        ),
        (
            Tensor::from([0.0f32; 30]),
            &[
                "tensor([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.,",
                "        0., 0., 0., 0., 0., 0.])",
            ],
        ),
        (
            Tensor::from([[123456i64; 12]; 2]),
            &[
                "tensor([[123456, 123456, 123456, 123456, 123456, 123456, 123456, 123456, 123456,",
                "         123456, 123456, 123456],",
                "        [123456, 123456, 123456, 123456, 123456, 123456, 123456, 123456, 123456,",
                "         123456, 123456, 123456]])",
            ],
        ),
        (
            Tensor::from([1i32; 23]),
            &[
                "tensor([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],",
                "       dtype=flambeau.int32)",
            ],
        ),
        (
            Tensor::from([1i32; 24]),
            &[
                "tensor([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],",
                "       dtype=flambeau.int32)",
            ],
        ),
        (
            Tensor::from([1i32; 18]),
            &[
                "tensor([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],",
                "       dtype=flambeau.int32)",
            ],
        ),
        (
            Tensor::from([11i32; 13]),
            &["tensor([11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11],", "       dtype=flambeau.int32)"],
        ),
        (Tensor::from([1i64; 1001]), &["tensor([1, 1, 1,  ..., 1, 1, 1])"]),
        (
            Tensor::from([[0.5f32; 7]; 150]),
            &[
                "tensor([[0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000],",
                "        [0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000],",
                "        [0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000],",
                "        ...,",
                "        [0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000],",
                "        [0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000],",
                "        [0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000]])",
            ],
        ),
        (
            Tensor::from([[[2i16; 6]; 7]; 30]),
            &[
                "tensor([[[2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         ...,",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2]],",
                "",
                "        [[2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         ...,",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2]],",
                "",
                "        [[2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         ...,",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2]],",
                "",
                "        ...,",
                "",
                "        [[2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         ...,",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2]],",
                "",
                "        [[2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         ...,",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2]],",
                "",
                "        [[2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         ...,",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2],",
                "         [2, 2, 2, 2, 2, 2]]], dtype=flambeau.int16)",
            ],
        ),
        (Tensor::from([[1.0f32; 1001]; 1]), &["tensor([[1., 1., 1.,  ..., 1., 1., 1.]])"]),
    ]
}

#[test]
fn prints_what_pytorch_prints() {
    for (tensor, lines) in table() {
        assert_eq!(tensor.to_string(), lines.join("\n"), "{tensor:?}");
    }
}

#[test]
fn strides_do_not_show() {
    let t = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let expected = "tensor([[1., 4.],\n        [2., 5.],\n        [3., 6.]])";
    assert_eq!(t.t().unwrap().to_string(), expected);
    let row = Tensor::from([1i64, 2]).expand(&[2, 2]).unwrap();
    assert_eq!(row.to_string(), "tensor([[1, 2],\n        [1, 2]])");
}

#[test]
fn meta_tensors_show_what_they_are() {
    let meta = |sizes: &[i64], dtype| {
        ops::empty_memory_format(sizes, Some(dtype), None, Some(Device::META), None, None)
            .unwrap()
            .to_string()
    };
    assert_eq!(meta(&[2, 3], ScalarType::F32), "tensor(..., device='meta', size=(2, 3))");
    assert_eq!(meta(&[4], ScalarType::I64), "tensor(..., device='meta', size=(4,), dtype=flambeau.int64)");
    assert_eq!(meta(&[], ScalarType::F32), "tensor(..., device='meta', size=())");
}

#[test]
fn options_change_digits_lines_and_notation() {
    let t = Tensor::from([1.5f32, 20.25, -3.0]);
    let with = |options| t.to_string_with(&options);
    let default = PrintOptions::default();
    assert_eq!(format!("{t:.1}"), "tensor([ 1.5, 20.2, -3.0])");
    assert_eq!(
        with(PrintOptions { sci_mode: Some(true), precision: 2, ..default }),
        "tensor([ 1.50e+00,  2.02e+01, -3.00e+00])"
    );
    assert_eq!(
        with(PrintOptions { linewidth: 26, ..default }),
        "tensor([ 1.5000, 20.2500,\n        -3.0000])"
    );
    assert_eq!(
        with(PrintOptions { threshold: 2, edgeitems: 1, ..default }),
        "tensor([ 1.5000,  ..., -3.0000])"
    );
}

#[test]
fn a_tensor_that_is_being_written_says_so() {
    let t = Tensor::from([1.0f32, 2.0]);
    let writer = t.accessor_mut::<f32, 1>().unwrap();
    assert!(t.to_string().starts_with("tensor(<the elements cannot be read now"), "{t}");
    drop(writer);
    assert_eq!(t.to_string(), "tensor([1., 2.])");
}

/// Stands for the autograd crate: what it says of a tensor comes from what it attached.
struct History(Option<&'static str>);

impl AutogradMeta for History {
    fn requires_grad(&self) -> bool {
        true
    }
}

inventory::submit!(Suffix(|tensor| {
    let meta: &dyn Any = tensor.impl_().autograd_meta()?;
    meta.downcast_ref::<History>()?.0.map(str::to_string)
}));

#[test]
fn history_stands_behind_the_values() {
    let with = |tensor: Tensor, grad_fn| {
        tensor.impl_().autograd_meta_or_init(|| AutogradMetaBox::new(|| History(grad_fn)));
        tensor.to_string()
    };
    let add = Some("grad_fn=<AddBackward0>");
    let row = "1., 1., 1., 1., 1., 1., 1., 1., 1.";
    assert_eq!(with(Tensor::from([1.0f32; 2]), None), "tensor([1., 1.], requires_grad=True)");
    assert_eq!(
        with(Tensor::from([1.0f32; 18]), None),
        format!("tensor([{row}, {row}],\n       requires_grad=True)")
    );
    assert_eq!(
        with(Tensor::from([1.0f64; 18]), add),
        format!("tensor([{row}, {row}],\n       dtype=flambeau.float64, grad_fn=<AddBackward0>)")
    );
    assert_eq!(
        with(Tensor::from([1.0f64; 19]), add),
        format!("tensor([{row}, {row},\n        1.], dtype=flambeau.float64, grad_fn=<AddBackward0>)")
    );
    assert_eq!(
        with(Tensor::from([[1.0f32; 9]; 2]), add),
        format!("tensor([[{row}],\n        [{row}]], grad_fn=<AddBackward0>)")
    );
}

#[test]
fn debug_shows_few_values_with_sizes_type_and_device() {
    let table = [
        (Tensor::from(1.5f32), "Tensor([], float32, cpu, 1.5000)"),
        (Tensor::from([[1i64, -20], [3, 4]]), "Tensor([2, 2], int64, cpu, [[1, -20], [3, 4]])"),
        (Tensor::from([[true], [false]]), "Tensor([2, 1], bool, cpu, [[True], [False]])"),
        (Tensor::from([[0u8; 0]; 3]), "Tensor([3, 0], uint8, cpu, [])"),
        (
            ops::reshape(&Tensor::from([0i32; 100]), &[10, 10]).unwrap(),
            "Tensor([10, 10], int32, cpu, [[0, 0, ..., 0, 0], [0, 0, ..., 0, 0], ..., [0, 0, ..., 0, 0], [0, 0, ..., 0, 0]])",
        ),
        (ops::expand(&Tensor::from(1u8), &[7; 20], false).unwrap(), {
            "Tensor([7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7], uint8, cpu, [...])"
        }),
    ];
    for (tensor, text) in table {
        assert_eq!(format!("{tensor:?}"), text);
    }
    assert_eq!(
        format!("{:#?}", Tensor::from([[1i64, -20], [3, 4]])),
        "Tensor([2, 2], int64, cpu,\n    [[  1, -20],\n     [  3,   4]])"
    );
}

#[test]
fn debug_says_why_there_are_no_values_and_waits_for_nobody() {
    let tensor = Tensor::from([1i64, 2]);
    let text = || format!("{tensor:?}");
    let written = "Tensor([2], int64, cpu, <the elements are being written>)";
    let accessor = tensor.accessor_mut::<i64, 1>().unwrap();
    assert_eq!(text(), written);
    assert_eq!(std::thread::scope(|scope| scope.spawn(text).join()).unwrap(), written);
    drop(accessor);
    assert_eq!(text(), "Tensor([2], int64, cpu, [1, 2])");
    let meta = Tensor::new([1.0f32, 2.0], Device::META).unwrap();
    assert_eq!(
        format!("{meta:?}"),
        "Tensor([2], float32, meta, <expected a tensor on the cpu but got one on meta>)"
    );
}
