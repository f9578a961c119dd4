-- Processes that ended first are deleted first, with their data.
CREATE INDEX processes_ended ON processes (session, ended_ns);
CREATE INDEX streams_pid ON streams (session, pid);
CREATE INDEX graphs_pid ON graphs (session, pid);
CREATE INDEX comms_pid ON comms (session, pid);
