//! The table of what is tested with which program, `docs/dev/live-matrix.md`, names nothing that is not there,
//! and each cell is done on both paths.

use std::fs;
use std::path::Path;

use super::beside::{Tested, wrong};

#[test]
fn every_test_that_the_matrix_names_is_there_and_its_cells_are_done_on_both_paths() -> Tested {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../docs/dev/live-matrix.md"))?;
    let (cells, faults) = text.split_once("## Faults").ok_or("no faults")?;
    let names = |text| -> Vec<&str> {
        let rows = str::lines(text).filter(|line| line.starts_with("| "));
        rows.flat_map(|row| row.split('`').skip(1).step_by(2))
            .collect()
    };
    let (cells, faults) = (names(cells), names(faults));
    if cells.len() < 50 {
        return wrong(format!("{} names only", cells.len()));
    }
    for (place, name) in cells.iter().chain(&faults).enumerate() {
        let (file, function) = name.split_once("::").unwrap_or((name, ""));
        let source = root.join("tests/it/gate").join(format!("{file}.rs"));
        let source = fs::read_to_string(&source).map_err(|error| format!("{name}: {error}"))?;
        // A long name is cut off.
        let wanted = match function.strip_suffix('…') {
            Some(beginning) => format!("fn {beginning}"),
            None => format!("fn {function}("),
        };
        if !function.is_empty() && !source.contains(&wanted) {
            return wrong(format!("{name} is not there"));
        }
        if place < cells.len() && !source.contains("on_both(") {
            return wrong(format!("{name} is on one path only"));
        }
    }
    Ok(())
}
