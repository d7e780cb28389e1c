//! Tests of the reader of MNIST's files and of the drawn digits, and that the network learns.

use super::args::Args;
use super::{digits, idx, run};
use clap::Parser;
use flambeau::distributed::launch;
use flambeau::{ErrorKind, Generator};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder of its own for a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flambeau-mnist-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An IDX file of bytes.
fn idx_file(sizes: &[u32], elements: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes.extend(elements);
    bytes
}

#[test]
fn idx_files_are_read_as_their_description_says() {
    let folder = Folder::new("good");
    let images = folder.file("images", &idx_file(&[2, 1, 3], &[0, 51, 255, 1, 2, 3]));
    let labels = folder.file("labels", &idx_file(&[2], &[9, 0]));
    let digits = idx::read(&images, &labels).unwrap();
    assert_eq!((digits.len(), digits.height, digits.width), (2, 1, 3));
    assert_eq!(digits.labels, [9, 0]);
    assert_eq!(digits.pixels, [0.0, 0.2, 1.0, 1.0 / 255.0, 2.0 / 255.0, 3.0 / 255.0]);
    let (pixels, labels) = digits.tensors(1..2).unwrap();
    assert_eq!(pixels.sizes(), [1, 1, 1, 3]);
    assert_eq!(pixels.to_vec::<f32>().unwrap(), &digits.pixels[3..]);
    assert_eq!(labels.to_vec::<i64>().unwrap(), [0]);
}

#[test]
fn bad_idx_files_are_named() {
    let folder = Folder::new("bad");
    let good_images = idx_file(&[2, 2, 2], &[7; 8]);
    let good_labels = idx_file(&[2], &[1, 2]);
    let refused = |images: &[u8], labels: &[u8], who: &str, what: &str| {
        let (images, labels) = (folder.file("images", images), folder.file("labels", labels));
        let error = idx::read(&images, &labels).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains(who) && error.message().contains(what), "{what}: {error}");
    };
    for length in 0..good_images.len() {
        let what = if length < 16 { "header of 16 bytes" } else { "expected 8 bytes" };
        refused(&good_images[..length], &good_labels, "images", what);
    }
    for length in 0..good_labels.len() {
        let what = if length < 8 { "header of 8 bytes" } else { "expected 2 bytes" };
        refused(&good_images, &good_labels[..length], "labels", what);
    }
    refused(&[&good_images[..], &[0]].concat(), &good_labels, "images", "got 9");
    refused(&idx_file(&[2], &[0; 10]), &good_labels, "images", "0x00000803");
    refused(&good_images, &idx_file(&[1, 1, 2], &[1, 2]), "labels", "0x00000801");
    refused(&[0x1f, 0x8b, 8, 0], &good_labels, "images", "gunzip");
    refused(&good_images, &idx_file(&[3], &[1, 2, 3]), "labels", "expected 2 labels");
    refused(&good_images, &idx_file(&[2], &[1, 10]), "labels", "label 1 is 10");
    refused(&idx_file(&[0, 2, 2], &[]), &idx_file(&[0], &[]), "images", "at least one picture");
    refused(&idx_file(&[u32::MAX; 3], &[]), &good_labels, "images", "more than");
    let missing = idx::read(&folder.0.join("absent"), &folder.file("labels", &good_labels)).unwrap_err();
    assert!(missing.message().contains("absent"), "{missing}");
}

/// Files changed at random: an error of the reader's own, or pictures and labels that go together. Neither panics nor allocates
/// more memory than the file has bytes.
#[test]
fn mutated_idx_files_are_errors_or_pictures() {
    let folder = Folder::new("mutated");
    let good = [idx_file(&[3, 2, 2], &[7; 12]), idx_file(&[3], &[1, 2, 3])];
    let draws = Generator::new(1).reserve(1 << 20);
    let mut drawn = 0;
    let mut below = |n: usize| {
        drawn += 1;
        draws.word(drawn) as usize % n
    };
    let mut read = 0;
    for _ in 0..2000 {
        let mut files = good.clone();
        for _ in 0..1 + below(3) {
            let file = &mut files[below(2)];
            match below(4) {
                0 => file.truncate(below(file.len() + 1)),
                1 => file.extend(vec![below(256) as u8; below(9)]),
                _ if file.is_empty() => {}
                kind => {
                    let at = below(file.len());
                    file[at] = if kind == 2 {
                        [0, 1, 0x7f, 0x80, 0xff][below(5)]
                    } else {
                        file[at] ^ (1 << below(8))
                    };
                }
            }
        }
        let [images, labels] = &files;
        match idx::read(&folder.file("images", images), &folder.file("labels", labels)) {
            Ok(digits) => {
                read += 1;
                assert_eq!(digits.pixels.len(), digits.len() * digits.height * digits.width);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        }
    }
    assert!((1..2000).contains(&read), "{read}");
}

/// A file of 2^40 bytes that takes no room on the disk, of which only the header was written.
#[test]
fn a_file_of_holes_is_an_error() {
    let folder = Folder::new("holes");
    let images = folder.file("images", &idx_file(&[1 << 20, 1 << 10, 1 << 10], &[]));
    fs::File::options().write(true).open(&images).unwrap().set_len((1 << 40) + 15).unwrap();
    let error = idx::read(&images, &images).unwrap_err();
    assert!(error.message().contains("expected 1099511627776 bytes"), "{error}");
}

#[test]
fn drawn_digits_depend_on_the_seed_alone() {
    let drawn = |seed| digits::draw(30, &Generator::new(seed)).unwrap();
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1).pixels, drawn(2).pixels);
    assert!(drawn(1).pixels.iter().all(|p| (0.0..=1.0).contains(p)));
    let labels: Vec<i64> = (0..30).map(|i| i % 10).collect();
    assert_eq!(drawn(1).labels, labels);
}

/// The whole program: files that do not go together, options out of range, and learning by heart.
#[test]
fn the_program_learns_and_says_what_is_wrong() {
    let folder = Folder::new("program");
    // Two kinds of pictures: ink above, ink below.
    let pixels: Vec<u8> =
        (0..16).flat_map(|i| (0..64).map(move |p| if (p < 32) == (i % 2 == 0) { 255 } else { 0 })).collect();
    let labels: Vec<u8> = (0..16).map(|i| i % 2).collect();
    let images = folder.file("images", &idx_file(&[16, 8, 8], &pixels));
    let labels = folder.file("labels", &idx_file(&[16], &labels));
    let small = folder.file("small", &idx_file(&[16, 4, 16], &pixels));
    let program = |test_images: &PathBuf, batch: &str| {
        let [a, b, c] = [&images, &labels, test_images].map(|path| path.to_str().unwrap());
        let files = ["--images", a, "--labels", b, "--test-images", c, "--test-labels", b];
        let rest = ["--epochs", "20", "--lr", "0.01", "--batch", batch];
        run(&Args::parse_from(["mnist_cnn"].iter().chain(&files).chain(&rest)))
    };
    assert_eq!(program(&images, "4").unwrap().right, 16);
    assert!(program(&small, "4").unwrap_err().message().contains("expected pictures of 8 by 8"));
    assert!(program(&images, "0").unwrap_err().message().contains("--batch"));
    assert!(Args::try_parse_from(["mnist_cnn", "--images", "a"]).is_err());
}

/// The arguments of a rank, which this test program starts itself as, and where the first rank writes what it has learnt.
const ARGUMENTS: &str = "MNIST_CNN_ARGUMENTS";
const LEARNT: &str = "MNIST_CNN_LEARNT";

#[test]
fn one_two_and_four_ranks_learn_the_same() {
    if let Ok(arguments) = std::env::var(ARGUMENTS) {
        let learnt = run(&Args::try_parse_from(arguments.split_whitespace()).unwrap()).unwrap();
        if std::env::var("RANK").unwrap() == "0" {
            fs::write(std::env::var(LEARNT).unwrap(), format!("{learnt:?}")).unwrap();
        }
        return;
    }
    let folder = Folder::new("ranks");
    // The last step has 15 pictures, which four micro-batches cannot share equally.
    let train = |ranks: usize, more: &str| {
        let arguments =
            format!("mnist_cnn --drawn 47 --batch 16 --epochs 2 --threads 1 --ranks {ranks} {more}");
        let file = folder.0.join(format!("learnt{ranks}"));
        let rank = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            // The tests of a device have this file in a module of theirs.
            let (_, module) = module_path!().split_once("::").unwrap();
            command.args([&format!("{module}::one_two_and_four_ranks_learn_the_same"), "--exact"]);
            command.env(ARGUMENTS, &arguments).env(LEARNT, &file).stdout(Stdio::null());
            command
        };
        launch(ranks, 0, &rank).unwrap();
        fs::read_to_string(file).unwrap()
    };
    let [one, two, four] = [1, 2, 4].map(|ranks| train(ranks, "--micro-batches 4"));
    assert!(one == two && two == four && one.contains("losses: [2."), "{one}\n{two}\n{four}");
    // Other parts of a step are another sum: the comparison can fail.
    assert_ne!(train(1, "--micro-batches 1"), one);
    let refused = |more: &str| {
        let arguments = format!("mnist_cnn --drawn 33 --batch 16 {more}");
        run(&Args::try_parse_from(arguments.split_whitespace()).unwrap()).unwrap_err().message().to_owned()
    };
    assert!(refused("--ranks 2 --micro-batches 6").contains("a power of two times --ranks, 2"));
    assert!(refused("--micro-batches 2").contains("a last one of 1"));
}
