-- Functions that threads were in when they made calls: one of a stack.
CREATE TABLE frames (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id      INTEGER NOT NULL,
	kind    TEXT NOT NULL,                -- 'native', 'python', 'gpu', 'gap'
	func    TEXT NOT NULL,                -- demangled; '': not known. Of a gap why frames are missing
	file    TEXT NOT NULL,                -- source file; '': not known
	line    INTEGER,                      -- the one that was executed
	module  TEXT NOT NULL,                -- native: path of what is mapped there
	offset  INTEGER NOT NULL,             -- native: from the start of func, or of module where func is ''
	inline  INTEGER NOT NULL,             -- the compiler put it into the frame around it
	PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- Stacks of calls: events.stack is their id. Of very many the first are here, and all in
-- the calls' own files.
CREATE TABLE stacks (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id      INTEGER NOT NULL,
	pid     INTEGER NOT NULL,
	cut     INTEGER NOT NULL,             -- it was deeper than what is taken
	site    TEXT NOT NULL,                -- the place of the call, in words: 'train.py:142 in forward()'; '': not known
	frames  TEXT NOT NULL,                -- frames.id, innermost first: a list in JSON
	PRIMARY KEY (session, id)
) WITHOUT ROWID;
