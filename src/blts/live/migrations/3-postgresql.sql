-- Version 3 of the schema in PostgreSQL. Never changed: databases of users were made by it. Statements end at empty lines.

CREATE TABLE blts_contexts (
    experiment BIGINT NOT NULL,
    t BIGINT NOT NULL,
    context TEXT NOT NULL,
    available TEXT,
    position BIGINT NOT NULL,
    PRIMARY KEY (experiment, t),
    FOREIGN KEY(experiment) REFERENCES blts_experiments (id)
);

CREATE TRIGGER blts_contexts_no_update BEFORE UPDATE ON blts_contexts
FOR EACH ROW EXECUTE FUNCTION blts_refuse();

CREATE TRIGGER blts_contexts_no_delete BEFORE DELETE ON blts_contexts
FOR EACH ROW EXECUTE FUNCTION blts_refuse();
