//! Generates the operators that the two YAML files of this crate declare.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    flambeau_codegen::build_extension(true)
}
