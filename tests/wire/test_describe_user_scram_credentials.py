"""DescribeUserScramCredentials (50): there are none."""

from __future__ import annotations

from tests.harness.session import Session


def test_no_user_has_credentials(s: Session) -> None:
    answer = s.call("DescribeUserScramCredentials", 0, Users=None)
    assert (answer["ErrorCode"], answer["Results"]) == (0, [])


def test_a_user_without_credentials_is_not_found(s: Session) -> None:
    answer = s.call("DescribeUserScramCredentials", 0, Users=[{"Name": "ada"}])
    assert [one["ErrorCode"] for one in answer["Results"]] == [91]
