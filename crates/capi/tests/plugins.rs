//! Plug-ins in C and in Rust, compiled here by the system's compilers and loaded: values, derivatives of both orders, errors, versions.
#![cfg(unix)]
#![allow(unsafe_code, reason = "calls a plug-in with another table")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which fail by panicking")]

use flambeau_autograd::{Autograd, gradcheck, gradgradcheck};
use flambeau_capi::{TABLE, flambeau_api, load_library, loaded_libraries};
use flambeau_core::{Device, DispatchKey, ErrorKind, Result, ScalarType};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops, registry};
use flambeau_plugin::abi::{FbApi, FbPluginInit, FbValue, MEMBERS};
use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugins")
}

/// Where compilers write; one folder for each process, since tests may run at once. The names of files are as they are: a library of
/// Rust's must begin with `lib`.
fn output(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The shared library of a file in C, with the header of a folder, whose warnings are errors.
fn compiled(name: &str, header: &Path) -> PathBuf {
    let library = output(&format!("{name}.so"));
    let warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC", "-I"];
    let mut cc = Command::new("cc");
    run(cc.args(warnings).arg(header).arg(folder().join(format!("{name}.c"))).arg("-o").arg(&library));
    library
}

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The plug-in `cube.c`, loaded.
static CUBE: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = compiled("cube", &header());
    load_library(&library).unwrap();
    library
});

fn call(name: &str, arguments: &[Value]) -> Result<Vec<Value>> {
    registry::find(name)?.call_boxed(arguments)
}

/// The first result, a tensor.
fn tensor(name: &str, arguments: &[Value]) -> Result<Tensor> {
    match call(name, arguments)?.swap_remove(0) {
        Value::Tensor(tensor) => Ok(tensor),
        other => panic!("expected a tensor but got {other:?}"),
    }
}

#[test]
fn a_kernel_in_c_computes_elements() -> Result<()> {
    LazyLock::force(&CUBE);
    let x = Tensor::arange(6000, ScalarType::F32)?.mul_scalar(0.01)?;
    let cubes = tensor("c_plugin::cube", &[Value::from(&x)])?;
    let expected: Vec<f32> = x.to_vec::<f32>()?.iter().map(|x| x * x * x).collect();
    assert_eq!(cubes.to_vec::<f32>()?, expected);
    let transposed = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]).t()?;
    assert_eq!(
        tensor("c_plugin::cube", &[Value::from(&transposed)])?.to_vec::<f64>()?,
        [1.0, 27.0, 8.0, 64.0]
    );
    let shape = tensor("c_plugin::cube", &[Value::from(&Tensor::empty(&[3, 5], Device::META)?)])?;
    assert_eq!((shape.sizes(), shape.device()), (&[3i64, 5][..], Device::META));
    let empty = tensor("c_plugin::cube", &[Value::from(&Tensor::zeros(&[0, 2], ())?)])?;
    assert_eq!(empty.sizes(), [0, 2]);
    Ok(())
}

#[test]
fn a_derivative_in_c_passes_gradcheck_of_both_orders() -> Result<()> {
    LazyLock::force(&CUBE);
    let cube = |x: &[Tensor]| tensor("c_plugin::cube", &[Value::from(&x[0])]).map(|y| vec![y]);
    let leaf = || Tensor::from([[0.5f64, -1.5], [2.0, 0.25]]).with_requires_grad(true);
    gradcheck(cube, &[leaf()?])?;
    gradgradcheck(cube, &[leaf()?])?;
    let x = leaf()?;
    cube(std::slice::from_ref(&x))?[0].sum()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [0.75, 6.75, 12.0, 0.1875]);
    // What was saved is checked for writes.
    let y = x.mul_scalar(1)?;
    let z = cube(std::slice::from_ref(&y))?.swap_remove(0);
    y.add_(&Tensor::from(1.0f64))?;
    assert_eq!(z.sum()?.backward().unwrap_err().kind(), ErrorKind::Autograd);
    Ok(())
}

#[test]
fn tangents_follow_from_a_derivative_in_c() -> Result<()> {
    use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
    LazyLock::force(&CUBE);
    let _level = dual_level()?;
    for requires_grad in [false, true] {
        let x = Tensor::from([2.0f64, -3.0]).with_requires_grad(requires_grad)?;
        let dual = make_dual(&x, &Tensor::from([0.5f64, 1.0]))?;
        let (_, tangent) = unpack_dual(&tensor("c_plugin::cube", &[Value::from(&dual)])?)?;
        assert_eq!(tangent.map(|t| t.to_vec::<f64>()).transpose()?, Some(vec![6.0, 27.0]), "{requires_grad}");
    }
    Ok(())
}

#[test]
fn values_of_all_kinds_pass() -> Result<()> {
    LazyLock::force(&CUBE);
    let x = Tensor::from([1.5f32]);
    let results = call("c_plugin::twice", &[Value::from(&x)])?;
    let [Value::Tensor(sum), Value::Tensors(both)] = &results[..] else { panic!("{results:?}") };
    assert_eq!(sum.to_vec::<f32>()?, [3.0]);
    assert!(both.len() == 2 && both.iter().all(|tensor| tensor.is_same(&x)));
    let arguments =
        [Value::from(&x), "\u{e9}t\u{e9}".into(), vec![3, 4].into(), Value::Float(0.5e1), Value::None];
    let [Value::Int(total)] = call("c_plugin::count", &arguments)?[..] else { panic!("expected an int") };
    assert_eq!(total, 5 + 7 + 5);
    // Nothing that was passed is kept.
    drop((results, arguments));
    assert!(x.is_sole_owner());
    Ok(())
}

#[test]
fn errors_cross_with_their_kind_and_message() -> Result<()> {
    LazyLock::force(&CUBE);
    let x = Value::from(&Tensor::from([1i64]));
    let error = call("c_plugin::fail", std::slice::from_ref(&x)).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::LinAlg, "c_plugin::fail: as it says"));
    assert_eq!(error.operator(), Some("c_plugin::fail"));
    assert_eq!(call("c_plugin::cube", &[x]).unwrap_err().kind(), ErrorKind::Dtype);
    let strided = Value::from(&Tensor::from([1.0f32]));
    let error = call("c_plugin::count", &[strided.clone(), Value::None, Value::None, Value::None, strided])
        .unwrap_err();
    assert!(error.message().contains("expected a `str` but got None"), "{error}");
    Ok(())
}

#[test]
fn a_plug_in_is_started_once_and_its_errors_name_it() -> Result<()> {
    let library = &*CUBE;
    load_library(library)?;
    let real = library.canonicalize()?;
    assert_eq!(loaded_libraries().iter().filter(|path| **path == real).count(), 1);
    let error = load_library("no/such/plugin.so").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.message().contains("no/such/plugin.so") && error.message().contains("No such file"),
        "{error}"
    );
    let text = output("text.so");
    std::fs::write(&text, "not a library")?;
    let error = load_library(&text).unwrap_err();
    assert!(error.message().contains("text.so") && error.message().matches(':').count() >= 2, "{error}");
    // A library without the function.
    let source = output("plain.c");
    std::fs::write(&source, "int seven(void) { return 7; }")?;
    let plain = output("plain.so");
    run(Command::new("cc").args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&plain));
    let error = load_library(&plain).unwrap_err();
    assert!(
        error.message().contains("plain.so") && error.message().contains("flambeau_plugin_init"),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_second_definition_or_kernel_names_both_libraries() {
    let first = CUBE.canonicalize().unwrap();
    let doubled = compiled("doubled", &header());
    let error = load_library(&doubled).unwrap_err();
    let second = doubled.canonicalize().unwrap();
    for path in [first, second] {
        assert!(error.message().matches(&*path.to_string_lossy()).count() >= 1, "{error}");
    }
    fn nothing(_: &flambeau_ops::dispatch::Call<'_>) -> Result<Vec<Value>> {
        Ok(vec![])
    }
    let operator = registry::find("c_plugin::cube").unwrap();
    let second = |operator| registry::implement(operator, [DispatchKey::Cpu], ("here", false), || [&nothing]);
    let error = second(operator).unwrap_err();
    assert!(error.message().contains("cube.so and one from here"), "{error}");
    let add = registry::find("add.Tensor").unwrap();
    let error = second(add).unwrap_err();
    assert!(error.message().contains("one from here"), "{error}");
}

#[test]
fn arguments_are_checked_against_the_schema() -> Result<()> {
    LazyLock::force(&CUBE);
    let x = Value::from(&Tensor::from([1.0f32]));
    for arguments in [vec![], vec![x.clone(), x.clone()], vec![Value::None], vec![1.into()]] {
        let error = call("c_plugin::cube", &arguments).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    // An int is a number where one is expected.
    let count = |number: Value| {
        call("c_plugin::count", &[x.clone(), "abc".into(), vec![4].into(), number, Value::None])
    };
    let [Value::Int(total)] = count(Value::Int(5))?[..] else { panic!("expected an int") };
    assert_eq!(total, 3 + 4 + 5);
    let error = count("5".into()).unwrap_err();
    assert!(error.message().contains("expected a `float`"), "{error}");
    Ok(())
}

#[test]
fn an_operator_without_a_derivative_takes_tensors_without_gradients() -> Result<()> {
    use flambeau_autograd::forward::{dual_level, make_dual};
    fn twice(call: &flambeau_ops::dispatch::Call<'_>) -> Result<Vec<Value>> {
        let [Value::Tensor(x)] = call.arguments else { panic!("expected a tensor") };
        Ok(vec![x.mul_scalar(2)?.into()])
    }
    let operator = registry::define("c_tests::twice(Tensor x) -> Tensor")?;
    operator.register_boxed(DispatchKey::Cpu, &twice)?;
    let view = Tensor::from([[1.0f32, 2.0]]).t()?;
    assert_eq!(tensor("c_tests::twice", &[Value::from(&view)])?.to_vec::<f32>()?, [2.0, 4.0]);
    // History and tangents do not vanish silently.
    let leaf = Tensor::from([1.0f32]).with_requires_grad(true)?;
    let made = tensor("c_tests::twice", &[Value::from(&leaf)])?;
    assert!(made.requires_grad());
    assert_eq!(made.sum()?.backward().unwrap_err().kind(), ErrorKind::Autograd);
    let _level = dual_level()?;
    let dual = make_dual(&view, &Tensor::zeros(&[2, 1], ())?)?;
    assert_eq!(call("c_tests::twice", &[Value::from(&dual)]).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert!(!operator.has_kernel(DispatchKey::Autograd) && !operator.has_kernel(DispatchKey::ForwardGrad));
    Ok(())
}

#[test]
fn a_plug_in_that_fails_leaves_no_operators() {
    let library = output("fails.so");
    let source = output("fails.c");
    let text = "#include \"flambeau.h\"\nFB_EXPORT FbError *flambeau_plugin_init(const FbApi *fb) {\n    FbOperator *op;\n    \
                FbError *error = fb->define(\"c_fails::half(Tensor self) -> Tensor\", &op);\n    \
                return error ? error : fb->error_new(FB_ERROR_IO, \"unfinished\");\n}\n";
    std::fs::write(&source, text).unwrap();
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-I"])
        .arg(header())
        .arg(&source)
        .arg("-o")
        .arg(&library));
    for _ in 0..2 {
        let error = load_library(&library).unwrap_err();
        assert!(error.message().contains("unfinished"), "{error}");
        assert!(registry::find("c_fails::half").is_err());
    }
}

#[test]
fn the_header_and_the_table_agree() {
    let program = output("offsets");
    let mut cc = Command::new("cc");
    run(cc.args(["-std=c99", "-I"]).arg(header()).arg(folder().join("offsets.c")).arg("-o").arg(&program));
    let printed = run(&mut Command::new(&program));
    let offsets: HashMap<&str, usize> = printed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, at)| (name, at.parse().unwrap()))
        .collect();
    assert_eq!((offsets["FbValue"], size_of::<FbValue>()), (24, 24));
    assert_eq!((offsets["FbApi"], TABLE.size), (size_of::<FbApi>(), size_of::<FbApi>()));
    assert_eq!(offsets.len(), MEMBERS.len() + 2);
    for (name, offset) in MEMBERS {
        assert_eq!(offsets.get(name), Some(offset), "{name}");
    }
    assert!(std::ptr::eq(flambeau_api(1), &raw const TABLE));
    assert!(flambeau_api(0).is_null() && flambeau_api(2).is_null());
}

#[test]
fn the_header_is_cpp_too() {
    let source = output("header.cpp");
    std::fs::write(&source, "#include \"flambeau.h\"\nint main() { return FB_VERSION == 1 ? 0 : 1; }\n")
        .unwrap();
    let warnings = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"];
    run(Command::new("c++").args(warnings).arg(header()).arg(&source));
}

#[test]
fn an_older_plug_in_works() -> Result<()> {
    load_library(compiled("old", &folder().join("version_1_0")))?;
    let x = Tensor::from([[1.0f32, -2.0]]);
    assert_eq!(tensor("c_old::negative", &[Value::from(&x)])?.to_vec::<f32>()?, [-1.0, 2.0]);
    Ok(())
}

/// Starts a plug-in with the first `size` bytes of the table, as an older library would; its error's message.
fn started_with(library: &Path, size: usize) -> Option<String> {
    let mut bytes = vec![0u64; size.div_ceil(8)];
    // SAFETY: the table is that long, and its copy is aligned as it is. The rest of the copy does not exist.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const TABLE).cast::<u8>(), bytes.as_mut_ptr().cast(), size)
    };
    bytes[0] = size as u64;
    let table: *const FbApi = Box::leak(bytes.into_boxed_slice()).as_ptr().cast();
    // SAFETY: the plug-ins of this test have such a function.
    unsafe {
        let library = libloading::Library::new(library).unwrap();
        let start = *library.get::<FbPluginInit>(c"flambeau_plugin_init").unwrap();
        std::mem::forget(library);
        let error = start(table);
        if error.is_null() {
            return None;
        }
        let message = CStr::from_ptr((TABLE.error_message)(error)).to_string_lossy().into_owned();
        (TABLE.error_free)(error);
        Some(message)
    }
}

#[test]
fn a_newer_plug_in_tests_for_functions() -> Result<()> {
    let exchange = compiled("exchange", &header());
    let older = started_with(&exchange, offset_of!(FbApi, dlpack_export));
    assert_eq!(older.as_deref(), Some("exchange: the library is older than 1.1"));
    load_library(&exchange)?;
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let shared = tensor("c_exchange::alias", &[Value::from(&x.t()?)])?;
    assert_eq!((shared.sizes(), shared.strides()), (&[2i64, 2][..], &[1i64, 2][..]));
    ops::fill__scalar(&x, 7.into())?;
    assert_eq!(shared.to_vec::<f32>()?, [7.0; 4]);
    let grad = Tensor::from([1.0f32]).with_requires_grad(true)?;
    assert_eq!(call("c_exchange::alias", &[Value::from(&grad.detach()?)])?.len(), 1);
    Ok(())
}

/// The plug-in in Rust, compiled as a crate of its own: it has no dependency but the wrapper of the table.
fn rust_plugin() -> PathBuf {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap();
    let library = built.get_or_insert_with(|| {
        let krate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin");
        let rustc = || Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let (wrapper, library) = (output("libflambeau_plugin.rlib"), output("softplus.so"));
        let edition = ["--edition", "2024", "--crate-type"];
        run(rustc()
            .args(edition)
            .args(["rlib", "--crate-name", "flambeau_plugin", "-o"])
            .arg(&wrapper)
            .arg(krate.join("src/lib.rs")));
        let dependency = format!("flambeau_plugin={}", wrapper.display());
        let example = krate.join("examples/softplus_plugin.rs");
        run(rustc().args(edition).args(["cdylib", "--extern", &dependency, "-o"]).arg(&library).arg(example));
        library
    });
    library.clone()
}

#[test]
fn a_plug_in_in_rust_computes_and_is_differentiated() -> Result<()> {
    load_library(rust_plugin())?;
    let softplus =
        |x: &[Tensor]| tensor("rust_plugin::softplus", &[Value::from(&x[0]), 2.0.into()]).map(|y| vec![y]);
    let leaf = || Tensor::from([[0.5f64, -1.5], [2.0, 0.25]]).with_requires_grad(true);
    let expected = leaf()?.softplus_with(ops::options::SoftplusOptions::new().beta(2.0))?;
    assert!(softplus(&[leaf()?])?[0].allclose(&expected, 1e-14, 1e-14, false)?);
    gradcheck(softplus, &[leaf()?])?;
    gradgradcheck(softplus, &[leaf()?])?;
    let (a, b) = (Tensor::from([3.0f32]).with_requires_grad(true)?, Tensor::from([4.0f32]));
    let c = tensor("rust_plugin::hypotenuse", &[Value::from(&a), Value::from(&b)])?;
    c.backward()?;
    assert_eq!((c.item::<f32>()?, a.grad().unwrap().item::<f32>()?), (5.0, 0.6));
    Ok(())
}

#[test]
fn a_panic_in_a_plug_in_is_an_error() -> Result<()> {
    load_library(rust_plugin())?;
    let error = call("rust_plugin::panics", &[Value::from(&Tensor::from([1.0f32]))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("as it must"), "{error}");
    // An older library lacks what the wrapper of a newer one would call.
    let copy = output("older.so");
    std::fs::copy(rust_plugin(), &copy)?;
    let older = started_with(&copy, offset_of!(FbApi, define));
    assert!(older.is_some_and(|message| message.contains("the library has no `define`")));
    Ok(())
}

#[test]
fn the_profiler_shows_operators_of_plug_ins() -> Result<()> {
    use flambeau_autograd::profiler::{Options, Profiler};
    LazyLock::force(&CUBE);
    let session = Profiler::start(Options::default())?;
    tensor("c_plugin::cube", &[Value::from(&Tensor::from([1.0f32]))])?;
    let profile = session.stop();
    assert!(profile.key_averages(false).iter().any(|average| average.name == "c_plugin::cube"));
    Ok(())
}
