//! Text in columns.

use crate::visible::visible;

/// Rows of cells; the first row is the heading.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    #[must_use]
    pub fn new(heading: &[&str]) -> Table {
        let mut table = Table::default();
        table.row(heading);
        table
    }

    /// Adds a row. What would break a line of the table is shown as an escape.
    pub fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        let cell = |cell: &T| {
            let cell = visible(cell.as_ref());
            cell.replace('\n', "\\n").replace('\t', "\\t")
        };
        self.rows.push(cells.iter().map(cell).collect());
    }

    /// The lines, columns two blanks apart, without trailing blanks.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    /// The lines as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn cells_move_no_cursor_and_break_no_line() {
        let mut table = Table::new(&["file"]);
        table.row(&["a\u{1b}[2J\nb"]);
        assert_eq!(table.lines()[1], "a\\u{1b}[2J\\nb");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["name", "role"]);
        table.row(&["quito", "router"]);
        table.row(&["al", "leaf"]);
        assert_eq!(
            table.lines(),
            ["name   role", "quito  router", "al     leaf"]
        );
    }
}
