"""The counts of a conformance run are those of its report."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import results, run, scorecard
from tests.harness import places

REPORT = """<testsuites><testsuite>
  <testcase name="a"/>
  <testcase name="b"><failure>no</failure></testcase>
  <testcase name="c"><error>no</error></testcase>
  <testcase name="d"><skipped>why</skipped></testcase>
  <testcase name="e"><properties>
    <property name="passed" value="28"/><property name="left_out" value="10"/>
  </properties></testcase>
  <testcase name="f"><properties><property name="differing" value="2"/></properties></testcase>
</testsuite></testsuites>"""


def test_tests_and_their_steps_are_counted(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    # a, 28 steps of e, and f; two of these passed with an answer that is not Kafka's.
    assert results.counts_of(tmp_path / "report.xml") == results.Counts(28, 2, 13)


def test_a_run_replaces_the_counts_of_its_suite_alone(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    file = tmp_path / "results.json"
    other = {"kafkalite": {"java": {"passed": 9}, "python": {"passed": 1}}}
    file.write_text(json.dumps(other))
    results.add(file, "kafkalite", "python", tmp_path / "report.xml", is_slice=True)
    found = results.load(file)["kafkalite"]
    assert found["java"] == {"passed": 9}
    assert (found["python"]["passed"], found["python"]["run"]) == (28, "slice")
    assert set(found["python"]["versions"]) == {"confluent-kafka", "aiokafka", "kafka-python"}
    assert "unknown" not in found["python"]["versions"].values()


def test_the_scorecard_and_the_readme_are_drawn_from_the_results() -> None:
    hint = "run: make scorecard"
    assert scorecard.PAGE.read_text() == scorecard.page(), hint
    assert scorecard.README.read_text() == scorecard.readme(), hint


def test_every_file_of_tests_is_in_one_suite() -> None:
    files = [file for suite in run.SUITES.values() for file in suite.files]
    found = {path.name for path in places.CONFORMANCE.glob("test_*.py")}
    assert sorted(files) == sorted(found | {"../frameworks"})
