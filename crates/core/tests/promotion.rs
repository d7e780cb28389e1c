//! The promotion of every pair of types, against the table that PyTorch gave.

use flambeau_core::ScalarType;

fn named(name: &str) -> Option<ScalarType> {
    ScalarType::WORKING.into_iter().find(|dtype| dtype.name() == name)
}

#[test]
fn every_pair_promotes_as_in_pytorch() {
    let mut lines = include_str!("promotion.txt").lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<ScalarType> =
        lines.next().unwrap().split(' ').map(|name| named(name).unwrap()).collect();
    assert_eq!(columns.len(), ScalarType::WORKING.len());
    let mut rows = 0;
    for line in lines {
        let mut words = line.split(' ');
        let a = named(words.next().unwrap()).unwrap();
        for (b, expected) in columns.iter().zip(words) {
            assert_eq!(a.promote(*b), named(expected), "{a} and {b}");
        }
        rows += 1;
    }
    assert_eq!(rows, columns.len());
}
