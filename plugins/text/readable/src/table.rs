//! Tables of a page. Many of them hold no data, but the layout of a whole page.
//!
//! The cells of a table are laid out on their own. What they hold then decides: short texts side by side are a table,
//! anything else is written one after the other.

use crate::prose::Prose;

/// Cells of one Markdown table, empty ones included.
const MAX_CELLS: usize = 100_000;

/// Rows or columns of one cell. Tables of data have few, and what is spanned is written out.
const MAX_SPAN: usize = 100;

/// What a cell of data may hold: an address, a short list. More is the layout of a page.
const CELL_LINES: usize = 12;
const CELL_BYTES: usize = 500;

/// A table while its cells go by.
pub struct Table {
    /// What the table is a part of.
    outer: Prose,
    rows: Vec<Vec<String>>,
    /// How many rows from here on the cells above reach into, for each column.
    reached: Vec<usize>,
    /// What stands above it.
    captions: Vec<String>,
    /// The cell that goes by.
    cell: Option<Span>,
    /// Whether another one is in one of its cells, which only the layout of a page has.
    pub holds_table: bool,
}

/// How many rows and columns a cell has.
#[derive(Clone, Copy)]
pub struct Span {
    pub rows: usize,
    pub columns: usize,
}

impl Default for Span {
    fn default() -> Self {
        Self { rows: 1, columns: 1 }
    }
}

/// The value of `rowspan` or `colspan`. What is none is one.
pub fn span(value: &[u8]) -> usize {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(1).clamp(1, MAX_SPAN)
}

impl Table {
    /// Begins a table; what follows is laid out apart.
    pub fn begin(prose: &mut Prose) -> Self {
        prose.end_block();
        let inner = prose.another();
        let outer = std::mem::replace(prose, inner);
        Self {
            outer,
            rows: Vec::new(),
            reached: Vec::new(),
            captions: Vec::new(),
            cell: None,
            holds_table: false,
        }
    }

    pub fn begin_row(&mut self, prose: &mut Prose) {
        self.end_cell(prose);
        self.end_row();
        self.rows.push(Vec::new());
    }

    pub fn begin_cell(&mut self, prose: &mut Prose, span: Span) {
        self.end_cell(prose);
        self.cell = Some(span);
    }

    pub fn end_cell(&mut self, prose: &mut Prose) {
        let next = prose.another();
        let text = std::mem::replace(prose, next).finish();
        match self.cell.take() {
            Some(span) => self.put(text, span),
            None if text.is_empty() => {}
            None if self.rows.is_empty() => self.captions.push(text),
            None => {
                // Text in the wrong place.
                self.end_row();
                self.rows.extend([vec![text], Vec::new()]);
            }
        }
    }

    /// Puts a cell where no cell from above reaches.
    fn put(&mut self, text: String, span: Span) {
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        self.pass_reached();
        let Some(row) = self.rows.last_mut() else { return };
        let from = row.len();
        row.push(text);
        row.resize(from + span.columns, String::new());
        if span.rows > 1 {
            let width = self.reached.len().max(row.len());
            self.reached.resize(width, 0);
        }
        // Where a cell from above reaches in, both have the place (HTML, 4.9.12.1), and that one reaches one row less far.
        for rows in self.reached.iter_mut().take(row.len()).skip(from) {
            *rows = rows.saturating_sub(1).max(span.rows - 1);
        }
    }

    /// Leaves out what cells from above reach into.
    fn pass_reached(&mut self) {
        let Some(row) = self.rows.last_mut() else { return };
        while let Some(rows) = self.reached.get_mut(row.len()).filter(|rows| **rows > 0) {
            *rows -= 1;
            row.push(String::new());
        }
    }

    /// Cells from above reach into the rest of the row too, behind gaps of it.
    fn end_row(&mut self) {
        let Some(row) = self.rows.last_mut() else { return };
        let reaches_to = self.reached.iter().rposition(|rows| *rows > 0).map_or(0, |last| last + 1);
        for column in row.len()..reaches_to {
            self.reached[column] = self.reached[column].saturating_sub(1);
            row.push(String::new());
        }
    }

    /// Ends the table, and writes it into what it is a part of.
    pub fn end(mut self, prose: &mut Prose) {
        self.end_cell(prose);
        self.end_row();
        prose.hand_links_to(&mut self.outer);
        *prose = self.outer;
        self.captions.iter().for_each(|caption| prose.block(caption));
        let mut rows = self.rows;
        rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let is_data = !self.holds_table
            && width > 1
            && rows.len().saturating_mul(width) <= MAX_CELLS
            && rows.iter().flatten().all(|cell| is_data(cell));
        if !is_data {
            rows.iter().flatten().filter(|cell| !cell.is_empty()).for_each(|cell| prose.block(cell));
        } else if prose.is_markdown() {
            prose.block(&write_markdown(&rows, width));
        } else {
            let in_line = |cell: &String| lines(cell).collect::<Vec<_>>().join(" ");
            let lines: Vec<String> =
                rows.iter().map(|row| row.iter().map(in_line).collect::<Vec<_>>().join(" | ")).collect();
            prose.block(&lines.join("\n"));
        }
    }
}

/// Whether a cell can stand beside others: one line, or a few short ones that are no block of code.
fn is_data(cell: &str) -> bool {
    !cell.contains('\n')
        || (cell.len() <= CELL_BYTES && lines(cell).count() <= CELL_LINES && !cell.contains("```"))
}

fn lines(cell: &str) -> impl Iterator<Item = &str> {
    cell.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn write_markdown(rows: &[Vec<String>], width: usize) -> String {
    let mut table = String::new();
    for (index, row) in rows.iter().enumerate() {
        for column in 0..width {
            let cell = row.get(column).map_or("", String::as_str);
            table.push_str("| ");
            table.push_str(&lines(cell).collect::<Vec<_>>().join("<br>").replace('|', "\\|"));
            table.push(' ');
        }
        table.push_str("|\n");
        if index == 0 {
            table.push_str(&"| --- ".repeat(width));
            table.push_str("|\n");
        }
    }
    table
}
