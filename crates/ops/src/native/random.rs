//! Random numbers. Element i depends on the seed and on i alone.

pub mod distributions;
pub mod poisson_binomial;
pub mod randn_randperm_multinomial;
