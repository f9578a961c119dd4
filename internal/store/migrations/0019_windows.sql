-- A window is asked for its chains: those whose intervals, or episodes, overlap it.
CREATE INDEX chains_time ON chains (session, to_ns, from_ns);
CREATE INDEX episodes_time ON episodes (session, to_ns, from_ns);
CREATE INDEX episodes_open ON episodes (session, from_ns) WHERE ended_ns IS NULL;
