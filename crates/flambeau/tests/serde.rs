//! Tensors through serde: as text in JSON, and as bytes in a format that is not for people.

use flambeau::prelude::*;
use serde_json::json;

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn there_and_back(tensor: &Tensor) -> Tensor {
    serde_json::from_str(&serde_json::to_string(tensor).unwrap()).unwrap()
}

#[test]
fn text_holds_type_sizes_and_numbers() {
    let tensor = Tensor::from([[1.0f32, 2.5], [-0.25, 1e-3]]);
    let text = serde_json::to_value(&tensor).unwrap();
    let small = f64::from(1e-3f32);
    assert_eq!(text, json!({"dtype": "float32", "sizes": [2, 2], "data": [1.0, 2.5, -0.25, small]}));
    let back = there_and_back(&tensor);
    assert_eq!(back.sizes(), tensor.sizes());
    assert_eq!(back.to_vec::<f32>().unwrap(), tensor.to_vec::<f32>().unwrap());
}

#[test]
fn every_type_comes_back() {
    for dtype in ScalarType::WORKING {
        let tensor = Tensor::new([0, 1, 1], dtype).unwrap();
        let back = there_and_back(&tensor.reshape(&[3, 1]).unwrap().t().unwrap());
        assert_eq!((back.dtype(), back.sizes()), (dtype, &[1i64, 3][..]));
        assert!(back.equal(&tensor.reshape(&[1, 3]).unwrap()).unwrap(), "{dtype}");
    }
}

#[test]
fn complex_numbers_are_lists_of_parts() {
    let tensor = Tensor::from([Complex::new(1.5f32, -2.0), Complex::new(f32::INFINITY, 0.25)]);
    let text = serde_json::to_value(&tensor).unwrap();
    assert_eq!(text["data"], json!([[1.5, -2.0], ["inf", 0.25]]));
    assert!(there_and_back(&tensor).equal(&tensor).unwrap());
}

#[test]
fn what_json_has_no_number_for_is_a_word() {
    let back = there_and_back(&Tensor::from([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]));
    let back = back.to_vec::<f64>().unwrap();
    assert!(back[0].is_nan() && back[1] == f64::INFINITY && back[2] == f64::NEG_INFINITY);
    assert!(back[3] == 0.0 && back[3].is_sign_negative());
}

#[test]
fn text_that_is_no_tensor_is_an_error() {
    let faults = [
        (json!({"dtype": "float32", "sizes": [3], "data": [1.0, 2.0]}), "expected 3 elements"),
        (json!({"dtype": "float31", "sizes": [1], "data": [1.0]}), "float31"),
        (json!({"dtype": "uint8", "sizes": [1], "data": [300]}), "300"),
        (json!({"dtype": "float32", "sizes": [-1], "data": []}), "at least 0"),
        (json!({"dtype": "float32", "sizes": [1], "data": ["one"]}), "one"),
        (json!({"dtype": "complex64", "sizes": [1], "data": [[1, 2, 3]]}), "two parts"),
        (json!({"dtype": "float32", "sizes": [1], "data": [[1, 2]]}), "without overflow"),
    ];
    for (text, says) in faults {
        let error = serde_json::from_value::<Tensor>(text.clone()).unwrap_err();
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn types_and_devices_are_names() {
    assert_eq!(serde_json::to_value((ScalarType::BF16, Device::CPU)).unwrap(), json!(["bfloat16", "cpu"]));
    let read: (ScalarType, Device) = serde_json::from_str(r#"["int64", "cuda:1"]"#).unwrap();
    assert_eq!((read.0, read.1.to_string()), (ScalarType::I64, "cuda:1".to_owned()));
}

#[test]
fn bytes_hold_the_elements() {
    for dtype in ScalarType::WORKING {
        let tensor = Tensor::new([[1, 0, 1], [1, 1, 0]], dtype).unwrap();
        let bytes = postcard::to_allocvec(&tensor.t().unwrap()).unwrap();
        assert!(bytes.len() < 6 * dtype.size() + 20, "{dtype}: {} bytes", bytes.len());
        let back: Tensor = postcard::from_bytes(&bytes).unwrap();
        assert_eq!((back.dtype(), back.sizes()), (dtype, &[3i64, 2][..]));
        assert!(back.equal(&tensor.t().unwrap()).unwrap(), "{dtype}");
        for length in 0..bytes.len() {
            assert!(postcard::from_bytes::<Tensor>(&bytes[..length]).is_err());
        }
    }
}
