//! The levels of `vmap` that are open on a thread, outermost first.

use flambeau_core::{DispatchKey, DispatchKeySet, Result, ThreadKeysGuard, bail, ensure};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// What random operators do under `vmap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Randomness {
    /// They are an error.
    Error,
    /// Each example gets numbers of its own.
    Different,
    /// All examples get the same numbers.
    Same,
}

/// A level: one `vmap` that is running. Levels that were opened later have larger numbers, and no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its number.
    pub id: u64,
    /// How many examples there are.
    pub size: i64,
    /// What random operators do.
    pub randomness: Randomness,
    /// Whether only tangents are batched: the level of a Jacobian by forward mode, at which the primals of all examples are the same.
    pub is_of_tangents: bool,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static OPEN: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
    /// Levels that a [`Below`] hides. Tensors below may have tangents that are batched there.
    static HIDDEN: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

const BATCHED: DispatchKeySet = DispatchKeySet::of(DispatchKey::Batched);

/// The levels that are open on this thread, outermost first.
pub fn levels() -> Vec<Level> {
    OPEN.with_borrow(Clone::clone)
}

/// The innermost level that is open on this thread.
pub fn current_level() -> Option<Level> {
    OPEN.with_borrow(|open| open.last().copied())
}

/// The level of this number, which is open or hidden.
///
/// # Errors
/// `InvalidArgument` where it is closed, or open on another thread.
pub fn open_level(id: u64) -> Result<Level> {
    let find = |levels: &Vec<Level>| levels.iter().find(|level| level.id == id).copied();
    match OPEN.with_borrow(find).or_else(|| HIDDEN.with_borrow(find)) {
        Some(level) => Ok(level),
        None => bail!(
            InvalidArgument("vmap"),
            "a batched tensor was used outside of the function that vmap called, or on another thread"
        ),
    }
}

/// An open level, which is closed when this is dropped. Guards are to be dropped in reverse order.
pub struct LevelGuard {
    level: Level,
    _included: ThreadKeysGuard,
}

impl LevelGuard {
    /// Opens a level for `size` examples.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative size.
    pub fn open(size: i64, randomness: Randomness) -> Result<Self> {
        Self::opened(size, randomness, false)
    }

    /// Opens a level at which only tangents are batched.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative size.
    pub fn open_for_tangents(size: i64, randomness: Randomness) -> Result<Self> {
        Self::opened(size, randomness, true)
    }

    fn opened(size: i64, randomness: Randomness, is_of_tangents: bool) -> Result<Self> {
        ensure!(size >= 0, InvalidArgument("vmap"), "expected a batch size of at least 0 but got {size}");
        let level = Level { id: NEXT.fetch_add(1, Ordering::Relaxed), size, randomness, is_of_tangents };
        OPEN.with_borrow_mut(|open| open.push(level));
        Ok(LevelGuard { level, _included: ThreadKeysGuard::include(BATCHED) })
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }
}

impl Drop for LevelGuard {
    fn drop(&mut self) {
        // A thread that ends with an open level has no list any more.
        let _ = OPEN.try_with(|open| open.borrow_mut().retain(|level| level.id != self.level.id));
    }
}

/// Until it is dropped, only the levels below one are open: a rule of that level calls operators on tensors that do not have it. The
/// others are hidden: calls without batched tensors do not see them, but the tangents of tensors may be batched there.
pub struct Below {
    /// How many levels were hidden before.
    hidden: usize,
    _included: Option<ThreadKeysGuard>,
}

impl Below {
    /// Hides the level `id` and all that were opened after it.
    pub fn level(id: u64) -> Self {
        Self::keeping(|level| level.id < id)
    }

    /// Hides all levels.
    pub fn all() -> Self {
        Self::keeping(|_| false)
    }

    fn keeping(keep: impl Fn(&Level) -> bool) -> Self {
        let (mut newly, is_empty) = OPEN.with_borrow_mut(|open| {
            let at = open.iter().position(|level| !keep(level)).unwrap_or(open.len());
            (open.split_off(at), open.is_empty())
        });
        let hidden = HIDDEN.with_borrow_mut(|all| {
            let before = all.len();
            all.append(&mut newly);
            before
        });
        let _included = is_empty.then(|| ThreadKeysGuard::stop_including(BATCHED));
        Below { hidden, _included }
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let mut levels = HIDDEN.with_borrow_mut(|all| all.split_off(self.hidden.min(all.len())));
        OPEN.with_borrow_mut(|open| open.append(&mut levels));
    }
}
