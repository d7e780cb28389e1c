//! Tests of files: saved values are loaded to the bit, damage is an error, and a save that fails destroys nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_core::{Error, ErrorKind, GeneratorState, ScalarType};
use flambeau_nn::StateDict;
use flambeau_nn::data::Position;
use flambeau_nn::serialization::{Checkpoint, load, save, save_unless};
use flambeau_ops::Tensor;
use std::fs;
use std::path::PathBuf;

/// A folder of its own for a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flambeau-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn of_every_type() -> StateDict {
    let mut tensors = StateDict::new();
    for dtype in ScalarType::WORKING {
        tensors.insert(format!("a.{dtype}"), Tensor::new([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]], dtype).unwrap());
    }
    tensors.insert("empty".into(), Tensor::zeros(&[0, 3], ()).unwrap());
    tensors.insert("number".into(), Tensor::from(-2.5f64));
    tensors.insert("nan".into(), Tensor::from([f32::NAN, f32::NEG_INFINITY, -0.0]));
    tensors.insert("transposed".into(), Tensor::from([[1i64, 2], [3, 4]]).t().unwrap());
    tensors
}

#[test]
fn every_type_comes_back_to_the_bit() {
    let folder = Folder::new("types");
    let path = folder.0.join("all");
    let tensors = of_every_type();
    let metadata = [("key".to_string(), "value \"with\" quotes ü".to_string())].into();
    save(&path, &tensors, &metadata).unwrap();
    let (loaded, loaded_metadata) = load(&path).unwrap();
    assert_eq!(loaded_metadata, metadata);
    assert_eq!(loaded.len(), tensors.len());
    for (name, tensor) in &tensors {
        let got = &loaded[name];
        assert_eq!((got.sizes(), got.dtype()), (tensor.sizes(), tensor.dtype()), "{name}");
        if name == "nan" {
            let bits =
                |t: &Tensor| t.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(got), bits(tensor));
        } else {
            assert!(got.equal(tensor).unwrap(), "{name}");
        }
    }
    assert_eq!(loaded["transposed"].to_vec::<i64>().unwrap(), [1, 3, 2, 4]);
    assert_eq!(folder.names(), ["all"], "nothing is left behind");
}

/// Read by another implementation: the bytes as the format's specification lays them out.
#[test]
fn the_file_is_what_the_specification_says() {
    let folder = Folder::new("format");
    let path = folder.0.join("one");
    save(&path, &[("x".to_string(), Tensor::from([[1.0f32, -2.0]]))].into(), &Default::default()).unwrap();
    let bytes = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let text = std::str::from_utf8(&bytes[8..8 + header]).unwrap();
    assert_eq!(text.trim_end(), r#"{"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#);
    assert_eq!(bytes[8 + header..], [1.0f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat());
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = Folder::new("cut");
    let (whole, cut) = (folder.0.join("whole"), folder.0.join("cut"));
    checkpoint().save(&whole).unwrap();
    let bytes = fs::read(&whole).unwrap();
    for length in 0..bytes.len() {
        fs::write(&cut, &bytes[..length]).unwrap();
        let error = Checkpoint::load(&cut).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{length}: {error}");
        assert!(error.message().contains("cut"), "names the file: {error}");
    }
    fs::write(&cut, [&bytes[..], &[0]].concat()).unwrap();
    assert_eq!(Checkpoint::load(&cut).unwrap_err().kind(), ErrorKind::Io);
    assert!(Checkpoint::load(&whole).is_ok());
}

/// Any byte may be anything: it is refused, or means the same, but nothing panics and no memory is allocated that the file
/// does not have.
#[test]
fn a_damaged_byte_is_refused() {
    let folder = Folder::new("damage");
    let path = folder.0.join("file");
    checkpoint().save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let whole = Checkpoint::load(&path).unwrap();
    for at in 0..bytes.len() {
        for byte in [0, b'9', b'"', 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = byte;
            fs::write(&path, &damaged).unwrap();
            // White space at the end of the header may become other white space, which damages nothing.
            if let Ok(loaded) = Checkpoint::load(&path) {
                assert_eq!(shown(&loaded), shown(&whole), "byte {at} is {byte}");
            }
        }
    }
}

#[test]
fn what_is_no_checkpoint_is_named() {
    let folder = Folder::new("other");
    let path = folder.0.join("file");
    let error = Checkpoint::load(&path).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.message().contains("file"), "{error}");
    save(&path, &of_every_type(), &Default::default()).unwrap();
    let error = Checkpoint::load(&path).unwrap_err();
    assert!(error.message().contains("`version`"), "{error}");
    fs::write(&path, [&3u64.to_le_bytes()[..], b"{x}"].concat()).unwrap();
    assert!(load(&path).unwrap_err().message().contains("safetensors"));
    let odd = r#"{"x":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#;
    fs::write(&path, [&(odd.len() as u64).to_le_bytes()[..], odd.as_bytes(), &[7]].concat()).unwrap();
    assert!(load(&path).unwrap_err().message().contains("bools"));
    let huge = r#"{"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#;
    fs::write(&path, [&(huge.len() as u64).to_le_bytes()[..], huge.as_bytes()].concat()).unwrap();
    assert!(load(&path).is_err());
    let wide = r#"{"x":{"dtype":"F32","shape":[4294967296,2147483648,0],"data_offsets":[0,0]}}"#;
    fs::write(&path, [&(wide.len() as u64).to_le_bytes()[..], wide.as_bytes()].concat()).unwrap();
    assert!(load(&path).is_err());
}

#[test]
fn a_failed_save_leaves_the_file_of_before() {
    let folder = Folder::new("failed");
    let path = folder.0.join("file");
    checkpoint().save(&path).unwrap();
    let before = fs::read(&path).unwrap();

    let tensor = Tensor::from([1.0f32]);
    let writing = tensor.accessor_mut::<f32, 1>().unwrap();
    let error = save(&path, &[("held".to_string(), tensor.clone())].into(), &Default::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.message().contains("`held`"), "{error}");
    drop(writing);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(folder.names(), ["file"]);

    // A folder cannot be replaced by a file, which is found out at the very last step.
    let taken = folder.0.join("taken");
    fs::create_dir_all(taken.join("inside")).unwrap();
    assert_eq!(checkpoint().save(&taken).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(folder.names(), ["file", "taken"]);
    assert!(checkpoint().save(folder.0.join("no folder").join("file")).is_err());
}

#[cfg(unix)]
#[test]
fn a_saved_file_is_as_readable_as_any_new_one() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("readable");
    let (saved, other) = (folder.0.join("saved"), folder.0.join("other"));
    checkpoint().save(&saved).unwrap();
    fs::write(&other, "").unwrap();
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&saved), mode(&other));
}

#[cfg(unix)]
#[test]
fn a_saved_file_has_the_permissions_of_the_one_of_before() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("permissions");
    let path = folder.0.join("file");
    checkpoint().save(&path).unwrap();
    for mode in [0o600, 0o640, 0o444, 0o666, 0o777] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        checkpoint().save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_replaced_and_what_it_points_to_is_not() {
    let folder = Folder::new("link");
    let (path, other) = (folder.0.join("file"), folder.0.join("other"));
    fs::write(&other, "precious").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    checkpoint().save(&path).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file() && Checkpoint::load(&path).is_ok());
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
}

/// Each file is whole, whoever wrote it, and of one moment, whoever writes to the tensors.
#[test]
fn threads_that_save_to_one_path_beside_a_writer() {
    let folder = Folder::new("threads");
    let path = folder.0.join("file");
    let tensor = Tensor::zeros(&[50_000], ()).unwrap();
    let tensors: StateDict = [
        ("x".to_string(), tensor.clone()),
        ("gaps".to_string(), tensor.view(&[250, 200]).unwrap().t().unwrap()),
    ]
    .into();
    save(&path, &tensors, &Default::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..600).for_each(|i| assert!(tensor.fill_(f64::from(i)).is_ok())));
        for _ in 0..3 {
            scope.spawn(|| (0..40).for_each(|_| save(&path, &tensors, &Default::default()).unwrap()));
        }
        for _ in 0..80 {
            let (found, _) = load(&path).unwrap();
            let x = found["x"].to_vec::<f32>().unwrap();
            assert!(x.iter().chain(&found["gaps"].to_vec::<f32>().unwrap()).all(|value| *value == x[0]));
        }
    });
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn a_save_that_is_interrupted_leaves_the_file_of_before() {
    let folder = Folder::new("interrupted");
    let path = folder.0.join("file");
    save(&path, &of_every_type(), &Default::default()).unwrap();
    let before = fs::read(&path).unwrap();
    let tensors: StateDict = (0..5).map(|i| (format!("x{i}"), Tensor::from([f64::from(i)]))).collect();
    for checks in 0..6u32 {
        let left = std::cell::Cell::new(checks);
        let interrupted = || match left.replace(left.get().saturating_sub(1)) {
            0 => Err(Error::new(ErrorKind::Interrupted, "enough")),
            _ => Ok(()),
        };
        let error = save_unless(&path, &tensors, &Default::default(), &interrupted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
        assert_eq!((fs::read(&path).unwrap(), folder.names()), (before.clone(), vec!["file".to_string()]));
    }
}

/// All that a checkpoint holds, as text.
fn shown(checkpoint: &Checkpoint) -> String {
    let tensors = checkpoint.model.values().chain(checkpoint.optimizer.values());
    let values: Vec<Vec<f64>> =
        tensors.map(|tensor| tensor.to(ScalarType::F64).unwrap().to_vec::<f64>().unwrap()).collect();
    format!("{checkpoint:?} {values:?}")
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        model: [("w".to_string(), Tensor::from([1.0f32, 2.0])), ("b.c".to_string(), Tensor::from(true))]
            .into(),
        optimizer: [("group.0.lr".to_string(), Tensor::from(0.1f64))].into(),
        step: u64::MAX,
        generator: Some(GeneratorState { seed: u64::MAX - 1, offset: 3 }),
        data: Some(Position { epoch: 2, batch: 5, generator: Some(GeneratorState { seed: 7, offset: 9 }) }),
        metadata: [("step".to_string(), "of a note".to_string())].into(),
    }
}

#[test]
fn a_checkpoint_comes_back_whole() {
    let folder = Folder::new("whole");
    let path = folder.0.join("file");
    let saved = checkpoint();
    saved.save(&path).unwrap();
    saved.save(&path).unwrap();
    let loaded = Checkpoint::load(&path).unwrap();
    assert_eq!((loaded.step, loaded.generator, loaded.data), (saved.step, saved.generator, saved.data));
    assert_eq!(loaded.metadata, saved.metadata);
    assert_eq!(loaded.model.keys().collect::<Vec<_>>(), ["b.c", "w"]);
    assert_eq!(loaded.model["w"].to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(loaded.optimizer["group.0.lr"].item::<f64>().unwrap(), 0.1);

    let bare = Checkpoint::default();
    bare.save(&path).unwrap();
    let loaded = Checkpoint::load(&path).unwrap();
    assert_eq!((loaded.step, loaded.generator, loaded.data), (0, None, None));
}
