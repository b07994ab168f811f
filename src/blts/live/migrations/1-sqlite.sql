-- Version 1 of the schema in SQLite. Never changed: databases of users were made by it. Statements end at empty lines.

CREATE TABLE blts_experiments (
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    code TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    paused BOOLEAN NOT NULL,
    position BIGINT NOT NULL,
    t BIGINT NOT NULL,
    batch BIGINT NOT NULL,
    began BIGINT NOT NULL,
    due BOOLEAN NOT NULL,
    awaited BIGINT NOT NULL,
    version BIGINT NOT NULL,
    versions BIGINT NOT NULL,
    clock TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name),
    UNIQUE (code)
);

CREATE TABLE blts_schema (
    version INTEGER NOT NULL
);

CREATE TABLE blts_arms (
    experiment INTEGER NOT NULL,
    arm INTEGER NOT NULL,
    label TEXT NOT NULL,
    metadata TEXT NOT NULL,
    options TEXT NOT NULL,
    added BIGINT NOT NULL,
    retired BIGINT,
    PRIMARY KEY (experiment, arm),
    UNIQUE (experiment, label),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_audit (
    experiment INTEGER NOT NULL,
    position BIGINT NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL,
    actor TEXT NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, position),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_decisions (
    experiment INTEGER NOT NULL,
    t BIGINT NOT NULL,
    arm INTEGER NOT NULL,
    batch BIGINT NOT NULL,
    policy BIGINT NOT NULL,
    vector TEXT NOT NULL,
    position BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, t),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_policies (
    experiment INTEGER NOT NULL,
    version BIGINT NOT NULL,
    kind TEXT NOT NULL,
    batch BIGINT NOT NULL,
    t BIGINT NOT NULL,
    position BIGINT NOT NULL,
    watermark BIGINT NOT NULL,
    in_use BOOLEAN NOT NULL,
    failings TEXT NOT NULL,
    arms TEXT NOT NULL,
    state TEXT NOT NULL,
    law TEXT NOT NULL,
    by_law BOOLEAN NOT NULL,
    data TEXT NOT NULL,
    about TEXT NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, version),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_requests (
    experiment INTEGER NOT NULL,
    request TEXT NOT NULL,
    what TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (experiment, request),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TABLE blts_rewards (
    experiment INTEGER NOT NULL,
    position BIGINT NOT NULL,
    t BIGINT NOT NULL,
    kind TEXT NOT NULL,
    reward DOUBLE,
    at DOUBLE NOT NULL,
    PRIMARY KEY (experiment, position),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE INDEX blts_rewards_of ON blts_rewards (experiment, t, position);

CREATE TABLE blts_vectors (
    experiment INTEGER NOT NULL,
    vector TEXT NOT NULL,
    probabilities TEXT NOT NULL,
    PRIMARY KEY (experiment, vector),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TRIGGER blts_decisions_no_update BEFORE UPDATE ON blts_decisions
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_decisions_no_delete BEFORE DELETE ON blts_decisions
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_rewards_no_update BEFORE UPDATE ON blts_rewards
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_rewards_no_delete BEFORE DELETE ON blts_rewards
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_policies_no_update BEFORE UPDATE ON blts_policies
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_policies_no_delete BEFORE DELETE ON blts_policies
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_audit_no_update BEFORE UPDATE ON blts_audit
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_audit_no_delete BEFORE DELETE ON blts_audit
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_requests_no_update BEFORE UPDATE ON blts_requests
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_requests_no_delete BEFORE DELETE ON blts_requests
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_vectors_no_update BEFORE UPDATE ON blts_vectors
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TRIGGER blts_vectors_no_delete BEFORE DELETE ON blts_vectors
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
