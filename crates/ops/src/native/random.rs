//! Random numbers. An element depends on the seed and on its index alone, so results do not vary with the number of threads.

pub mod distributions;
pub mod multinomial;
pub mod poisson_binomial;
pub mod rand_randn;
pub mod randperm;
