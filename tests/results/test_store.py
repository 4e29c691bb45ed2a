"""The database as a whole: created once, rebuilt when it must be, its views right on paper's numbers worked by hand."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path

import duckdb
import pytest

from results.errors import ResultsError
from results.records import SCALES, ClaimRow, StudyRow, VerdictRow
from results.store import Store

TABLE3_COLUMNS = (
    "scale row trial N d_model d_ff h d_k d_v p_drop eps_ls positions train_steps published_ppl published_bleu "
    "published_params_millions measured_ppl measured_bleu bleu_sd sacrebleu ppl_sd measured_params_millions seeds "
    "failed delta_bleu published_delta_bleu delta_ppl published_delta_ppl steps_trained other_code test_bleu"
)
COLUMNS = {
    "studies": "study title cells",
    "claims": "claim study cell statement kind metric expected tolerance unit source",
    "runs": "run study trial seed scale status reason started finished seconds config params code_version dirty "
    "data_fingerprint hardware gpus versions",
    "metrics": "run step split name value seconds",
    "scores": "run name value signature dataset num_items details",
    "artifacts": "run kind path bytes sha256",
    "verdicts": "claim scale verdict measured low high num_runs reason decided",
    "published_table3": "position row trial N d_model d_ff h d_k d_v p_drop eps_ls positions train_steps ppl bleu "
    "params_millions",
    "latest_runs": "run study trial seed scale status code_version other_code",
    "curves": "study trial seed scale split step name value seconds run",
    "scorecard": "study scale claims reproduced not_reproduced agrees disagrees undecided blocked not_comparable "
    "not_run quoted",
    "table3": TABLE3_COLUMNS,
}


def claim(name: str, study: str = "table3") -> ClaimRow:
    return ClaimRow(name, study, "Table 3", "a statement", "value", "dev_bleu", 25.8, 0.2, "BLEU", "Table 3, row base")


def verdict(name: str, scale: str, outcome: str, measured: float | None = None) -> VerdictRow:
    return VerdictRow(name, scale, outcome, measured, None, None, 3, "a reason")


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    Store(tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


def test_empty_database_answers_with_the_columns_of_the_design(workspace) -> None:
    workspace.store.ingest()
    for table, columns in COLUMNS.items():
        answer = workspace.store.fetch(f"SELECT * FROM {table}")
        assert answer.num_rows == 0
        wanted = columns.split()
        if table in ("table3", "scorecard", "curves", "published_table3"):
            assert answer.column_names == wanted
        else:
            assert set(wanted) <= set(answer.column_names), table


def test_table3_has_every_published_row_at_every_scale_before_any_run(workspace, published) -> None:
    workspace.register()
    rows = workspace.rows("SELECT scale, trial, published_bleu, measured_bleu, seeds, failed FROM table3")
    assert rows == [(scale, row.trial, row.bleu, None, 0, 0) for scale in SCALES for row in published]
    assert len(rows) == 60


def test_table3_shows_means_spreads_and_deltas(workspace) -> None:
    workspace.register()
    for trial, scores, params in (("base", [20.0, 21.0, 23.0], 2_500_000), ("row1", [19.0], 2_400_000)):
        for seed, bleu in enumerate(scores):
            measured = [
                ("dev_bleu_paper", bleu),
                ("dev_bleu", bleu + 1),
                ("dev_ppl", 6.0 + seed),
                ("test_bleu", bleu - 1),
            ]
            workspace.add_run(
                losses={1: 2.0, 40: 1.0},
                scores=[workspace.score(*entry) for entry in measured],
                trial=trial,
                seed=seed,
                params=params,
            )
    workspace.add_run(trial="row1", seed=1, failure=("out of memory", "failed"))
    workspace.add_run(trial="row1", seed=2, failure=("NaN", "diverged"))
    workspace.create(trial="row1", seed=3)
    workspace.store.ingest()
    row = workspace.store.fetch("SELECT * FROM table3 WHERE scale = 'smoke' AND trial IN ('base', 'row1')").to_pylist()
    base, other = row
    assert base["measured_bleu"] == pytest.approx(64 / 3)
    assert base["sacrebleu"] == pytest.approx(64 / 3 + 1)
    assert base["bleu_sd"] == pytest.approx(statistics.stdev([20, 21, 23]))
    assert base["ppl_sd"] == pytest.approx(1.0)
    assert (base["seeds"], base["failed"], base["delta_bleu"], base["steps_trained"]) == (3, 0, 0.0, 40)
    assert base["measured_params_millions"] == 2.5
    assert (other["seeds"], other["failed"], other["bleu_sd"]) == (1, 2, None)
    assert other["delta_bleu"] == pytest.approx(19 - 64 / 3)
    assert other["published_delta_bleu"] == -0.1
    assert other["delta_ppl"] == pytest.approx(6 - 7)
    assert other["test_bleu"] == 18.0
    paper = workspace.rows("SELECT measured_bleu, seeds FROM table3 WHERE scale = 'paper' AND trial = 'base'")
    assert paper == [(None, 0)]


def test_missing_score_lowers_no_mean(workspace) -> None:
    workspace.register()
    workspace.add_run(scores=[workspace.score("dev_bleu_paper", 20.0)], seed=1)
    workspace.add_run(scores=[workspace.score("dev_bleu_paper", None, reason="all outputs empty")], seed=2)
    workspace.store.ingest()
    assert workspace.rows("SELECT measured_bleu FROM table3 WHERE scale = 'smoke' AND trial = 'base'") == [(20.0,)]
    assert workspace.rows("SELECT count(*), count(value) FROM scores") == [(2, 1)]


def test_other_code_is_marked_and_the_finished_run_preferred(workspace) -> None:
    workspace.register()
    workspace.add_run(code_version="old", scores=[workspace.score("dev_bleu_paper", 20.0)])
    workspace.store.set_code_version("old")
    workspace.store.ingest()
    marked = "SELECT measured_bleu, other_code FROM table3 WHERE scale = 'smoke' AND trial = 'base'"
    assert workspace.rows(marked) == [(20.0, 0)]
    workspace.store.set_code_version("new")
    assert workspace.rows(marked) == [(20.0, 1)]
    workspace.create(code_version="new")
    workspace.store.ingest()
    assert workspace.rows(marked) == [(20.0, 1)]
    assert workspace.rows("SELECT code_version, other_code FROM latest_runs") == [("old", True)]
    workspace.add_run(code_version="new", scores=[workspace.score("dev_bleu_paper", 22.0)])
    workspace.store.ingest()
    assert workspace.rows(marked) == [(22.0, 0)]
    workspace.store.set_code_version("old")  # back on the old branch: its own run speaks again
    assert workspace.rows(marked) == [(20.0, 0)]


def test_curves_follow_the_run_that_speaks(workspace) -> None:
    workspace.add_run(losses={1: 2.0}, code_version="old")
    workspace.add_run(losses={1: 3.0}, code_version="new")
    workspace.store.set_code_version("new")
    workspace.store.ingest()
    assert workspace.rows("SELECT step, name, value FROM curves") == [(1, "loss", 3.0)]


def test_scorecard_counts_each_claim_once_at_each_scale(workspace, table3_study) -> None:
    studies = [table3_study, StudyRow("table1", "Complexity", "Table 1")]
    workspace.store.sync_registry(studies, [claim("a"), claim("b"), claim("c")], [])
    workspace.store.write_verdicts([verdict("a", "smoke", "agrees"), verdict("b", "smoke", "not comparable")])
    cards = workspace.store.fetch("SELECT * FROM scorecard").to_pylist()
    assert [(card["study"], card["scale"]) for card in cards] == [(s, c) for s in ("table1", "table3") for c in SCALES]
    smoke = cards[3]
    assert (smoke["claims"], smoke["agrees"], smoke["not_comparable"], smoke["not_run"]) == (3, 1, 1, 1)
    assert cards[4]["not_run"] == 3
    assert cards[0]["claims"] == 0


def test_verdicts_replace_those_of_their_study_and_scale_only(workspace, table3_study) -> None:
    studies = [table3_study, StudyRow("table1", "Complexity", "Table 1")]
    workspace.store.sync_registry(studies, [claim("a"), claim("b"), claim("x", "table1")], [])
    first = [verdict("a", "smoke", "agrees", 1.0), verdict("b", "smoke", "agrees"), verdict("x", "smoke", "reproduced")]
    workspace.store.write_verdicts([*first, verdict("a", "small", "disagrees")])
    workspace.store.write_verdicts([verdict("a", "smoke", "undecided")])
    rows = workspace.rows("SELECT claim, scale, verdict, measured FROM verdicts ORDER BY ALL")
    assert rows == [
        ("a", "small", "disagrees", None),
        ("a", "smoke", "undecided", None),
        ("x", "smoke", "reproduced", None),
    ]


def test_verdicts_on_unknown_claims_and_twice_given_ids_are_refused(workspace, table3_study) -> None:
    workspace.store.sync_registry([table3_study], [claim("a")], [])
    with pytest.raises(ValueError, match="does not have: z"):
        workspace.store.write_verdicts([verdict("a", "smoke", "agrees"), verdict("z", "smoke", "agrees")])
    with pytest.raises(ValueError, match="verdict given twice: a at scale smoke"):
        workspace.store.write_verdicts([verdict("a", "smoke", "agrees"), verdict("a", "smoke", "disagrees")])
    assert workspace.rows("SELECT * FROM verdicts") == []
    with pytest.raises(ValueError, match="claim given twice: a"):
        workspace.store.sync_registry([table3_study], [claim("a"), claim("a")], [])
    with pytest.raises(ValueError, match="claims name no study: table9"):
        workspace.store.sync_registry([table3_study], [claim("a", "table9")], [])


def test_registry_is_replaced_as_a_whole_and_takes_its_verdicts_along(workspace, table3_study, published) -> None:
    workspace.store.sync_registry([table3_study], [claim("a"), claim("b")], published)
    workspace.store.write_verdicts([verdict("a", "smoke", "agrees"), verdict("b", "smoke", "agrees")])
    changed = dataclasses.replace(claim("b"), expected=26.4)
    workspace.store.sync_registry([table3_study], [changed], published[:2])
    assert workspace.rows("SELECT claim, expected FROM claims") == [("b", 26.4)]
    assert workspace.rows("SELECT claim FROM verdicts") == [("b",)]
    assert workspace.rows("SELECT count(*) FROM table3") == [(6,)]


def test_unchanged_registry_opens_no_write_connection(workspace, monkeypatch) -> None:
    workspace.register()
    monkeypatch.setattr("results.store.transaction", pytest.fail)
    workspace.register()


def test_rebuild_equals_incremental_and_keeps_registry_and_verdicts(workspace, table3_study, published) -> None:
    workspace.store.sync_registry([table3_study], [claim("a")], published)
    workspace.store.write_verdicts([verdict("a", "smoke", "agrees")])
    workspace.store.set_code_version("c0de")
    for seed in range(3):
        workspace.add_run(seed=seed, scores=[workspace.score("dev_bleu_paper", 20.0 + seed)])
        workspace.store.ingest()
    kept = {
        name: workspace.rows(f"FROM {name} ORDER BY ALL") for name in ("claims", "verdicts", "internal.meta", "table3")
    }
    incremental = workspace.dump()
    assert workspace.dump_after_rebuild() == incremental
    assert {name: workspace.rows(f"FROM {name} ORDER BY ALL") for name in kept} == kept
    assert sorted(path.name for path in workspace.home.iterdir()) == ["results.duckdb", "results.duckdb.lock", "runs"]


def test_database_of_another_schema_is_rebuilt_and_said_so(workspace, table3_study, caplog) -> None:
    workspace.add_run()
    workspace.store.sync_registry([table3_study], [claim("a")], [])
    workspace.store.write_verdicts([verdict("a", "smoke", "agrees")])
    with duckdb.connect(str(workspace.store.database)) as connection:
        connection.execute("UPDATE internal.meta SET value = 'older' WHERE key = 'schema_version'")
        connection.execute("DROP VIEW table3")
        connection.execute("DROP TABLE metrics")
        connection.execute("ALTER TABLE verdicts ADD COLUMN withdrawn VARCHAR")
    workspace.store.ingest()
    assert "rebuilt it from 1 run folders" in caplog.text
    assert workspace.rows("SELECT count(*) FROM metrics") == [(2,)]
    assert workspace.rows("SELECT claim, verdict FROM verdicts") == [("a", "agrees")]
    assert workspace.store.ingest().unchanged == 1


@pytest.mark.parametrize("content", [b"", b"hello" * 2000, b"\x00" * 20_000])
def test_file_that_is_no_database_is_named_and_can_be_rebuilt(workspace, content: bytes) -> None:
    workspace.add_run()
    workspace.store.database.write_bytes(content)
    with pytest.raises(
        ResultsError, match=r"results.duckdb.*(not a DuckDB database|cannot open).*aiayn query --rebuild"
    ):
        workspace.store.ingest()
    assert workspace.store.rebuild().read == 1
    assert workspace.rows("SELECT count(*) FROM runs") == [(1,)]


def test_truncated_database_is_named_and_can_be_rebuilt(workspace) -> None:
    workspace.add_run()
    workspace.store.ingest()
    content = workspace.store.database.read_bytes()
    workspace.store.database.write_bytes(content[:5_000])
    with pytest.raises(ResultsError, match="aiayn query --rebuild"):
        workspace.store.ingest()
    assert workspace.store.rebuild().read == 1


def test_database_of_another_tool_is_not_overwritten_unasked(workspace) -> None:
    workspace.home.mkdir()
    with duckdb.connect(str(workspace.store.database)) as connection:
        connection.execute("CREATE TABLE theirs AS SELECT 42 AS answer")
    with pytest.raises(ResultsError, match="another tool's DuckDB database; move it away"):
        workspace.store.ingest()
    with duckdb.connect(str(workspace.store.database), read_only=True) as connection:
        assert connection.execute("FROM theirs").fetchall() == [(42,)]


def test_home_without_results_says_how_to_begin(workspace) -> None:
    with pytest.raises(ResultsError, match=r"no results in .*home yet; start with: aiayn run table3"):
        workspace.store.fetch("SELECT 1")


@pytest.mark.parametrize("call", ["ingest", "rebuild", "refresh"])
def test_home_that_cannot_be_written_is_named(call: str) -> None:
    with pytest.raises(ResultsError, match=r"cannot write to /proc/aiayn .*--home DIR or AIAYN_HOME"):
        getattr(Store(Path("/proc/aiayn")), call)()


def test_refresh_of_a_read_only_home_shows_the_database_as_it_is(workspace, monkeypatch) -> None:
    workspace.add_run(seed=1)
    workspace.store.ingest()
    workspace.add_run(seed=2)
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda path, mode: False)
        assert workspace.store.refresh() is None
    assert workspace.rows("SELECT count(*) FROM runs") == [(1,)]
    assert workspace.store.refresh().read == 1
