use super::*;

const COLUMNS: &[Column] = &[Column::gauge("figure", "A figure.")];

/// A table that was given so many rows.
fn table(rows: usize) -> Bounded {
    let mut table = Bounded::new(COLUMNS);
    (0..rows).for_each(|_| table.push(|| (Labels::new(), vec![1.0])));
    table
}

fn rows(tables: &[Table]) -> Vec<usize> {
    tables.iter().map(|table| table.rows.len()).collect()
}

#[test]
fn a_page_has_ten_thousand_rows_a_table_and_says_how_many_it_leaves_out() {
    let tables = page([table(MAX_ROWS + 3), table(2), table(MAX_ROWS + 4)]);
    assert_eq!(rows(&tables), [MAX_ROWS, 2, MAX_ROWS, 1]);
    assert_eq!(tables[3].rows[0].1, [7.0]);
}

#[test]
fn a_small_page_leaves_nothing_out() {
    let tables = page([table(2)]);
    assert_eq!(rows(&tables), [2, 1]);
    assert_eq!(tables[1].rows[0].1, [0.0]);
}

/// Once all rows were built before most of them were dropped: a million of them took 290 MiB.
#[test]
fn what_a_page_leaves_out_is_never_built() {
    let (mut table, mut built) = (table(MAX_ROWS), 0);
    table.push(|| {
        built += 1;
        (Labels::new(), vec![1.0])
    });
    assert_eq!((built, table.left_out), (0, 1));
}
