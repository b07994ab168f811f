-- Version 4 of the schema in SQLite. Never changed: databases of users were made by it. Statements end at empty lines.

CREATE TABLE blts_jobs (
    id TEXT NOT NULL,
    experiment INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT,
    actor TEXT NOT NULL,
    asked_at DOUBLE NOT NULL,
    began_at DOUBLE,
    ended_at DOUBLE,
    PRIMARY KEY (id),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE INDEX blts_jobs_in ON blts_jobs (state);

CREATE TABLE blts_keys (
    id TEXT NOT NULL,
    hash TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    experiments TEXT,
    origins TEXT,
    rate DOUBLE,
    created_at DOUBLE NOT NULL,
    created_by TEXT NOT NULL,
    expires_at DOUBLE,
    revoked_at DOUBLE,
    revoked_by TEXT,
    PRIMARY KEY (id)
);

CREATE TABLE blts_secrets (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (name)
);
