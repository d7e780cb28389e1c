//! Tests of files of `torch.save`: their contents, and names that they may not use. `pytorch/make.py` created the files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::Autograd;
use flambeau_core::{Complex, ErrorKind, F8E4M3FN, Layout, ScalarType};
use flambeau_nn::serialization::{Value, load_pytorch, load_pytorch_state_dict};
use flambeau_nn::{Linear, Module};
use flambeau_ops::Tensor;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pytorch").join(name)
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    tensor.to(ScalarType::F64).unwrap().to_vec().unwrap()
}

#[test]
fn complex_numbers() {
    let weight = &load_pytorch_state_dict(file("complex.pt")).unwrap()["weight"];
    assert_eq!(weight.to_vec::<Complex<f32>>().unwrap(), [Complex::new(1.0, 0.0); 2]);
}

#[test]
fn types_without_a_kind_of_storage() {
    let weight = |dtype: ScalarType| {
        let found = load_pytorch_state_dict(file(&format!("{dtype}.pt"))).unwrap();
        assert_eq!(found["weight"].dtype(), dtype);
        found["weight"].clone()
    };
    let narrow = weight(ScalarType::U16);
    assert_eq!((narrow.sizes(), narrow.to_vec::<u16>().unwrap()), (&[1i64, 3][..], vec![1, 65535, 7]));
    let wide = weight(ScalarType::U64);
    assert_eq!((wide.storage_offset(), wide.to_vec::<u64>().unwrap()), (1, vec![1 << 63, u64::MAX]));
    let eight = weight(ScalarType::F8E4M3FN);
    let codes: Vec<u8> = eight.to_vec::<F8E4M3FN>().unwrap().into_iter().map(F8E4M3FN::to_bits).collect();
    assert_eq!((codes, doubles(&eight)[..2].to_vec()), (vec![0x2A, 0xFE, 0x7F], vec![0.3125, -448.0]));
    assert_eq!(doubles(&weight(ScalarType::F8E8M0FNU)), [1.0, 2f64.powi(-127), 2f64.powi(127)]);
    let complex = weight(ScalarType::Complex32).to(ScalarType::Complex64).unwrap();
    let expected = [Complex::new(1.0f32, -2.0), Complex::new(0.0, 65504.0)];
    assert_eq!(complex.to_vec::<Complex<f32>>().unwrap(), expected);
}

#[test]
fn every_type_and_layout() {
    let found = load_pytorch_state_dict(file("layouts.pt")).unwrap();
    for dtype in ScalarType::COMPUTING.into_iter().filter(|dtype| !dtype.is_complex()) {
        let tensor = &found[dtype.name()];
        assert_eq!((tensor.dtype(), tensor.sizes()), (dtype, &[2, 3][..]));
        assert_eq!(doubles(tensor), [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
    }
    let special = found["special"].to_vec::<f32>().unwrap();
    assert!(special[0].is_nan() && special[1] == f32::INFINITY);
    assert_eq!((special[2].to_bits(), special[3].to_bits()), (0x8000_0000, 1));
    let base = &found["base"];
    let views: [(&str, &[i64], &[i64], i64); 3] =
        [("column", &[6, 4], &[1, 6], 0), ("gaps", &[2, 2], &[12, 3], 6), ("repeated", &[2, 3], &[0, 0], 5)];
    for (name, sizes, strides, offset) in views {
        let view = &found[name];
        assert_eq!((view.sizes(), view.strides(), view.storage_offset()), (sizes, strides, offset), "{name}");
        assert_eq!(view.storage().data_ptr(), base.storage().data_ptr(), "{name}");
    }
    assert_eq!(doubles(&found["gaps"]), [6.0, 9.0, 18.0, 21.0]);
    base.fill_(7.0).unwrap();
    assert_eq!(doubles(&found["repeated"]), [7.0; 6]);
    assert_eq!((found["number"].dim(), doubles(&found["number"])), (0, vec![-2.5]));
    assert_eq!(found["empty"].sizes(), &[0, 3]);
}

#[test]
fn a_checkpoint() {
    let found = load_pytorch(file("checkpoint.pt")).unwrap();
    let state = found.get("model").unwrap();
    let tensors = state.clone().into_state_dict().unwrap();
    assert_eq!((tensors.len(), tensors["1.running_var"].sizes()), (9, &[4][..]));
    assert_eq!(tensors["1.num_batches_tracked"].to_vec::<i64>().unwrap(), [1]);
    let layer = Linear::new(4, 2).unwrap();
    let part = |name: &str| (name.to_string(), tensors[&format!("2.{name}")].clone());
    layer.load_state_dict(&[part("weight"), part("bias")].into()).unwrap();
    assert!(layer.parameters().iter().all(|p| doubles(p).iter().all(|x| *x == 0.5) && p.requires_grad()));
    let Value::OrderedDict { metadata: Some(metadata), .. } = state else { panic!("{state:?}") };
    assert!(matches!(metadata.get("1").unwrap().get("version"), Some(Value::Int(2))));

    let Some(Value::Parameter(parameter)) = found.get("parameter") else { panic!("no parameter") };
    assert!(parameter.requires_grad() && doubles(parameter) == [0.0, 1.0, 2.0]);
    assert!(matches!(found.get("frozen"), Some(Value::Parameter(frozen)) if !frozen.requires_grad()));
    assert!(matches!(found.get("leaf"), Some(Value::Tensor(leaf)) if leaf.requires_grad()));
    let Some(Value::List(groups)) = found.get("optimizer").unwrap().get("param_groups") else {
        panic!("no groups")
    };
    let Some(Value::Tuple(betas)) = groups[0].get("betas") else { panic!("no betas") };
    assert!(matches!(betas[..], [Value::Float(0.8), Value::Float(0.9)]));
}

#[test]
fn plain_values() {
    let found = load_pytorch(file("checkpoint.pt")).unwrap();
    let told = |name| format!("{:?}", found.get(name).unwrap());
    assert_eq!(
        told("plain"),
        "List([None, Bool(true), Bool(false), Int(0), Int(255), Int(256), Int(65536), Int(-1), Int(1099511627776), \
         Int(-1099511627776), Float(0.25), Float(inf), Text(\"größe\")])"
    );
    assert_eq!(
        told("nested"),
        "Dict([(Text(\"tuple\"), Tuple([Int(1), Tuple([Int(2)]), Tuple([])])), (Int(3), List([List([]), Dict([])])), \
         (None, OrderedDict { entries: [(Text(\"a\"), Int(1))], metadata: None })])"
    );
    assert_eq!((told("size"), told("dtype")), ("Size([2, 3])".to_string(), "Dtype(BF16)".to_string()));
    assert!(matches!(found.get("long"), Some(Value::Text(text)) if text.len() == 300));
    let not_a_state = found.into_state_dict().unwrap_err().to_string();
    assert!(not_a_state.contains("expected a tensor for `model` but got a dict"), "{not_a_state}");
}

#[test]
fn sparse_tensors() {
    let found = load_pytorch_state_dict(file("sparse.pt")).unwrap();
    let dense = [0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0];
    let layouts = [
        ("coo", Layout::SparseCoo),
        ("csr", Layout::SparseCsr),
        ("csc", Layout::SparseCsc),
        ("bsr", Layout::SparseBsr),
        ("bsc", Layout::SparseBsc),
        ("hybrid", Layout::SparseCoo),
    ];
    for (name, layout) in layouts {
        let tensor = &found[name];
        assert_eq!((tensor.layout(), tensor.sizes()), (layout, &[2, 4][..]), "{name}");
        assert_eq!(doubles(&flambeau_sparse::to_dense(tensor).unwrap()), dense, "{name}");
    }
    assert!(flambeau_sparse::is_coalesced(&found["coo"]).unwrap());
    assert_eq!(flambeau_sparse::dense_dim(&found["hybrid"]), 1);
    assert_eq!((found["empty"].sizes(), flambeau_sparse::nnz(&found["empty"]).unwrap()), (&[3, 0][..], 0));
    // Values that lie in the storage of another tensor of the file still do.
    let repeated = &found["repeated"];
    assert_eq!(flambeau_sparse::nnz(repeated).unwrap(), 3);
    found["values"].fill_(5.0).unwrap();
    let dense = doubles(&flambeau_sparse::to_dense(repeated).unwrap());
    assert_eq!(dense, [0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0]);
}

/// The message of a file that is refused.
fn refused(path: &Path, kind: ErrorKind) -> String {
    let error = load_pytorch(path).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    error.to_string()
}

#[test]
fn what_is_refused_is_named() {
    let cases = [
        ("big-endian.pt", ErrorKind::Io, "little-endian order but the file says \"big\""),
        ("before-1.6.pt", ErrorKind::Io, "since version 1.6"),
        ("module.pt", ErrorKind::Io, "torch.nn.modules.linear.Linear"),
        ("hostile.pt", ErrorKind::Io, ".open`, which is not looked up"),
        ("forged-sparse.pt", ErrorKind::Io, "index 7 is out of bounds"),
    ];
    for (name, kind, words) in cases {
        let message = refused(&file(name), kind);
        assert!(message.contains(words), "{name}: {message}");
    }
    assert!(!Path::new("hostile-file-was-here").exists());
    let absent = load_pytorch(file("absent.pt")).unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Io);
}

/// A file that is removed at the end of a test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("flambeau-{}-{name}.pt", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_cut_short_anywhere_is_an_error() {
    let whole = std::fs::read(file("checkpoint.pt")).unwrap();
    for end in (0..whole.len()).step_by(97) {
        let cut = Temporary::new("cut", &whole[..end]);
        refused(&cut.0, ErrorKind::Io);
    }
}

#[test]
fn damage_is_an_error_or_another_value_and_nothing_worse() {
    let whole = std::fs::read(file("checkpoint.pt")).unwrap();
    let mut refused = 0;
    for index in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[index] ^= 0x15;
        let damaged = Temporary::new("damaged", &damaged);
        refused += usize::from(load_pytorch(&damaged.0).is_err());
    }
    assert!(refused > 50, "{refused}");
}

/// An archive with these records, as PKWARE's APPNOTE describes it, with 64-bit numbers on request.
fn archive(records: &[(&str, &[u8])], wide: bool) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in records {
        let (at, size) = (file.len() as u64, bytes.len() as u64);
        let narrow = |number: u64| if wide { u32::MAX } else { number as u32 };
        let extra: Vec<u8> = if wide {
            [1u16, 24]
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .chain([size, size, at].iter().flat_map(|x| x.to_le_bytes()))
                .collect()
        } else {
            Vec::new()
        };
        file.extend(0x0403_4b50u32.to_le_bytes());
        file.extend([0; 22]);
        file.extend((name.len() as u16).to_le_bytes());
        file.extend([0; 2]);
        file.extend(name.bytes().chain(bytes.iter().copied()));
        directory.extend(0x0201_4b50u32.to_le_bytes());
        directory.extend([0; 16]);
        directory.extend([narrow(size), narrow(size)].iter().flat_map(|x| x.to_le_bytes()));
        directory.extend([name.len() as u16, extra.len() as u16].iter().flat_map(|x| x.to_le_bytes()));
        directory.extend([0; 10]);
        directory.extend(narrow(at).to_le_bytes());
        directory.extend(name.bytes().chain(extra));
    }
    let (start, count) = (file.len() as u64, records.len() as u64);
    file.extend(&directory);
    let end = file.len() as u64;
    if wide {
        file.extend(0x0606_4b50u32.to_le_bytes());
        file.extend([0; 20]);
        file.extend([count, count, directory.len() as u64, start].iter().flat_map(|x| x.to_le_bytes()));
        file.extend(0x0706_4b50u32.to_le_bytes());
        file.extend([0; 4]);
        file.extend(end.to_le_bytes());
        file.extend([0; 4]);
    }
    file.extend(0x0605_4b50u32.to_le_bytes());
    file.extend([0; 6]);
    file.extend(if wide { u16::MAX } else { count as u16 }.to_le_bytes());
    file.extend(if wide { u32::MAX } else { directory.len() as u32 }.to_le_bytes());
    file.extend(if wide { u32::MAX } else { start as u32 }.to_le_bytes());
    file.extend([0; 2]);
    file
}

/// What the program `pickle` gives beside one storage of two numbers.
fn program(pickle: &[u8], wide: bool) -> Result<Value, String> {
    let numbers: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let records = [("a/data.pkl", pickle), ("a/byteorder", b"little"), ("a/data/0", &numbers)];
    let name = format!(
        "{:x}",
        pickle.iter().fold(pickle.len(), |sum, byte| sum.wrapping_mul(31) + usize::from(*byte))
    );
    let file = Temporary::new(&format!("program-{name}-{wide}"), &archive(&records, wide));
    load_pytorch(&file.0).map_err(|error| error.to_string())
}

/// A program that makes a tensor of the storage: offset, sizes and strides are programs too.
fn tensor(offset: &str, sizes: &str, strides: &str) -> Vec<u8> {
    let storage = "(X\u{7}\0\0\0storagectorch\nFloatStorage\nX\u{1}\0\0\0\u{30}X\u{3}\0\0\0cpuK\u{2}tQ";
    let text = format!("ctorch._utils\n_rebuild_tensor\n({storage}{offset}({sizes}t({strides}ttR.");
    [&[0x80, 2], text.as_bytes()].concat()
}

#[test]
fn archives_of_both_widths() {
    for wide in [false, true] {
        let found = program(&tensor("K\u{0}", "K\u{2}", "K\u{1}"), wide).unwrap();
        assert!(matches!(&found, Value::Tensor(tensor) if doubles(tensor) == [1.5, -2.0]), "{found:?}");
    }
}

#[test]
fn tensors_lie_in_their_storages() {
    for (offset, sizes, strides) in [
        ("K\u{1}", "K\u{2}", "K\u{1}"),
        ("K\u{0}", "K\u{3}", "K\u{1}"),
        ("K\u{0}", "K\u{2}", "K\u{2}"),
        ("J\u{7f}\u{7f}\u{7f}\u{7f}", "K\u{1}", "K\u{1}"),
        ("K\u{0}", "K\u{2}K\u{2}", "K\u{1}"),
        ("K\u{0}", "N", "K\u{1}"),
        ("N", "K\u{2}", "K\u{1}"),
    ] {
        let error = program(&tensor(offset, sizes, strides), false).unwrap_err();
        assert!(error.contains("expected"), "{error}");
    }
}

#[test]
fn hostile_programs() {
    let nested =
        |count: usize| [vec![0x80, 2], vec![b']'; count], vec![b'a'; count - 1], vec![b'.']].concat();
    assert!(program(&nested(90), false).is_ok());
    // A list of two lists, each of which is a list of the same two lists, thirty deep.
    let mut laughs = vec![0x80, 2, b']', b'q', 0];
    for depth in 0..30u8 {
        laughs.extend([b']', b'h', depth, b'a', b'h', depth, b'a', b'q', depth + 1]);
    }
    laughs.push(b'.');
    let cases: [(&[u8], &str); 12] = [
        (&nested(1_000_000), "nested no deeper"),
        (&laughs, ""),
        (b"\x80\x02]q\x00h\x00a.", "nested no deeper"),
        (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "`os.system`, which is not looked up"),
        (b"\x80\x02c__builtin__\neval\n.", "`__builtin__.eval`"),
        (b"\x80\x02ctorch\nload\n.", "`torch.load`"),
        (b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsNsb.", "no attributes but"),
        (b"\x80\x02(ios\nsystem\n.", "0x69"),
        (b"\x80\x02\x8a\xff.", "64 bits"),
        (b"\x80\x02t.", "mark"),
        (b"\x80\x02(K\x01", "cut short"),
        (b"\x80\x04N.", "protocol 2"),
    ];
    for (pickle, words) in cases {
        let error = program(pickle, false).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
