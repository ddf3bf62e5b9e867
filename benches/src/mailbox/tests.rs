use std::time::Duration;

use super::Mailbox;

#[test]
fn only_the_first_push_after_parking_has_to_wake() {
    let mailbox = Mailbox::default();
    assert!(!mailbox.push(1), "the loop runs");
    assert_eq!(mailbox.take(), [1]);
    assert_eq!(mailbox.park(), None);
    assert!(mailbox.push(2), "the loop sleeps");
    assert!(!mailbox.push(3), "it was woken already");
    mailbox.unpark();
    assert_eq!(mailbox.take(), [2, 3]);
}

#[test]
fn a_loop_with_mail_does_not_sleep() {
    let mailbox = Mailbox::default();
    let _ = mailbox.push(1);
    assert_eq!(mailbox.park(), Some(Duration::ZERO));
}
