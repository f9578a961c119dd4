-- Frames of stacks: functions that made calls.
CREATE TABLE frames (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id      INTEGER NOT NULL,
	kind    TEXT NOT NULL,                -- 'native', 'python', 'gpu', 'gap'
	func    TEXT NOT NULL,                -- demangled; '': unknown. For a gap: why frames are missing
	file    TEXT NOT NULL,                -- source file; '': unknown
	line    INTEGER,                      -- executed line
	module  TEXT NOT NULL,                -- native: path of the mapped file
	offset  INTEGER NOT NULL,             -- native: from the start of func, or of module if func is ''
	inline  INTEGER NOT NULL,             -- 1: inlined into the enclosing frame
	PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- Stacks of calls: events.stack is their id. If there are too many, only the first are here; the
-- files of the calls have all of them.
CREATE TABLE stacks (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id      INTEGER NOT NULL,
	pid     INTEGER NOT NULL,
	cut     INTEGER NOT NULL,             -- 1: the stack was truncated
	site    TEXT NOT NULL,                -- line of code of the call: 'train.py:142 in forward()'; '': unknown
	frames  TEXT NOT NULL,                -- frames.id, innermost first: a JSON list
	PRIMARY KEY (session, id)
) WITHOUT ROWID;
