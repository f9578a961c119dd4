-- GPU functions (kernels) that were launched, as they are linked.
CREATE TABLE names (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id      INTEGER NOT NULL,             -- of the name: a hash of it
	name    TEXT NOT NULL,                -- mangled: demangle(name)
	PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- What the handle of a launch meant: of the rows of a process and handle, the last one
-- that began before the launch.
CREATE TABLE functions (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid      INTEGER NOT NULL,
	handle   INTEGER NOT NULL,            -- as in the arguments of the launch
	since_ns INTEGER NOT NULL,            -- 0: before the first call that was seen
	name     INTEGER,                     -- names.id
	why      TEXT NOT NULL,               -- there is no name; '' where there is
	reason   INTEGER NOT NULL,            -- the same, as a number
	PRIMARY KEY (session, pid, handle, since_ns)
) WITHOUT ROWID;
