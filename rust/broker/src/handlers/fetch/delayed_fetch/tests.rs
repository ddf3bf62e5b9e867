use super::*;
use std::cell::Cell;

/// The fetch waited for its time: the append had missed 40 bytes of 100, the look as many.
#[test]
fn bytes_that_come_behind_a_look_count_with_those_it_found() {
    let missing = Missing::default();
    let (there, looks) = (Cell::new(60), Cell::new(0));
    let look = || {
        looks.set(looks.get() + 1);
        let found = there.get();
        if looks.get() == 1 {
            there.set(found + 60);
            assert!(!missing.count(60), "as far as its append knows, 40 are missing");
        }
        Some(found)
    };
    assert!(missing.are_there(100, look));
    assert_eq!(looks.get(), 2);
}

#[test]
fn bytes_that_are_counted_and_found_do_not_count_twice() {
    let missing = Missing::default();
    let looks = Cell::new(0);
    let look = || {
        looks.set(looks.get() + 1);
        // Added before the look and counted behind it.
        if looks.get() == 1 {
            assert!(!missing.count(60));
        }
        Some(60)
    };
    assert!(!missing.are_there(100, look));
    assert!(missing.count(40), "the rest makes it look again");
}
