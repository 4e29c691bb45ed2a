-- Tables and views of results.duckdb. Times are UTC. The tables of runs are copies of the run folders
-- (results/ingest.py); those of the registry are written as a whole (results/store.py).
-- No PRIMARY KEY, no index: DuckDB's have corrupted data, and one writer keeps the keys unique.
-- A change of this file makes every database be rebuilt.

CREATE SCHEMA internal;
CREATE TABLE internal.meta (key VARCHAR, value VARCHAR);
-- What a run's files looked like when its rows were written.
CREATE TABLE internal.ingested (run VARCHAR, signature VARCHAR);

-- The registry -------------------------------------------------------------------------------------------------------

CREATE TABLE studies (study VARCHAR, title VARCHAR, cells VARCHAR);

CREATE TABLE claims (
    claim VARCHAR, study VARCHAR, cell VARCHAR, statement VARCHAR, kind VARCHAR, metric VARCHAR,
    expected DOUBLE, tolerance DOUBLE, unit VARCHAR, source VARCHAR, direction VARCHAR, trials VARCHAR[],
    -- What the printed number is about; which of the paper's readings it is; and what should fail, or is not ours.
    dataset VARCHAR, num_items BIGINT, protocol VARCHAR, budget JSON,
    reading VARCHAR, misquote BOOLEAN, quoted BOOLEAN,
    -- About the paper's own sizes alone, so that it stands at that scale only.
    full_size BOOLEAN
);

-- Where the code departs from the paper's letter: its marks DEPARTURE(section).
CREATE TABLE departures (section VARCHAR, reason VARCHAR, file VARCHAR, line INTEGER);

-- The paper's tables as printed.
CREATE TABLE published_table1 (
    position INTEGER, layer VARCHAR, label VARCHAR,
    complexity VARCHAR, sequential_operations VARCHAR, maximum_path_length VARCHAR
);

CREATE TABLE published_table2 (
    position INTEGER, model VARCHAR, label VARCHAR, quoted BOOLEAN, ensemble BOOLEAN,
    bleu_ende DOUBLE, bleu_enfr DOUBLE, flops_ende DOUBLE, flops_enfr DOUBLE
);

CREATE TABLE published_table3 (
    position INTEGER, "row" VARCHAR, trial VARCHAR,
    N INTEGER, d_model INTEGER, d_ff INTEGER, h INTEGER, d_k INTEGER, d_v INTEGER,
    p_drop DOUBLE, eps_ls DOUBLE, positions VARCHAR, train_steps INTEGER,
    ppl DOUBLE, bleu DOUBLE, params_millions DOUBLE
);

CREATE TABLE published_table4 (position INTEGER, parser VARCHAR, training VARCHAR, trial VARCHAR, f1 DOUBLE);

CREATE TABLE published_figures (
    position INTEGER, figure VARCHAR, title VARCHAR, sentence VARCHAR,
    layer INTEGER, num_layers INTEGER, shows VARCHAR
);

-- The capability table of lectures on sections 1 and 2: who has what, and by which score that is measured here.
CREATE TABLE published_capabilities (
    position INTEGER, property VARCHAR, label VARCHAR, model VARCHAR, model_label VARCHAR,
    has_it BOOLEAN, metric VARCHAR, threshold DOUBLE, at_least BOOLEAN, claim VARCHAR
);

CREATE TABLE verdicts (
    claim VARCHAR, scale VARCHAR, verdict VARCHAR, measured DOUBLE, low DOUBLE, high DOUBLE,
    num_runs INTEGER, reason VARCHAR,
    -- One-sided, alone and as one of the claims tested together; the verdict without that correction; and where 95% of
    -- resampled test sets would put `measured`, on which no verdict rests.
    p_value DOUBLE, p_adjusted DOUBLE, family_size INTEGER, alone VARCHAR, test_low DOUBLE, test_high DOUBLE,
    decided TIMESTAMP
);

-- The runs -----------------------------------------------------------------------------------------------------------

CREATE TABLE runs (
    run VARCHAR, study VARCHAR, trial VARCHAR, seed BIGINT, scale VARCHAR,
    status VARCHAR, reason VARCHAR, created TIMESTAMP, started TIMESTAMP, finished TIMESTAMP,
    seconds DOUBLE, attempts INTEGER, config JSON, params BIGINT, phases JSON,
    code_version VARCHAR, git_commit VARCHAR, dirty BOOLEAN, data_fingerprint VARCHAR,
    hardware JSON, gpus JSON, versions JSON
);

-- One row per run, step, split and name: the newest attempt's. NULL is a value that was not finite.
CREATE TABLE metrics (
    run VARCHAR, step BIGINT, split VARCHAR, name VARCHAR, value DOUBLE, seconds DOUBLE, attempt INTEGER
);

CREATE TABLE scores (
    run VARCHAR, name VARCHAR, value DOUBLE, signature VARCHAR, dataset VARCHAR, num_items BIGINT, details JSON
);

CREATE TABLE artifacts (run VARCHAR, kind VARCHAR, path VARCHAR, bytes BIGINT, sha256 VARCHAR);

-- What could not be read of which run folder.
CREATE TABLE problems (run VARCHAR, file VARCHAR, problem VARCHAR);

-- Views --------------------------------------------------------------------------------------------------------------

CREATE VIEW internal.scales AS SELECT * FROM (VALUES ('smoke', 1), ('small', 2), ('paper', 3)) AS s (scale, size);

-- The run that speaks for a study, trial, scale and seed: one of the present code that has ended, well or badly, before
-- one that other code finished, before all others; of equals the newest. `other_code` marks a run that other code made.
CREATE VIEW latest_runs AS
WITH present AS (SELECT max(value) AS code FROM internal.meta WHERE key = 'code_version')
SELECT runs.*, coalesce(runs.code_version <> present.code, false) AS other_code
FROM runs CROSS JOIN present
QUALIFY row_number() OVER (
    PARTITION BY runs.study, runs.trial, runs.scale, runs.seed
    ORDER BY
        coalesce(runs.code_version = present.code, false) AND runs.status IN ('done', 'failed', 'diverged') DESC,
        runs.status = 'done' DESC,
        coalesce(runs.code_version = present.code, false) DESC,
        runs.started DESC NULLS LAST,
        runs.created DESC,
        runs.run
) = 1;

CREATE VIEW curves AS
SELECT r.study, r.trial, r.seed, r.scale, m.split, m.step, m.name, m.value, m.seconds, m.run
FROM metrics AS m JOIN latest_runs AS r USING (run);

-- Tables 1, 2 and 4 of the paper and its figures beside what was measured: every published row at every scale, measured
-- or not, as for Table 3 below. Rows that the paper quotes of other systems are marked and never measured.

-- Exponents of growth: `counted_` from the closed forms, `flops_` by torch's counter on the layer at work, `measured_` at
-- work: seconds, steps of its graph, hops between positions. None depends on a scale of ours, so each scale has them
-- all; the longest path of a convolution is a logarithm and has no exponent, but `measured_path_layers`.
CREATE VIEW table1 AS
WITH exponents AS (
    SELECT
        claim, kind, measured,
        split_part(claim, '.', 2) AS layer,
        split_part(claim, '.', 3) || '_' || split_part(claim, '.', 4) AS cell,
        split_part(claim, '.', 5) AS basis
    FROM verdicts JOIN claims USING (claim)
    WHERE study = 'table1' AND (kind = 'exponent' OR metric = 'path_length')
)
SELECT
    s.scale, p.layer, p.label, p.complexity, p.sequential_operations, p.maximum_path_length,
    max(e.measured) FILTER (basis = '' AND cell = 'complexity_n') AS counted_complexity_n,
    max(e.measured) FILTER (basis = '' AND cell = 'complexity_d') AS counted_complexity_d,
    max(e.measured) FILTER (basis = '' AND cell = 'complexity_k') AS counted_complexity_k,
    max(e.measured) FILTER (basis = '' AND cell = 'complexity_r') AS counted_complexity_r,
    max(e.measured) FILTER (basis = '' AND cell = 'sequential_n') AS counted_sequential_n,
    max(e.measured) FILTER (kind = 'exponent' AND basis = '' AND cell = 'path_n') AS counted_path_n,
    max(e.measured) FILTER (basis = '' AND cell = 'path_r') AS counted_path_r,
    max(e.measured) FILTER (basis = 'flops' AND cell = 'complexity_n') AS flops_complexity_n,
    max(e.measured) FILTER (basis = 'flops' AND cell = 'complexity_d') AS flops_complexity_d,
    max(e.measured) FILTER (basis = 'flops' AND cell = 'complexity_k') AS flops_complexity_k,
    max(e.measured) FILTER (basis = 'flops' AND cell = 'complexity_r') AS flops_complexity_r,
    max(e.measured) FILTER (basis = 'measured' AND cell = 'complexity_n') AS measured_complexity_n,
    max(e.measured) FILTER (basis = 'measured' AND cell = 'complexity_d') AS measured_complexity_d,
    max(e.measured) FILTER (basis = 'measured' AND cell = 'complexity_k') AS measured_complexity_k,
    max(e.measured) FILTER (basis = 'measured' AND cell = 'complexity_r') AS measured_complexity_r,
    max(e.measured) FILTER (basis = 'measured' AND cell = 'sequential_n') AS measured_sequential_n,
    max(e.measured) FILTER (kind = 'exponent' AND basis = 'measured' AND cell = 'path_n') AS measured_path_n,
    max(e.measured) FILTER (basis = 'measured' AND cell = 'path_r') AS measured_path_r,
    max(e.measured) FILTER (kind <> 'exponent' AND basis = 'measured' AND cell = 'path_n') AS measured_path_layers
FROM published_table1 AS p
CROSS JOIN internal.scales AS s
LEFT JOIN exponents AS e ON e.layer = p.layer
GROUP BY ALL
ORDER BY any_value(s.size), any_value(p.position);

-- What each training cost, by two counts that are never mixed: counted operations, and the paper's method, training time
-- x devices x the rate that `hardware` was measured to sustain. `dataset` is what was trained on, and so the language
-- pair. Runs that ended before costs were scored have none.
CREATE VIEW costs AS
SELECT
    r.run, r.study, r.trial, r.seed, r.scale, counted.dataset,
    counted.value AS counted_flops, timed.value AS timed_flops,
    CAST(timed.details ->> '$.seconds' AS DOUBLE) AS seconds,
    CAST(timed.details ->> '$.devices' AS INTEGER) AS devices,
    CAST(timed.details ->> '$.flops_per_second' AS DOUBLE) AS flops_per_second,
    split_part(timed.signature, 'hardware:', 2) AS hardware,
    timed.details ->> '$.benchmark' AS benchmark,
    CAST(counted.details ->> '$.updates' AS BIGINT) AS updates
FROM latest_runs AS r
JOIN scores AS counted ON counted.run = r.run AND counted.name = 'counted_flops'
JOIN scores AS timed ON timed.run = r.run AND timed.name = 'timed_flops'
WHERE r.status = 'done';

-- Curves of finished trainings over the counted operations spent.
CREATE VIEW cost_curves AS
SELECT c.*, costs.counted_flops * c.step / costs.updates AS counted_flops
FROM curves AS c JOIN costs USING (run);

-- BLEU by the paper's protocol beside sacreBLEU's own, both of the test set; hours are of training. Costs are those of
-- the view `costs`.
CREATE VIEW table2 AS
WITH latest AS (
    SELECT *, split_part(trial, '.', 1) AS model, split_part(trial, '.', 2) AS direction
    FROM latest_runs WHERE study = 'table2'
),
scored AS (
    SELECT
        run,
        any_value(value) FILTER (name = 'test_bleu_paper') AS bleu,
        any_value(value) FILTER (name = 'test_bleu') AS sacrebleu
    FROM scores GROUP BY run
),
measured AS (
    SELECT
        model, direction, latest.scale,
        avg(bleu) FILTER (status = 'done') AS bleu,
        stddev_samp(bleu) FILTER (status = 'done') AS bleu_sd,
        avg(sacrebleu) FILTER (status = 'done') AS sacrebleu,
        avg(latest.seconds) FILTER (status = 'done') / 3600 AS hours,
        avg(counted_flops) AS counted_flops, avg(timed_flops) AS timed_flops,
        count(*) FILTER (status = 'done') AS seeds,
        count(*) FILTER (status IN ('failed', 'diverged')) AS failed,
        count(*) FILTER (status = 'done' AND other_code) AS other_code
    FROM latest LEFT JOIN scored USING (run) LEFT JOIN costs USING (run)
    GROUP BY model, direction, latest.scale
)
SELECT
    s.scale, p.model, p.label, p.quoted, p.ensemble,
    p.bleu_ende AS published_bleu_ende, de.bleu AS measured_bleu_ende, de.bleu_sd AS bleu_sd_ende,
    de.sacrebleu AS sacrebleu_ende,
    p.bleu_enfr AS published_bleu_enfr, fr.bleu AS measured_bleu_enfr, fr.bleu_sd AS bleu_sd_enfr,
    fr.sacrebleu AS sacrebleu_enfr,
    p.flops_ende AS published_flops_ende, de.hours AS hours_ende,
    de.timed_flops AS timed_flops_ende, de.counted_flops AS counted_flops_ende,
    p.flops_enfr AS published_flops_enfr, fr.hours AS hours_enfr,
    fr.timed_flops AS timed_flops_enfr, fr.counted_flops AS counted_flops_enfr,
    coalesce(de.seeds, 0) AS seeds_ende, coalesce(de.failed, 0) AS failed_ende,
    coalesce(fr.seeds, 0) AS seeds_enfr, coalesce(fr.failed, 0) AS failed_enfr,
    coalesce(de.other_code, 0) + coalesce(fr.other_code, 0) AS other_code
FROM published_table2 AS p
CROSS JOIN internal.scales AS s
LEFT JOIN measured AS de ON de.model = p.model AND de.scale = s.scale AND de.direction = 'ende'
LEFT JOIN measured AS fr ON fr.model = p.model AND fr.scale = s.scale AND fr.direction = 'enfr'
ORDER BY s.size, p.position;

-- Table 3 of the paper beside what was measured: every published row at every scale, measured or not. Measured values
-- are means over the seeds whose latest run is done; a spread (bleu_sd, ppl_sd) needs two. Scores are those of the
-- development set (section 6.2), BLEU by the paper's protocol and beside it sacreBLEU's own; a delta is the row minus
-- the base row of the same scale.
CREATE VIEW table3 AS
WITH latest AS (SELECT * FROM latest_runs WHERE study = 'table3'),
done AS (SELECT * FROM latest WHERE status = 'done'),
scored AS (
    SELECT
        run,
        any_value(value) FILTER (name = 'dev_bleu_paper') AS bleu,
        any_value(value) FILTER (name = 'dev_bleu') AS sacrebleu,
        any_value(value) FILTER (name = 'dev_ppl') AS dev_ppl,
        any_value(value) FILTER (name = 'test_bleu') AS test_bleu
    FROM scores GROUP BY run
),
trained AS (
    SELECT run, max(step) AS steps FROM metrics
    WHERE split = 'train' AND run IN (SELECT run FROM done) GROUP BY run
),
measured AS (
    SELECT
        trial, scale,
        avg(bleu) AS bleu, stddev_samp(bleu) AS bleu_sd, avg(sacrebleu) AS sacrebleu,
        avg(dev_ppl) AS ppl, stddev_samp(dev_ppl) AS ppl_sd,
        avg(test_bleu) AS test_bleu,
        avg(params) / 1e6 AS params_millions,
        count(*) AS seeds,
        max(steps) AS steps,
        count(*) FILTER (other_code) AS other_code
    FROM done LEFT JOIN scored USING (run) LEFT JOIN trained USING (run)
    GROUP BY trial, scale
),
unfit AS (
    SELECT trial, scale, count(*) AS failed FROM latest WHERE status IN ('failed', 'diverged') GROUP BY trial, scale
),
base AS (SELECT ppl, bleu FROM published_table3 WHERE trial = 'base'),
measured_base AS (SELECT scale, bleu, ppl FROM measured WHERE trial = 'base')
SELECT
    s.scale, p."row", p.trial,
    p.N, p.d_model, p.d_ff, p.h, p.d_k, p.d_v, p.p_drop, p.eps_ls, p.positions, p.train_steps,
    p.ppl AS published_ppl, p.bleu AS published_bleu, p.params_millions AS published_params_millions,
    m.ppl AS measured_ppl, m.bleu AS measured_bleu, m.bleu_sd, m.sacrebleu, m.ppl_sd,
    m.params_millions AS measured_params_millions,
    coalesce(m.seeds, 0) AS seeds, coalesce(u.failed, 0) AS failed,
    m.bleu - b.bleu AS delta_bleu, round(p.bleu - base.bleu, 2) AS published_delta_bleu,
    m.ppl - b.ppl AS delta_ppl, round(p.ppl - base.ppl, 2) AS published_delta_ppl,
    m.steps AS steps_trained, coalesce(m.other_code, 0) AS other_code, m.test_bleu
FROM published_table3 AS p
CROSS JOIN internal.scales AS s
LEFT JOIN base ON true
LEFT JOIN measured AS m ON m.trial = p.trial AND m.scale = s.scale
LEFT JOIN unfit AS u ON u.trial = p.trial AND u.scale = s.scale
LEFT JOIN measured_base AS b ON b.scale = s.scale
ORDER BY s.size, p.position;

CREATE VIEW table4 AS
WITH latest AS (SELECT * FROM latest_runs WHERE study = 'table4'),
scored AS (SELECT run, any_value(value) AS f1 FROM scores WHERE name = 'test_f1' GROUP BY run),
measured AS (
    SELECT
        trial, scale,
        avg(f1) FILTER (status = 'done') AS f1,
        stddev_samp(f1) FILTER (status = 'done') AS f1_sd,
        count(*) FILTER (status = 'done') AS seeds,
        count(*) FILTER (status IN ('failed', 'diverged')) AS failed,
        count(*) FILTER (status = 'done' AND other_code) AS other_code
    FROM latest LEFT JOIN scored USING (run)
    GROUP BY trial, scale
)
SELECT
    s.scale, p.parser, p.training, p.trial, p.trial IS NULL AS quoted,
    p.f1 AS published_f1, m.f1 AS measured_f1, m.f1_sd,
    coalesce(m.seeds, 0) AS seeds, coalesce(m.failed, 0) AS failed, coalesce(m.other_code, 0) AS other_code
FROM published_table4 AS p
CROSS JOIN internal.scales AS s
LEFT JOIN measured AS m ON m.trial = p.trial AND m.scale = s.scale
ORDER BY s.size, p.position;

-- Every architecture under one budget: one row for each trial that has run, means over seeds. BLEU is of the test set by
-- the paper's protocol, perplexity of the development set.
CREATE VIEW budget AS
WITH scored AS (
    SELECT
        run,
        any_value(value) FILTER (name = 'test_bleu_paper') AS bleu,
        any_value(value) FILTER (name = 'test_bleu') AS sacrebleu,
        any_value(value) FILTER (name = 'dev_ppl') AS dev_ppl
    FROM scores GROUP BY run
)
SELECT
    r.scale, r.trial,
    any_value(r.config ->> '$.model.architecture') AS architecture,
    any_value(r.params) AS params, any_value(costs.updates) AS updates,
    any_value(CAST(r.config ->> '$.optim.learning_rate_scale' AS DOUBLE)) AS learning_rate_scale,
    any_value(CAST(r.config ->> '$.optim.max_grad_norm' AS DOUBLE)) AS max_grad_norm,
    avg(bleu) AS bleu, stddev_samp(bleu) AS bleu_sd, avg(sacrebleu) AS sacrebleu,
    avg(dev_ppl) AS dev_ppl, stddev_samp(dev_ppl) AS dev_ppl_sd,
    avg(costs.counted_flops) AS counted_flops, avg(costs.timed_flops) AS timed_flops,
    avg(costs.seconds) / 3600 AS hours, any_value(costs.hardware) AS hardware, any_value(costs.benchmark) AS benchmark,
    avg(costs.flops_per_second) AS flops_per_second, any_value(costs.dataset) AS dataset,
    count(*) FILTER (r.status = 'done') AS seeds,
    count(*) FILTER (r.status IN ('failed', 'diverged')) AS failed,
    count(*) FILTER (r.status = 'done' AND r.other_code) AS other_code
FROM latest_runs AS r
LEFT JOIN scored ON scored.run = r.run AND r.status = 'done'
LEFT JOIN costs ON costs.run = r.run
WHERE r.study = 'budget'
GROUP BY r.scale, r.trial
ORDER BY r.scale, bleu DESC NULLS LAST, r.trial;

-- What the captions of the figures say, each as a claim with its number.
CREATE VIEW figures AS
SELECT
    s.scale, p.figure, p.title, p.sentence, p.layer, p.num_layers, p.shows,
    c.claim, c.statement, c.metric, c.direction, c.expected, v.measured, v.low, v.high,
    coalesce(v.verdict, 'not run') AS verdict, v.reason, coalesce(v.num_runs, 0) AS num_runs
FROM published_figures AS p
CROSS JOIN internal.scales AS s
JOIN claims AS c ON c.study = p.figure
LEFT JOIN verdicts AS v ON v.claim = c.claim AND v.scale = s.scale
ORDER BY s.size, p.position, c.claim;

-- Each cell of the lectures' table beside what its probe measured: `measured` says on which side of the threshold the
-- mean over seeds lies, `value` is that mean; verdicts ask that all seeds agree. A model that says it cannot give such an output is at 0, and `refused`
-- tells why. Cells without `published` are of a model that the lectures leave out.
CREATE VIEW capabilities AS
WITH latest AS (SELECT * FROM latest_runs WHERE study = 'capabilities'),
measured AS (
    SELECT
        l.trial AS model, l.scale, s.name AS metric,
        avg(s.value) AS value, stddev_samp(s.value) AS value_sd,
        avg(CAST(s.details->>'$.accuracy' AS DOUBLE)) AS accuracy,
        any_value(CAST(s.details->>'$.chance' AS DOUBLE)) AS chance,
        any_value(s.details->>'$.task') AS task,
        any_value(s.details->>'$.refused') AS refused
    FROM latest AS l JOIN scores AS s USING (run) WHERE l.status = 'done' GROUP BY ALL
),
runs_of AS (
    SELECT
        trial AS model, scale,
        count(*) FILTER (status = 'done') AS seeds,
        count(*) FILTER (status IN ('failed', 'diverged')) AS failed,
        count(*) FILTER (status = 'done' AND other_code) AS other_code
    FROM latest GROUP BY ALL
)
SELECT
    s.scale, p.property, p.label, p.model, p.model_label, p.has_it AS published,
    (m.value >= p.threshold) = p.at_least AS measured,
    m.value, m.value_sd, p.metric, p.threshold, m.accuracy, m.chance, m.task, m.refused,
    p.claim, CASE WHEN p.claim IS NOT NULL THEN coalesce(v.verdict, 'not run') END AS verdict, v.reason,
    coalesce(r.seeds, 0) AS seeds, coalesce(r.failed, 0) AS failed, coalesce(r.other_code, 0) AS other_code
FROM published_capabilities AS p
CROSS JOIN internal.scales AS s
LEFT JOIN measured AS m ON m.model = p.model AND m.scale = s.scale AND m.metric = p.metric
LEFT JOIN runs_of AS r ON r.model = p.model AND r.scale = s.scale
LEFT JOIN verdicts AS v ON v.claim = p.claim AND v.scale = s.scale
ORDER BY s.size, p.position;

-- How the claims of each study stand at each scale; one without a verdict was not run.
CREATE VIEW scorecard AS
WITH stated AS (
    SELECT study, s.scale, s.size, c.claim, coalesce(v.verdict, 'not run') AS verdict
    FROM studies CROSS JOIN internal.scales AS s
    LEFT JOIN claims AS c USING (study)
    LEFT JOIN verdicts AS v ON v.claim = c.claim AND v.scale = s.scale
    WHERE c.full_size IS NOT TRUE OR s.scale = 'paper'
)
SELECT
    study, scale, count(claim) AS claims,
    count(claim) FILTER (verdict = 'reproduced') AS reproduced,
    count(claim) FILTER (verdict = 'not reproduced') AS not_reproduced,
    count(claim) FILTER (verdict = 'agrees') AS agrees,
    count(claim) FILTER (verdict = 'disagrees') AS disagrees,
    count(claim) FILTER (verdict = 'undecided') AS undecided,
    count(claim) FILTER (verdict = 'blocked') AS blocked,
    count(claim) FILTER (verdict = 'not comparable') AS not_comparable,
    count(claim) FILTER (verdict = 'not run') AS not_run,
    count(claim) FILTER (verdict = 'quoted') AS quoted
FROM stated GROUP BY study, scale, size
ORDER BY study, size;
