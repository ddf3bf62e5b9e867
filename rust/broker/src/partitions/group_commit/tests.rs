use super::*;

#[test]
fn a_turn_flushes_each_named_partition_once_and_what_comes_meanwhile_later() {
    let committer = GroupCommit::new();
    for key in [3, 1, 3] {
        committer.commit(key);
    }
    let mut flushed = Vec::new();
    committer.turn(|key| {
        flushed.push(key);
        // An append during the flush waits for the next group.
        committer.commit(7);
    });
    assert_eq!(flushed, [1, 3]);
    committer.turn(|key| flushed.push(key));
    committer.turn(|key| flushed.push(key));
    assert_eq!(flushed, [1, 3, 7]);
}
