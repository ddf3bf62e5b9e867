"""A slice of the bench that times each page: no clock decides here."""

from __future__ import annotations

import kafkalite as kl
from benches.console_pages import PAGES, fill, measured, names, table
from tests.unit.test_admin_api import Api
from tests.unit.test_cluster_figures import url_of

GROUPS = 100


def test_each_page_answers_beside_a_thousand_partitions() -> None:
    topics = names(1_000)
    with kl.Broker(admin_port=0, topics=topics) as broker:
        fill(broker, topics, GROUPS)
        found = measured(broker, 2)
        api = Api(url_of(broker))
        partitions = api.get("/overview")["partitions"]
        groups = api.get("/groups", limit=1_000)["groups"]
        every = api.get("/groups/{id}", id="all", limit=1_000)
    # Topics of the broker itself have the offsets.
    assert partitions > 1_000
    assert len(groups) == GROUPS
    assert len(every["offsets"]) == 1_000
    assert set(found) == set(PAGES)
    assert all(len(one.times) == 2 and one.size > 0 for one in found.values())
    assert len(table(found)) == len(PAGES) + 2
