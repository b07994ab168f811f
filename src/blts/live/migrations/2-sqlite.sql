-- Version 2 of the schema in SQLite. Never changed: databases of users were made by it. Statements end at empty lines.

ALTER TABLE blts_experiments ADD COLUMN closing BIGINT NOT NULL DEFAULT '0';

ALTER TABLE blts_experiments ADD COLUMN settled BIGINT NOT NULL DEFAULT '0';

ALTER TABLE blts_experiments ADD COLUMN entries BIGINT NOT NULL DEFAULT '0';

ALTER TABLE blts_experiments ADD COLUMN chain TEXT NOT NULL DEFAULT '';

ALTER TABLE blts_experiments ADD COLUMN stopped TEXT;

ALTER TABLE blts_experiments ADD COLUMN pepper TEXT NOT NULL DEFAULT '';

UPDATE blts_experiments SET closing = t WHERE due;

UPDATE blts_experiments SET
    settled = (SELECT count(DISTINCT r.t) FROM blts_rewards r WHERE r.experiment = blts_experiments.id),
    entries = (SELECT count(*) FROM blts_rewards r WHERE r.experiment = blts_experiments.id);

UPDATE blts_experiments SET pepper = lower(hex(randomblob(16)));

ALTER TABLE blts_requests ADD COLUMN position BIGINT NOT NULL DEFAULT '0';

ALTER TABLE blts_audit ADD COLUMN chain TEXT NOT NULL DEFAULT '';

CREATE TABLE blts_units (
    experiment INTEGER NOT NULL,
    unit TEXT NOT NULL,
    t BIGINT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (experiment, unit),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_exposures (
    experiment INTEGER NOT NULL,
    t BIGINT NOT NULL,
    position BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, t),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE INDEX blts_exposures_at ON blts_exposures (experiment, position);

CREATE TABLE blts_measures (
    experiment INTEGER NOT NULL,
    metric TEXT NOT NULL,
    t BIGINT NOT NULL,
    position BIGINT NOT NULL,
    kind TEXT NOT NULL,
    value DOUBLE NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, metric, t, position),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_reports (
    experiment INTEGER NOT NULL,
    version BIGINT NOT NULL,
    report TEXT NOT NULL,
    digest TEXT NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, version),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_leases (
    experiment INTEGER NOT NULL,
    holder TEXT NOT NULL,
    until DOUBLE NOT NULL,
    PRIMARY KEY (experiment),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TRIGGER blts_units_no_update BEFORE UPDATE ON blts_units
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_units_no_delete BEFORE DELETE ON blts_units
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_exposures_no_update BEFORE UPDATE ON blts_exposures
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_exposures_no_delete BEFORE DELETE ON blts_exposures
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_measures_no_update BEFORE UPDATE ON blts_measures
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_measures_no_delete BEFORE DELETE ON blts_measures
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
