//! The short-time Fourier transform, and its inverse: transforms of windows of a signal, composed of other operators.

use super::arguments::{BY_N, BY_ROOT_N, NONE};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, bail, ensure};

/// Sums of squares of windows below which they do not determine the signal.
const SMALLEST_ENVELOPE: f64 = 1e-11;

/// The lengths of a transform and its windows.
#[derive(Clone, Copy)]
struct Lengths {
    n_fft: i64,
    hop: i64,
    window: i64,
}

impl Lengths {
    fn new(n_fft: i64, hop: Option<i64>, window: Option<i64>) -> Self {
        Lengths { n_fft, hop: hop.unwrap_or(n_fft >> 2), window: window.unwrap_or(n_fft) }
    }

    /// The number of zeros before a window that is shorter than a transform.
    fn before_window(self) -> i64 {
        (self.n_fft - self.window) / 2
    }

    /// The window with zeros around it, if it is shorter than a transform; ones if there is none.
    fn padded_window(self, window: Option<&Tensor>, like: &Tensor) -> Result<Option<Tensor>> {
        if self.window == self.n_fft {
            return Ok(window.cloned());
        }
        let window = match window {
            Some(window) => window.clone(),
            None => ops::ones(&[self.window], Some(like.dtype()), None, Some(like.device()), None)?,
        };
        let before = self.before_window();
        ops::constant_pad_nd(&window, &[before, self.n_fft - self.window - before], 0.into()).map(Some)
    }
}

fn ensure_same_device(name: &str, self_: &Tensor, window: Option<&Tensor>) -> Result<()> {
    let Some(window) = window else { return Ok(()) };
    ensure!(
        window.device() == self_.device(),
        Device(name, "window"),
        expected = self_.device(),
        got = window.device(),
        "stft input and window must be on the same device but got self on {expected} and window on {got}"
    );
    Ok(())
}

/// Elements before and behind the signals of a batch.
fn padded(name: &str, signals: &Tensor, count: i64, mode: &str) -> Result<Tensor> {
    let both = [count, count];
    match mode {
        "constant" => ops::constant_pad_nd(signals, &both, 0.into()),
        "reflect" => ops::reflection_pad1d(signals, &both),
        "replicate" => ops::replication_pad1d(signals, &both),
        "circular" => circular(name, signals, count),
        _ => bail!(
            InvalidArgument(name, "pad_mode"),
            got = mode,
            "expected a pad_mode of constant, reflect, replicate or circular, but got {got}"
        ),
    }
}

/// A signal that repeats itself.
fn circular(name: &str, signals: &Tensor, count: i64) -> Result<Tensor> {
    let length = signals.size(-1)?;
    ensure!(
        count <= length,
        InvalidArgument(name, "pad_mode"),
        "Padding value causes wrapping around more than once."
    );
    let before = ops::slice_tensor(signals, -1, Some(length - count), None, 1)?;
    let behind = ops::slice_tensor(signals, -1, Some(0), Some(count), 1)?;
    ops::cat(&[before, signals.clone(), behind], -1)
}

/// [`stft_center`] of a signal without padding.
#[allow(clippy::too_many_arguments, reason = "the schema has as many")]
pub fn stft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    stft_center(
        self_,
        n_fft,
        hop_length,
        win_length,
        window,
        false,
        "constant",
        normalized,
        onesided,
        return_complex,
        align_to_window,
    )
}

/// The transforms of windows of one signal or a batch, one every `hop_length` elements: frequencies by windows. If `center`, a window has its
/// middle where others have their start.
#[allow(clippy::too_many_arguments, reason = "the schema has as many")]
pub fn stft_center(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    const NAME: &str = "stft";
    let lengths = Lengths::new(n_fft, hop_length, win_length);
    ensure_same_device(NAME, self_, window)?;
    ensure!(
        !center || align_to_window.is_none(),
        InvalidArgument,
        operator = NAME,
        argument = "align_to_window",
        "stft align_to_window should only be set when center = false."
    );
    let complex_input = self_.is_complex() || window.is_some_and(Tensor::is_complex);
    ensure!(
        complex_input || return_complex.is_some(),
        InvalidArgument,
        operator = NAME,
        argument = "return_complex",
        "stft requires the return_complex parameter be given for real inputs, and will further require that \
         return_complex=True in a future PyTorch release."
    );
    let frames = frames(self_, lengths, window, (center, pad_mode), align_to_window.unwrap_or(false))?;
    let onesided = onesided.unwrap_or(!frames.is_complex());
    ensure!(
        !(onesided && frames.is_complex()),
        InvalidArgument(NAME, "onesided"),
        "Cannot have onesided output if window or input is complex"
    );
    let normalization = if normalized { BY_ROOT_N } else { NONE };
    let spectra = match frames.is_complex() {
        true => ops::_fft_c2c(&frames, &[2], normalization, true)?,
        false => ops::_fft_r2c(&frames, &[2], normalization, onesided)?,
    };
    let mut spectra = ops::transpose_int(&spectra, 1, 2)?;
    if self_.dim() == 1 {
        spectra = ops::squeeze_dim(&spectra, 0)?;
    }
    if return_complex.unwrap_or(true) { Ok(spectra) } else { ops::view_as_real(&spectra) }
}

/// The windows of signals: batch by windows by elements.
fn frames(
    self_: &Tensor,
    lengths: Lengths,
    window: Option<&Tensor>,
    (center, pad_mode): (bool, &str),
    align_to_window: bool,
) -> Result<Tensor> {
    const NAME: &str = "stft";
    ensure!(
        self_.dtype().is_floating_point() || self_.is_complex(),
        NotImplemented(NAME, "self"),
        got = self_.dtype(),
        "expected a tensor of floating point or complex values, but got {got}"
    );
    ensure!(
        (1..=2).contains(&self_.dim()),
        Shape(NAME, "self"),
        got = self_.dim(),
        "expected a 1D or 2D tensor, but got one of {got} dimensions"
    );
    let mut signals = if self_.dim() == 1 { ops::unsqueeze(self_, 0)? } else { self_.clone() };
    if center {
        signals = padded(NAME, &signals, lengths.n_fft / 2, pad_mode)?;
    }
    ensure_lengths(lengths, signals.size(1)?, window)?;
    if align_to_window {
        signals = padded(NAME, &signals, lengths.before_window(), pad_mode)?;
    }
    let frames = ops::unfold(&signals, 1, lengths.n_fft, lengths.hop)?;
    match lengths.padded_window(window, self_)? {
        Some(window) => ops::mul_tensor(&frames, &window),
        None => Ok(frames),
    }
}

fn ensure_lengths(lengths: Lengths, length: i64, window: Option<&Tensor>) -> Result<()> {
    const NAME: &str = "stft";
    let Lengths { n_fft, hop, window: win_length } = lengths;
    ensure!(
        0 < n_fft && n_fft <= length,
        InvalidArgument(NAME, "n_fft"),
        "expected 0 < n_fft < {length}, but got n_fft={n_fft}"
    );
    ensure!(
        hop > 0,
        InvalidArgument(NAME, "hop_length"),
        "expected hop_length > 0, but got hop_length={hop}"
    );
    ensure!(
        0 < win_length && win_length <= n_fft,
        InvalidArgument(NAME, "win_length"),
        "expected 0 < win_length <= n_fft, but got win_length={win_length}"
    );
    ensure!(
        window.is_none_or(|window| window.sizes() == [win_length]),
        Shape(NAME, "window"),
        "expected a 1D window tensor of size equal to win_length={win_length}, but got window with size {:?}",
        window.map_or(&[][..], |window| window.sizes())
    );
    Ok(())
}

/// The signals whose windows have these transforms: sums of windows, divided by the sums of their squares.
#[allow(clippy::too_many_arguments, reason = "the schema has as many")]
pub fn istft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<i64>,
    return_complex: bool,
) -> Result<Tensor> {
    const NAME: &str = "istft";
    let lengths = Lengths::new(n_fft, hop_length, win_length);
    ensure_same_device(NAME, self_, window)?;
    ensure_spectra(self_)?;
    let spectra = if self_.dim() == 2 { ops::unsqueeze(self_, 0)? } else { self_.clone() };
    let onesided = onesided.unwrap_or(spectra.size(1)? != n_fft);
    ensure_frequencies(spectra.size(1)?, n_fft, onesided)?;
    ensure_window(lengths, window)?;
    ensure!(
        return_complex || !window.is_some_and(Tensor::is_complex),
        InvalidArgument(NAME, "window"),
        "Complex windows are incompatible with return_complex=False"
    );
    ensure!(
        !(return_complex && onesided),
        InvalidArgument(NAME, "onesided"),
        "Cannot have onesided output if window or input is complex"
    );
    let normalization = if normalized { BY_ROOT_N } else { BY_N };
    let frames = frames_of(&ops::transpose_int(&spectra, 1, 2)?, n_fft, normalization, return_complex)?;
    let signals = overlapped(&frames, lengths, window, center, length)?;
    if self_.dim() == 2 { ops::squeeze_dim(&signals, 0) } else { Ok(signals) }
}

fn ensure_spectra(self_: &Tensor) -> Result<()> {
    const NAME: &str = "istft";
    ensure!(
        self_.is_complex(),
        Dtype,
        operator = NAME,
        argument = "self",
        got = self_.dtype(),
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True, but got {got}."
    );
    ensure!(
        (2..=3).contains(&self_.dim()),
        Shape(NAME, "self"),
        got = self_.dim() + 1,
        "expected a tensor with 3 or 4 dimensions, the parts of complex numbers counted as one, but got {got}"
    );
    ensure!(self_.numel() > 0, Shape(NAME, "self"), "input tensor cannot be empty.");
    Ok(())
}

fn ensure_frequencies(count: i64, n_fft: i64, onesided: bool) -> Result<()> {
    let (expected, formula, flag) =
        if onesided { (n_fft / 2 + 1, "n_fft / 2 + 1", "True") } else { (n_fft, "n_fft", "False") };
    ensure!(
        count == expected,
        Shape("istft", "self"),
        got = count,
        "expected the frequency dimension (3rd to the last) of the input tensor to match {formula} when onesided={flag}, \
         but got {got}"
    );
    Ok(())
}

fn ensure_window(lengths: Lengths, window: Option<&Tensor>) -> Result<()> {
    const NAME: &str = "istft";
    let Lengths { n_fft, hop, window: win_length } = lengths;
    ensure!(
        0 < hop && hop <= win_length,
        InvalidArgument(NAME, "hop_length"),
        "expected 0 < hop_length <= win_length, but got hop_length={hop} and win_length={win_length}"
    );
    ensure!(
        0 < win_length && win_length <= n_fft,
        InvalidArgument(NAME, "win_length"),
        "expected 0 < win_length <= n_fft, but got win_length={win_length} and n_fft={n_fft}"
    );
    ensure!(
        window.is_none_or(|window| window.sizes() == [win_length]),
        Shape(NAME, "window"),
        "Invalid window shape. window has to be 1D and length of `win_length`"
    );
    Ok(())
}

/// The windows that have these transforms: batch by windows by elements.
fn frames_of(spectra: &Tensor, n_fft: i64, normalization: i64, return_complex: bool) -> Result<Tensor> {
    if return_complex {
        return ops::_fft_c2c(spectra, &[2], normalization, false);
    }
    let half = ops::slice_tensor(spectra, 2, Some(0), Some(n_fft / 2 + 1), 1)?;
    ops::_fft_c2r(&half, &[2], normalization, n_fft)
}

/// Adds windows where they overlap, and divides by the sums of squares of the window.
fn overlapped(
    frames: &Tensor,
    lengths: Lengths,
    window: Option<&Tensor>,
    center: bool,
    length: Option<i64>,
) -> Result<Tensor> {
    let Lengths { n_fft, hop, .. } = lengths;
    let (batch, count) = (frames.size(0)?, frames.size(1)?);
    let total = n_fft + hop * (count - 1);
    let window = match lengths.padded_window(window, frames)? {
        Some(window) => window,
        None => ops::ones(&[n_fft], Some(frames.dtype()), None, Some(frames.device()), None)?,
    };
    let start = if center { n_fft / 2 } else { 0 };
    let end = match length {
        Some(length) => start.saturating_add(length),
        None => total - start,
    };
    let added = |windows: &Tensor, batch: i64| {
        let whole = ops::unfold_backward(windows, &[batch, total], 1, n_fft, hop)?;
        ops::slice_tensor(&whole, 1, Some(start), Some(end.max(start)), 1)
    };
    let sums = added(&ops::mul_tensor(frames, &window)?, batch)?;
    let squares = ops::expand(&ops::mul_tensor(&window, &window)?, &[1, count, n_fft], false)?;
    let envelope = added(&squares, 1)?;
    ensure_envelope(&envelope)?;
    let signals = ops::div_tensor(&sums, &envelope)?;
    if end > total { ops::constant_pad_nd(&signals, &[0, end - total], 0.into()) } else { Ok(signals) }
}

fn ensure_envelope(envelope: &Tensor) -> Result<()> {
    if envelope.device().is_meta() {
        return Ok(());
    }
    let smallest = ops::min(&ops::abs(envelope)?)?;
    ensure!(
        !ops::lt_scalar(&smallest, Scalar::Float(SMALLEST_ENVELOPE))?.item::<bool>()?,
        InvalidArgument("istft", "window"),
        "window overlap add min: 1: the windows overlap so that a sum of their squares is below {SMALLEST_ENVELOPE}"
    );
    Ok(())
}
