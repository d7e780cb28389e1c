//! Images of digits as a data set, and a function that draws such images.

use flambeau::core::{Philox, ensure};
use flambeau::nn::data::TensorDataset;
use flambeau::{Generator, Result, Tensor};
use std::ops::Range;

/// Pictures of one size, one after another, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Digits {
    /// From 0, background, to 1, ink.
    pub(crate) pixels: Vec<f32>,
    /// What they show.
    pub(crate) labels: Vec<i64>,
    /// Rows.
    pub(crate) height: usize,
    /// Columns.
    pub(crate) width: usize,
}

impl Digits {
    /// How many pictures.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Some of them: `[n, 1, height, width]` and `[n]`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn tensors(&self, which: Range<usize>) -> Result<(Tensor, Tensor)> {
        let (size, count) = (self.height * self.width, which.len() as i64);
        let pixels = self.pixels[which.start * size..which.end * size].to_vec();
        let sizes = [count, 1, self.height as i64, self.width as i64];
        let labels = self.labels[which].to_vec();
        Ok((Tensor::from_vec(pixels, &sizes)?, Tensor::from_vec(labels, &[count])?))
    }

    /// All of them for a loader: picture and label.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn into_dataset(self) -> Result<TensorDataset> {
        let (pixels, labels) = self.tensors(0..self.len())?;
        TensorDataset::new(vec![pixels, labels])
    }

    /// Checks that a model for these can read `others`.
    ///
    /// # Errors
    /// `Shape` for pictures of another size.
    pub(crate) fn check_same_size(&self, others: &Digits) -> Result<()> {
        ensure!(
            (self.height, self.width) == (others.height, others.width),
            Shape,
            "expected pictures of {} by {}, like those to train on, but got {} by {}",
            self.height,
            self.width,
            others.height,
            others.width
        );
        Ok(())
    }
}

/// Five columns and seven rows a digit; the lowest bit is the rightmost column.
const FONT: [[u8; 7]; 10] = [
    [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110],
    [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b01000, 0b11111],
    [0b11111, 0b00010, 0b00100, 0b00010, 0b00001, 0b10001, 0b01110],
    [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
    [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
    [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
    [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
];
/// Rows and columns of a drawn picture, as in MNIST.
const SIZE: usize = 28;

/// `count` digits, 0 to 9 repeated, at random positions, of random sizes, slants and strengths, with noise; all of it is drawn
/// from `generator`.
///
/// # Errors
/// `Overflow` for more than 2^63 numbers.
pub(crate) fn draw(count: usize, generator: &Generator) -> Result<Digits> {
    let mut digits = Digits { pixels: Vec::new(), labels: Vec::new(), height: SIZE, width: SIZE };
    for i in 0..count {
        let random = generator.reserve_words((SIZE * SIZE + 8) as i64, 1)?;
        let hand = Hand::new(i % FONT.len(), &random);
        digits.labels.push((i % FONT.len()) as i64);
        for pixel in 0..SIZE * SIZE {
            let noise = between(-0.25, 0.25, random.word(8 + pixel as u64));
            let ink = hand.ink((pixel / SIZE) as f32, (pixel % SIZE) as f32);
            digits.pixels.push((ink + noise).clamp(0.0, 1.0));
        }
    }
    Ok(digits)
}

/// How one digit is written.
struct Hand {
    glyph: [u8; 7],
    centre: (f32, f32),
    /// Pixels a row and a column of the font.
    scale: (f32, f32),
    /// Columns to the right for each row up.
    slant: f32,
    strength: f32,
}

impl Hand {
    fn new(digit: usize, random: &Philox) -> Self {
        let middle = SIZE as f32 / 2.0;
        let number = |i, low, high| between(low, high, random.word(i));
        Hand {
            glyph: FONT[digit],
            centre: (middle + number(0, -3.0, 3.0), middle + number(1, -4.0, 4.0)),
            scale: (number(2, 2.0, 3.2), number(3, 2.0, 3.6)),
            slant: number(4, -0.3, 0.3),
            strength: number(5, 0.5, 1.0),
        }
    }

    /// The ink in the middle of a pixel.
    fn ink(&self, row: f32, column: f32) -> f32 {
        let (down, right) = (row + 0.5 - self.centre.0, column + 0.5 - self.centre.1);
        let right = right + self.slant * down;
        let (row, column) = (down / self.scale.0 + 3.5, right / self.scale.1 + 2.5);
        let inside = (0.0..7.0).contains(&row) && (0.0..5.0).contains(&column);
        let black = inside && self.glyph[row as usize] >> (4 - column as usize) & 1 == 1;
        if black { self.strength } else { 0.0 }
    }
}

/// 32 random bits as a number from `low` to below `high`, or `high` itself by rounding.
fn between(low: f32, high: f32, random: u32) -> f32 {
    low + (high - low) * (f64::from(random) / f64::from(u32::MAX)) as f32
}
