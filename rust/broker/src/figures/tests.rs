use super::*;

const COLUMNS: &[Column] = &[Column::gauge("figure", "A figure.")];

fn table(rows: usize) -> Table {
    Table { columns: COLUMNS, rows: (0..rows).map(|_| (Labels::new(), vec![1.0])).collect() }
}

fn rows(tables: &[Table]) -> Vec<usize> {
    tables.iter().map(|table| table.rows.len()).collect()
}

#[test]
fn a_page_has_ten_thousand_rows_a_table_and_says_how_many_it_leaves_out() {
    let tables = bounded(vec![table(MAX_ROWS + 3), table(2), table(MAX_ROWS + 4)]);
    assert_eq!(rows(&tables), [MAX_ROWS, 2, MAX_ROWS, 1]);
    assert_eq!(tables[3].rows[0].1, [7.0]);
}

#[test]
fn a_small_page_leaves_nothing_out() {
    let tables = bounded(vec![table(2)]);
    assert_eq!(rows(&tables), [2, 1]);
    assert_eq!(tables[1].rows[0].1, [0.0]);
}
