//! Every method of `Tensor` has an example in its documentation, which runs as a test.

use flambeau_codegen::{Source, methods_without_example};

#[test]
fn every_method_has_an_example() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../native_functions.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let without = methods_without_example(Source { name: "native_functions.yaml", text: &text }).unwrap();
    assert!(without.is_empty(), "`example` in native_functions.yaml has no call of {}", without.join(", "));
}

#[test]
fn an_example_belongs_to_the_method_that_it_calls() {
    let entry = "- func: add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n  variants: function, method\n  \
                 dispatch:\n    CPU: binary::add\n  autogen: add_\n  doc: The sum.\n";
    let missing = |example: &str| {
        let text = format!("{entry}{example}");
        methods_without_example(Source { name: "functions.yaml", text: &text }).unwrap()
    };
    assert_eq!(missing(""), ["add", "add_with", "add_", "add_with_"]);
    let plain = "  example: \"let x = Tensor::from([1.0]); x.add(&x)?.item::<f64>()? => 2.0\"\n";
    assert_eq!(missing(plain), ["add_with", "add_with_"]);
}
