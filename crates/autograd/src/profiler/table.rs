//! Averages as a table, with PyTorch's columns.

use super::averages::{Average, Averages};
use flambeau_core::profiler::Input;
use std::cmp::Reverse;
use std::fmt::Write;

/// The column by which a table is sorted, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    /// Time without the events inside.
    #[default]
    SelfTime,
    /// Time with the events inside.
    TotalTime,
    /// The mean of that.
    MeanTime,
    /// How many there were.
    Count,
    /// Bytes allocated, without the events inside.
    SelfBytes,
    /// Bytes allocated, with the events inside.
    TotalBytes,
}

impl SortBy {
    fn sort(self, averages: &mut [&Average]) {
        match self {
            SortBy::SelfTime => averages.sort_by_key(|average| Reverse(average.self_time)),
            SortBy::TotalTime => averages.sort_by_key(|average| Reverse(average.total_time)),
            SortBy::MeanTime => averages.sort_by(|a, b| b.mean_time().total_cmp(&a.mean_time())),
            SortBy::Count => averages.sort_by_key(|average| Reverse(average.count)),
            SortBy::SelfBytes => averages.sort_by_key(|average| Reverse(average.self_bytes)),
            SortBy::TotalBytes => averages.sort_by_key(|average| Reverse(average.total_bytes)),
        }
    }
}

impl Averages {
    /// At most `rows` lines, sorted.
    pub fn table(&self, by: SortBy, rows: usize) -> String {
        let mut sorted: Vec<&Average> = self.all.iter().collect();
        by.sort(&mut sorted);
        sorted.truncate(rows);
        write(&sorted, self.self_time(), self.has_memory)
    }
}

/// The lines, between rules, and below them the time of all.
fn write(averages: &[&Average], all: u64, has_memory: bool) -> String {
    let mut columns = vec!["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"];
    if has_memory {
        columns.extend(["CPU Mem", "Self CPU Mem"]);
    }
    columns.push("# of Calls");
    let has_inputs = averages.iter().any(|average| average.inputs.is_some());
    if has_inputs {
        columns.push("Input Shapes");
    }
    let header: Vec<String> = columns.into_iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> =
        averages.iter().map(|average| row(average, all, has_memory, has_inputs)).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ");
    let mut text = format!("{rule}\n{}\n{rule}\n", line(&header, &widths));
    rows.iter().for_each(|row| text += &(line(row, &widths) + "\n"));
    let _ = writeln!(text, "{rule}\nSelf CPU time total: {}", time(all as f64));
    text
}

fn row(average: &Average, all: u64, has_memory: bool, has_inputs: bool) -> Vec<String> {
    let share = |time: u64| format!("{:.2}%", 100.0 * time as f64 / all.max(1) as f64);
    let mut row = vec![
        average.name.clone(),
        share(average.self_time),
        time(average.self_time as f64),
        share(average.total_time),
        time(average.total_time as f64),
        time(average.mean_time()),
    ];
    if has_memory {
        row.extend([bytes(average.total_bytes), bytes(average.self_bytes)]);
    }
    row.push(average.count.to_string());
    if has_inputs {
        row.push(average.inputs.as_deref().map(shapes).unwrap_or_default());
    }
    row
}

/// The first column to the left, the others to the right.
fn line(cells: &[String], widths: &[usize]) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    padded.collect::<Vec<_>>().join("  ")
}

fn shapes(inputs: &[Input]) -> String {
    let shapes: Vec<String> = inputs.iter().map(|input| format!("{:?}", input.sizes)).collect();
    format!("[{}]", shapes.join(", "))
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e6 => format!("{:.3}us", n / 1e3),
        n if n < 1e9 => format!("{:.3}ms", n / 1e6),
        n => format!("{:.3}s", n / 1e9),
    }
}

fn bytes(bytes: i64) -> String {
    let size = bytes as f64;
    match bytes.unsigned_abs() {
        n if n < 1 << 10 => format!("{bytes} b"),
        n if n < 1 << 20 => format!("{:.2} Kb", size / 1024.0),
        n if n < 1 << 30 => format!("{:.2} Mb", size / f64::from(1 << 20)),
        _ => format!("{:.2} Gb", size / f64::from(1 << 30)),
    }
}
