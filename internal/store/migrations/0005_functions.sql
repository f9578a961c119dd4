-- Names of launched kernels (GPU), as linked.
CREATE TABLE names (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id      INTEGER NOT NULL,             -- hash of the name
	name    TEXT NOT NULL,                -- mangled name; see demangle(name)
	PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- The meaning of a launch's handle: the last row of the process and handle
-- that began before the launch.
CREATE TABLE functions (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid      INTEGER NOT NULL,
	handle   INTEGER NOT NULL,            -- as in the arguments of the launch
	since_ns INTEGER NOT NULL,            -- 0: before the first traced call
	name     INTEGER,                     -- names.id
	why      TEXT NOT NULL,               -- why the name is missing; '' if it is known
	reason   INTEGER NOT NULL,            -- why, as a number
	PRIMARY KEY (session, pid, handle, since_ns)
) WITHOUT ROWID;
