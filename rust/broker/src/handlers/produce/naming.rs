//! A request that names a partition several times.

use kafkalite_protocol::messages::produce::TopicProduceData;

/// Leaves each partition once, with the records that are named last.
///
/// So does Kafka, which puts the partitions of a request into a map. Sorted in place of a map: a
/// request may name a million.
pub(super) fn name_each_once(topics: &mut [TopicProduceData]) {
    type Place = (usize, usize);
    let places = || {
        let topics = topics.iter().enumerate();
        topics.flat_map(|(at, topic)| (0..topic.partition_data.len()).map(move |place| (at, place)))
    };
    let key = |(at, place): &Place| {
        let topic = &topics[*at];
        (topic.topic_id, topic.name.as_str(), topic.partition_data[*place].index)
    };
    if places().is_sorted_by(|one, next| key(one) < key(next)) {
        return;
    }
    let mut order: Vec<Place> = places().collect();
    order.sort_unstable_by(|one, other| key(one).cmp(&key(other)).then(one.cmp(other)));
    let runs = order.chunk_by(|one, next| key(one) == key(next));
    let mut again: Vec<Place> = runs.flat_map(|run| &run[..run.len() - 1]).copied().collect();
    again.sort_unstable();
    let mut again = again.into_iter().peekable();
    for (at, topic) in topics.iter_mut().enumerate() {
        let mut places = 0..;
        topic.partition_data.retain(|_| {
            let place = places.next().unwrap_or_default();
            again.next_if_eq(&(at, place)).is_none()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kafkalite_protocol::Records;
    use kafkalite_protocol::messages::produce::PartitionProduceData;

    fn topic(name: &str, partitions: &[(i32, &'static str)]) -> TopicProduceData {
        let data = |(index, records): &(i32, &'static str)| PartitionProduceData {
            index: *index,
            records: Some(Records::Bytes(Bytes::from_static(records.as_bytes()))),
        };
        let partition_data = partitions.iter().map(data).collect();
        TopicProduceData { name: name.to_owned(), partition_data, ..TopicProduceData::default() }
    }

    #[test]
    fn of_a_partition_that_is_named_several_times_the_last_records_stay() {
        let mut topics = vec![
            topic("a", &[(1, "1"), (0, "2"), (1, "3")]),
            topic("b", &[(1, "4")]),
            topic("a", &[(0, "5"), (2, "6"), (0, "7")]),
        ];
        name_each_once(&mut topics);
        let left =
            [topic("a", &[(1, "3")]), topic("b", &[(1, "4")]), topic("a", &[(2, "6"), (0, "7")])];
        assert_eq!(topics, left);
        name_each_once(&mut topics);
        assert_eq!(topics, left);
    }
}
