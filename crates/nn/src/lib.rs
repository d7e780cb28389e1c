//! Modules, optimisers, schedules, data loading and checkpoints.
