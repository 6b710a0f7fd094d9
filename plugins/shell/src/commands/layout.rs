//! `column` and `fold`

use crate::call::{Call, Options, chomp, lines, text_of};
use crate::shell::{Outcome, fail};

/// The width of a terminal, which `column` fills.
const WIDTH: usize = 80;

/// Blanks of a tab.
const TAB: usize = 8;

pub fn column(call: &mut Call<'_>) -> Outcome {
    let long =
        "table=t separator=s output-separator=o table-columns=N table-right=R fillrows=x output-width=c";
    let options = call.options("ts:o:N:R:xc:", long, false)?;
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    let all: Vec<String> = inputs
        .iter()
        .flat_map(|(_, bytes)| lines(bytes))
        .map(|line| text_of(chomp(line)))
        .filter(|line| !line.trim().is_empty())
        .collect();
    if options.has('t') {
        write_table(call, &options, &all)?
    } else {
        fill(call, &options, &all)?
    }
    Ok(i32::from(!is_complete))
}

fn write_table(call: &mut Call<'_>, options: &Options, all: &[String]) -> Outcome<()> {
    let split = |line: &String| -> Vec<String> {
        match options.value('s') {
            Some(signs) => line.split(|sign| signs.contains(sign)).map(str::to_owned).collect(),
            None => line.split_whitespace().map(str::to_owned).collect(),
        }
    };
    let head = options.value('N').map(|names| names.split(',').map(str::to_owned).collect());
    let rows: Vec<Vec<String>> = head.into_iter().chain(all.iter().map(split)).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let right = right_columns(options, rows.first())?;
    let mut widths = vec![0; count];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in rows {
        let cells = widths.iter().enumerate().map(|(index, width)| {
            let cell = row.get(index).map_or("", String::as_str);
            match right.contains(&index) {
                true => format!("{cell:>width$}"),
                false if index + 1 == count => cell.to_owned(),
                false => format!("{cell:<width$}"),
            }
        });
        call.line(cells.collect::<Vec<_>>().join(options.value('o').unwrap_or("  ")))?;
    }
    Ok(())
}

/// The columns that `-R` names by their numbers from 1, or by the names in the first row.
fn right_columns(options: &Options, head: Option<&Vec<String>>) -> Outcome<Vec<usize>> {
    let named = options.value('R').into_iter().flat_map(|names| names.split(','));
    named
        .map(|name| {
            let by_number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let by_name = || head?.iter().position(|cell| cell == name);
            by_number.or_else(by_name).map_or_else(|| fail(format!("undefined column name '{name}'")), Ok)
        })
        .collect()
}

/// Writes words in columns, from the top down, or with `-x` from the left.
fn fill(call: &mut Call<'_>, options: &Options, words: &[String]) -> Outcome<()> {
    let longest = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
    let width = (longest / TAB + 1) * TAB;
    let total = options.value('c').and_then(|width| width.parse().ok()).unwrap_or(WIDTH);
    let columns = (total / width).max(1);
    let rows = words.len().div_ceil(columns);
    for row in 0..rows {
        let cells: Vec<&String> = match options.has('x') {
            true => words.iter().skip(row * columns).take(columns).collect(),
            false => words.iter().skip(row).step_by(rows).collect(),
        };
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            line.push_str(cell);
            if index + 1 < cells.len() {
                line.push_str(&"\t".repeat((width - cell.chars().count()).div_ceil(TAB)));
            }
        }
        call.line(line)?;
    }
    Ok(())
}

/// `fold`, by characters, and with `-b` by bytes.
pub fn fold(call: &mut Call<'_>) -> Outcome {
    let options = call.options("w:sb", "width=w spaces=s bytes=b", false)?;
    let width = options.value('w').unwrap_or("80");
    let Some(width) = width.parse().ok().filter(|width: &usize| *width > 0) else {
        return fail(format!("invalid number of columns: '{width}'"));
    };
    let (inputs, is_complete) = call.read_inputs(&options.rest)?;
    for (_, bytes) in inputs {
        if options.has('b') && !options.has('s') {
            for line in lines(&bytes) {
                let pieces: Vec<&[u8]> = chomp(line).chunks(width).collect();
                call.out(pieces.join(&b'\n'))?;
                call.out(&line[chomp(line).len()..])?;
            }
            continue;
        }
        for line in lines(&bytes) {
            let folded = fold_line(&text_of(line), width, options.has('s'));
            call.out(folded)?;
        }
    }
    Ok(i32::from(!is_complete))
}

fn fold_line(line: &str, width: usize, at_blanks: bool) -> String {
    let (mut folded, mut row, mut column) = (String::new(), String::new(), 0);
    let advance = |column: usize, sign: char| match sign {
        '\n' => column,
        '\t' => (column / TAB + 1) * TAB,
        '\u{8}' => column.saturating_sub(1),
        '\r' => 0,
        _ => column + 1,
    };
    for sign in line.chars() {
        if advance(column, sign) > width && !row.is_empty() {
            let blank = if at_blanks { row.rfind([' ', '\t']) } else { None };
            let rest = row.split_off(blank.map_or(row.len(), |blank| blank + 1));
            folded.push_str(&row);
            folded.push('\n');
            column = rest.chars().fold(0, advance);
            row = rest;
        }
        column = advance(column, sign);
        row.push(sign);
    }
    folded + &row
}
