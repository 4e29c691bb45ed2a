"""SQL typed by people: what is a question is answered, all else is refused in one line, and nothing is changed."""

from __future__ import annotations

import hashlib
import threading
import time

import pandas
import pytest

from results.errors import QueryError
from results.query import TOO_MUCH_MEMORY, query, table_names

HARMFUL = [
    "COPY runs TO '{path}'",
    "COPY (SELECT 1) TO '{path}' (FORMAT parquet)",
    "COPY runs FROM '/etc/passwd'",
    "EXPORT DATABASE '{path}'",
    "IMPORT DATABASE '{path}'",
    "ATTACH '{path}' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH results",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "SET enable_external_access = true",
    "RESET memory_limit",
    "SET VARIABLE x = 1",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "CALL pragma_version()",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT getenv('HOME')",
    "CREATE TABLE x (a INTEGER)",
    "CREATE TEMP TABLE x (a INTEGER)",
    "CREATE VIEW x AS SELECT 1",
    "CREATE MACRO x() AS 1",
    "CREATE SECRET (TYPE s3)",
    "DROP TABLE runs",
    "ALTER TABLE runs ADD COLUMN x INTEGER",
    "INSERT INTO studies VALUES ('a', 'b', 'c')",
    "INSERT OR REPLACE INTO studies VALUES ('a', 'b', 'c')",
    "UPDATE runs SET status = 'done'",
    "DELETE FROM runs",
    "TRUNCATE runs",
    "MERGE INTO studies USING studies AS s ON false WHEN NOT MATCHED THEN INSERT",
    "WITH x AS (INSERT INTO studies VALUES ('a', 'b', 'c') RETURNING *) SELECT * FROM x",
    "EXPLAIN ANALYZE DELETE FROM runs",
    "BEGIN",
    "COMMIT",
    "CHECKPOINT",
    "VACUUM",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE runs",
    "SELECT ?",
    "FROM enable_logging('FileSystem', storage='file', storage_path='{path}')",
    "FROM enable_profiling(save_location='{path}')",
    "FROM query('COPY runs TO ''{path}''')",
    "FROM query('FROM read_text(''/etc/passwd'')')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''/etc/passwd'')'))",
    "FROM read_duckdb('{path}', table_name='runs')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM parquet_metadata('/etc/passwd')",
    "FROM read_text(['/etc/passwd'])",
    "FROM 'file:///etc/passwd'",
    "FROM 's3://bucket/x.parquet'",
    "FROM duckdb_secrets()",
    "FROM duckdb_extensions()",
    "EXPLAIN ANALYZE COPY runs TO '{path}'",
    "PIVOT (FROM read_text('/etc/passwd')) ON size USING count(*)",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT len(repeat('x', 1000000000000))",
    "SELECT '\udcff'",
    "",
    "  -- only a comment",
    ";",
    "selekt 1",
    "SELECT * FROM internal.nothing",
    "SELECT nothing FROM runs",
]


@pytest.mark.parametrize("sql", HARMFUL)
def test_harmful_or_wrong_sql_is_refused_in_one_line_and_changes_nothing(shared_workspace, tmp_path, sql: str) -> None:
    store = shared_workspace.store
    before = hashlib.sha256(store.database.read_bytes()).digest()
    target = tmp_path / "target"
    with pytest.raises(QueryError) as caught:
        query(store, sql.format(path=target))
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert "root:" not in message
    assert not target.exists()
    assert hashlib.sha256(store.database.read_bytes()).digest() == before


def test_python_variables_are_no_tables(workspace, monkeypatch) -> None:
    workspace.store.ingest()
    monkeypatch.setattr("results.query.my_frame", pandas.DataFrame({"secret": [1]}), raising=False)
    with pytest.raises(QueryError, match="no table 'my_frame'"):
        query(workspace.store, "SELECT * FROM my_frame")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM runs",
        "SELECT 1;",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "FROM runs",
        "VALUES (1), (2)",
        "TABLE runs",
        "DESCRIBE runs",
        "SHOW TABLES",
        "SUMMARIZE runs",
        "EXPLAIN SELECT * FROM table3",
        "PIVOT runs ON status USING count(*) GROUP BY trial",
        "SELECT status, config->>'model' FROM runs",
        "SELECT row, N, h FROM table3 WHERE row = 'base' ORDER BY row",
        "SELECT position, trial FROM published_table3",
    ],
)
def test_questions_are_answered(shared_workspace, sql: str) -> None:
    assert query(shared_workspace.store, sql).num_rows > 0


def test_nulls_stay_null(shared_workspace) -> None:
    answer = query(shared_workspace.store, "SELECT measured_bleu FROM table3 LIMIT 1")
    assert answer.to_pylist() == [{"measured_bleu": None}]


def test_numbers_of_a_run_still_under_way_are_seen(workspace) -> None:
    workspace.store.ingest()
    workspace.create().claim_attempt().log_metrics(7, "train", {"loss": 1.5}, 2.0)
    workspace.store.refresh()
    assert query(workspace.store, "SELECT step, value FROM curves").to_pylist() == [{"step": 7, "value": 1.5}]


def test_unknown_table_names_near_ones(shared_workspace) -> None:
    with pytest.raises(QueryError, match=r"no table 'tabel3'; close: table3, .*; all: artifacts, .*claims, .*verdicts"):
        query(shared_workspace.store, "SELECT * FROM tabel3")


def test_unknown_column_names_near_ones(shared_workspace) -> None:
    with pytest.raises(QueryError, match=r'"measured_blue" not found.*measured_bleu'):
        query(shared_workspace.store, "SELECT measured_blue FROM table3")


def test_tables_of_the_inside_are_not_listed(workspace) -> None:
    workspace.store.ingest()
    names = table_names(workspace.store)
    assert {"runs", "metrics", "scores", "table3", "curves", "scorecard", "latest_runs", "problems"} <= set(names)
    assert not {"meta", "ingested", "scales"} & set(names)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 3",
        "WITH RECURSIVE t (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t",
        "WITH RECURSIVE t (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT * FROM t",
    ],
)
def test_endless_query_is_stopped_and_frees_the_database(workspace, sql: str) -> None:
    workspace.store.ingest()
    began = time.perf_counter()
    with pytest.raises(QueryError, match=r"stopped after 0.3 s"):
        query(workspace.store, sql, seconds=0.3)
    assert time.perf_counter() - began < 5
    workspace.add_run()
    assert workspace.store.ingest().read == 1


def test_answer_that_would_fill_the_memory_is_refused(workspace, monkeypatch) -> None:
    monkeypatch.setattr("results.query.MAX_ANSWER_BYTES", 10_000_000)
    workspace.store.ingest()
    with pytest.raises(QueryError, match=r"larger than .*; aggregate, or add LIMIT"):
        query(workspace.store, "SELECT * FROM range(10000000000)")


CONFINED = """
import sys, time
from pathlib import Path
from results import query
from results.store import Store
query.CONFINED_BYTES = 2**30
with query.confined(float(sys.argv[2])):
    try:
        query.query(Store(Path(sys.argv[1])), sys.argv[3]) if sys.argv[3] else time.sleep(60)
    except query.QueryError as error:
        print(error)
"""


def test_what_duckdb_does_not_count_finds_no_memory_in_a_confined_process(workspace) -> None:
    workspace.store.ingest()
    process = workspace.start_python(CONFINED, 60, "SELECT repeat('x', 3000000000)")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, f"{TOO_MUCH_MEMORY}\n", "")


def test_what_cannot_be_interrupted_ends_a_confined_process(workspace) -> None:
    process = workspace.start_python(CONFINED, 0.2, "")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "stopped after 0.2 s, as it could not be interrupted; ask for less\n"


def test_timers_do_not_outlive_their_query(workspace) -> None:
    workspace.store.ingest()
    before = threading.active_count()
    for _ in range(5):
        query(workspace.store, "SELECT 1", seconds=100)
    time.sleep(0.05)
    assert threading.active_count() <= before + 1
