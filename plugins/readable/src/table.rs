//! Writes tables. Many tables of pages hold no data, but the layout of the page.

use std::rc::Rc;

use htmd::element_handler::Handlers;
use markup5ever_rcdom::Node;

use crate::page::{attribute, name};

/// Rows or columns that one cell may span. Tables of data have few.
const MAX_SPAN: usize = 100;

/// Cells of a table, with those that are spanned. A table of a few hundred bytes can span millions.
const MAX_CELLS: usize = 100_000;

/// Most lines of a cell of data: an address, a short list. More is the layout of a page.
const MAX_CELL_LINES: usize = 12;
const MAX_CELL_BYTES: usize = 500;

/// Writes a table by `write`, or cell by cell where it holds layout.
pub fn write(
    handlers: &dyn Handlers,
    table: &Rc<Node>,
    write: fn(&[Vec<String>], usize) -> String,
) -> String {
    let children = table.children.borrow();
    let mut blocks = Vec::new();
    let mut rows = Vec::new();
    for child in children.iter() {
        match name(child) {
            Some("caption") => blocks.push(handlers.walk_children(child).content),
            Some("tr") => rows.push(child.clone()),
            _ => rows.extend(child.children.borrow().iter().filter(|row| name(row) == Some("tr")).cloned()),
        }
    }
    let mut grid = grid(handlers, &rows);
    grid.retain(|row| row.iter().any(|cell| !cell.is_empty()));
    let width = grid.iter().map(Vec::len).max().unwrap_or(0);
    let holds_table = rows.iter().any(holds_table);
    let is_data = width > 1 && width.saturating_mul(grid.len()) <= MAX_CELLS && !holds_table;
    if is_data && grid.iter().flatten().all(|cell| is_data_cell(cell)) {
        blocks.push(write(&grid, width));
    } else {
        blocks.extend(grid.into_iter().flatten().filter(|cell| !cell.is_empty()));
    }
    format!(
        "\n\n{}\n\n",
        blocks.iter().map(|block| block.trim_matches('\n')).collect::<Vec<_>>().join("\n\n")
    )
}

pub fn markdown(rows: &[Vec<String>], width: usize) -> String {
    let mut table = String::new();
    for (index, row) in rows.iter().enumerate() {
        for column in 0..width {
            let cell = row.get(column).map_or("", String::as_str);
            let cell = lines(cell).collect::<Vec<_>>().join("<br>").replace('|', "\\|");
            table.push_str(&format!("| {cell} "));
        }
        table.push_str("|\n");
        if index == 0 {
            table.push_str(&format!("{}|\n", "| --- ".repeat(width)));
        }
    }
    table
}

pub fn text(rows: &[Vec<String>], _width: usize) -> String {
    let row = |row: &Vec<String>| row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>().join(" | ");
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

pub fn one_line(text: &str) -> String {
    lines(text).collect::<Vec<_>>().join(" ")
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Writes each cell in its column (HTML, 4.9.12.1), as long as there are not too many.
fn grid(handlers: &dyn Handlers, rows: &[Rc<Node>]) -> Vec<Vec<String>> {
    // How many rows from here on the cells above reach down, for each column.
    let mut reach: Vec<usize> = Vec::new();
    let mut grid = Vec::new();
    let mut count = 0;
    for row in rows {
        let mut cells = Vec::new();
        for cell in row.children.borrow().iter().filter(|cell| matches!(name(cell), Some("td" | "th"))) {
            while reach.get(cells.len()).is_some_and(|rows| *rows > 0) {
                cells.push(String::new());
            }
            let is_full = count > MAX_CELLS;
            let span = |name| if is_full { 1 } else { span(cell, name) };
            let (from, columns, rows) = (cells.len(), span("colspan"), span("rowspan"));
            cells.push(handlers.walk_children(cell).content.trim().to_owned());
            cells.resize(from + columns, String::new());
            reach.resize(reach.len().max(cells.len()), 0);
            reach[from..from + columns].iter_mut().for_each(|below| *below = rows.max(*below));
        }
        let reached = reach.iter().rposition(|rows| *rows > 0).map_or(0, |last| last + 1);
        cells.resize(cells.len().max(reached), String::new());
        reach.iter_mut().for_each(|below| *below = below.saturating_sub(1));
        count += cells.len();
        if count > MAX_CELLS {
            reach.clear();
        }
        grid.push(cells);
    }
    grid
}

fn span(cell: &Node, name: &str) -> usize {
    attribute(cell, name).and_then(|value| value.trim().parse().ok()).unwrap_or(1).clamp(1, MAX_SPAN)
}

fn holds_table(node: &Rc<Node>) -> bool {
    let mut nodes = vec![node.clone()];
    while let Some(node) = nodes.pop() {
        if name(&node) == Some("table") {
            return true;
        }
        nodes.extend(node.children.borrow().iter().cloned());
    }
    false
}

/// Whether a cell can stand beside others: one line, or a few short ones that are no block of code.
fn is_data_cell(cell: &str) -> bool {
    !cell.contains('\n')
        || (cell.len() <= MAX_CELL_BYTES && lines(cell).count() <= MAX_CELL_LINES && !cell.contains("```"))
}
