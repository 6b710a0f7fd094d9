//! Tables of a page. Many of them hold no data, but the layout of a whole page.
//!
//! The cells of a table are laid out on their own. What they hold then decides: short texts side by side are a table,
//! anything else is written one after the other.

use crate::prose::Prose;

/// Cells of one Markdown table, empty ones included.
const MAX_CELLS: usize = 100_000;

/// A table while its cells go by.
pub struct Table {
    /// What the table is a part of.
    outer: Prose,
    rows: Vec<Vec<String>>,
    is_in_cell: bool,
}

impl Table {
    /// Begins a table; what follows is laid out apart.
    pub fn begin(prose: &mut Prose) -> Self {
        prose.end_block();
        let inner = prose.another();
        let outer = std::mem::replace(prose, inner);
        Self { outer, rows: Vec::new(), is_in_cell: false }
    }

    pub fn begin_row(&mut self, prose: &mut Prose) {
        self.end_cell(prose);
        self.rows.push(Vec::new());
    }

    pub fn begin_cell(&mut self, prose: &mut Prose) {
        self.end_cell(prose);
        self.is_in_cell = true;
    }

    pub fn end_cell(&mut self, prose: &mut Prose) {
        let next = prose.another();
        let text = std::mem::replace(prose, next).finish();
        if self.is_in_cell {
            match self.rows.last_mut() {
                Some(row) => row.push(text),
                None => self.rows.push(vec![text]),
            }
        } else if !text.is_empty() {
            // A caption, or text in the wrong place.
            self.rows.push(vec![text]);
            self.rows.push(Vec::new());
        }
        self.is_in_cell = false;
    }

    /// Ends the table, and writes it into what it is a part of.
    pub fn end(mut self, prose: &mut Prose) {
        self.end_cell(prose);
        prose.hand_links_to(&mut self.outer);
        *prose = self.outer;
        let mut rows = self.rows;
        rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let is_data = width > 1
            && rows.len().saturating_mul(width) <= MAX_CELLS
            && !rows.iter().flatten().any(|cell| cell.contains('\n'));
        if !is_data {
            rows.iter().flatten().filter(|cell| !cell.is_empty()).for_each(|cell| prose.block(cell));
        } else if prose.is_markdown() {
            prose.block(&write_markdown(&rows, width));
        } else {
            let lines: Vec<String> = rows.iter().map(|row| row.join(" | ")).collect();
            prose.block(&lines.join("\n"));
        }
    }
}

fn write_markdown(rows: &[Vec<String>], width: usize) -> String {
    let mut table = String::new();
    for (index, row) in rows.iter().enumerate() {
        for column in 0..width {
            let cell = row.get(column).map_or("", String::as_str);
            table.push_str("| ");
            table.push_str(&cell.replace('|', "\\|"));
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
