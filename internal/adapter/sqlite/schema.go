package sqlite

// applicationID marks the file as ours: "Prdr".
const applicationID = 0x50726472

// migrations are the steps from an empty file to this version's tables: one a
// version, each in a transaction of its own with the new user_version. A step
// that was released is never edited; a change of the tables is a new step.
func migrations() []string { return []string{schema1} }

// A session has a number, given once and never again while anything of it is
// left: what belongs to it is keyed by that, so a session deleted and made
// anew under its old name never meets its predecessor, and keys stay short.
//
// The position of an event is its rowid, number<<seqBits | seq: the log of a
// session is one range of one tree, and reading on from a position touches
// only what is asked for.
const schema1 = `
CREATE TABLE heads (
	tenant TEXT NOT NULL, session TEXT NOT NULL, number INTEGER NOT NULL,
	rev INTEGER NOT NULL, write TEXT NOT NULL, seq INTEGER NOT NULL, inc TEXT NOT NULL, status TEXT NOT NULL,
	epoch INTEGER NOT NULL, step INTEGER NOT NULL, attempt INTEGER NOT NULL, drive TEXT NOT NULL,
	due INTEGER NOT NULL, failures INTEGER NOT NULL, quarantine TEXT, at INTEGER NOT NULL,
	busy INTEGER NOT NULL,
	PRIMARY KEY (tenant, session)
) WITHOUT ROWID;
CREATE UNIQUE INDEX heads_number ON heads (number);
CREATE INDEX heads_due ON heads (due, tenant, session) WHERE due > 0;
CREATE INDEX heads_busy ON heads (tenant, session) WHERE busy = 1;

CREATE TABLE events (id INTEGER PRIMARY KEY, write TEXT, data BLOB NOT NULL);

CREATE TABLE rows (
	number INTEGER NOT NULL, key TEXT NOT NULL, todo INTEGER NOT NULL, tenant TEXT, session TEXT, data BLOB NOT NULL,
	PRIMARY KEY (number, key)
) WITHOUT ROWID;
CREATE INDEX rows_todo ON rows (tenant, todo, session, key) WHERE tenant IS NOT NULL;

CREATE TABLE meta (
	number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, session TEXT NOT NULL,
	status TEXT NOT NULL, older INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE INDEX meta_list ON meta (tenant, status, older, session);

CREATE TABLE blobs (
	id INTEGER PRIMARY KEY, number INTEGER NOT NULL, hash BLOB NOT NULL, size INTEGER NOT NULL,
	file TEXT, data BLOB
);
CREATE UNIQUE INDEX blobs_hash ON blobs (number, hash);

CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX checkpoints_seq ON checkpoints (number, seq);

CREATE TABLE stash (
	id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, session TEXT NOT NULL, name TEXT NOT NULL,
	until INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE UNIQUE INDEX stash_name ON stash (tenant, session, name);
CREATE INDEX stash_until ON stash (until);

CREATE TABLE trash (number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, session TEXT NOT NULL, inc TEXT NOT NULL);
`

const (
	seqBits = 30
	// seqMax is the longest log: at a turn a second, 34 years.
	seqMax = 1<<seqBits - 1
)

// The statements that requests run, named for the test that explains them.
const (
	sqlHead = `SELECT number, rev, write, seq, inc, status, epoch, step, attempt, drive, due, failures, quarantine, at
		FROM heads WHERE tenant = ?1 AND session = ?2`
	sqlNumber  = `SELECT number FROM heads WHERE tenant = ?1 AND session = ?2`
	sqlWriteAt = `SELECT write FROM events WHERE id = ?1`

	sqlHeadInsert = `INSERT INTO heads (tenant, session, number, rev, write, seq, inc, status,
		epoch, step, attempt, drive, due, failures, quarantine, at, busy)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)`
	sqlHeadUpdate = `UPDATE heads SET rev = ?4, write = ?5, seq = ?6, inc = ?7, status = ?8,
		epoch = ?9, step = ?10, attempt = ?11, drive = ?12, due = ?13, failures = ?14, quarantine = ?15, at = ?16, busy = ?17
		WHERE tenant = ?1 AND session = ?2 AND +number = ?3`
	sqlEventInsert = `INSERT INTO events (id, write, data) VALUES (?1, ?2, ?3)`
	sqlRowExists   = `SELECT 1 FROM rows WHERE number = ?1 AND key = ?2`
	sqlRowPut      = `INSERT INTO rows (number, key, todo, tenant, session, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (number, key) DO UPDATE SET todo = excluded.todo, tenant = excluded.tenant, session = excluded.session, data = excluded.data`
	sqlRowDelete = `DELETE FROM rows WHERE number = ?1 AND key = ?2`
	sqlMetaPut   = `INSERT INTO meta (number, tenant, session, status, older, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (number) DO UPDATE SET status = excluded.status, older = excluded.older, data = excluded.data`
	sqlMetaStatus = `UPDATE meta SET status = ?2 WHERE number = ?1`
	sqlBlobPut    = `INSERT INTO blobs (number, hash, size, file, data) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (number, hash) DO NOTHING`

	sqlRead = `SELECT e.id, length(e.data), e.data FROM heads h CROSS JOIN events e
		WHERE h.tenant = ?1 AND h.session = ?2 AND e.id > (h.number << 30) + ?3 AND e.id <= (h.number << 30) + ?4 ORDER BY e.id LIMIT ?5`
	sqlReadBefore = `SELECT e.id, length(e.data), e.data FROM heads h CROSS JOIN events e
		WHERE h.tenant = ?1 AND h.session = ?2 AND e.id > (h.number << 30) AND e.id < (h.number << 30) + ?3 ORDER BY e.id DESC LIMIT ?4`

	sqlRow = `SELECT r.key, r.todo, r.data FROM heads h CROSS JOIN rows r
		WHERE h.tenant = ?1 AND h.session = ?2 AND r.number = h.number AND r.key = ?3`
	sqlRowsUp = `SELECT r.key, r.todo, r.data FROM heads h CROSS JOIN rows r
		WHERE h.tenant = ?1 AND h.session = ?2 AND r.number = h.number AND r.key >= ?3 AND r.key < ?4 ORDER BY r.key LIMIT ?5`
	sqlRowsDown = `SELECT r.key, r.todo, r.data FROM heads h CROSS JOIN rows r
		WHERE h.tenant = ?1 AND h.session = ?2 AND r.number = h.number AND r.key >= ?3 AND r.key < ?4 ORDER BY r.key DESC LIMIT ?5`
	sqlTodo = `SELECT session, key, todo, data FROM rows INDEXED BY rows_todo
		WHERE tenant = ?1 AND (todo, session, key) > (?2, ?3, ?4) AND key >= ?5 AND key < ?6
		ORDER BY todo, session, key LIMIT ?7`

	sqlMeta = `SELECT m.data FROM heads h CROSS JOIN meta m WHERE h.tenant = ?1 AND h.session = ?2 AND m.number = h.number`
	sqlList = `SELECT h.number, h.rev, h.write, h.seq, h.inc, h.status, h.epoch, h.step, h.attempt, h.drive, h.due, h.failures, h.quarantine, h.at,
		m.session, m.data FROM meta m CROSS JOIN heads h
		WHERE m.tenant = ?1 AND m.status = ?2 AND (m.older, m.session) > (?3, ?4) AND h.tenant = m.tenant AND h.session = m.session
		ORDER BY m.older, m.session LIMIT ?5`
	sqlDue        = `SELECT tenant, session FROM heads INDEXED BY heads_due WHERE due > 0 AND due <= ?1 ORDER BY due, tenant, session LIMIT ?2`
	sqlUnfinished = `SELECT tenant, session FROM heads INDEXED BY heads_busy
		WHERE busy = 1 AND (tenant, session) > (?1, ?2) ORDER BY tenant, session LIMIT ?3`

	sqlBlob = `SELECT b.file, b.data FROM heads h CROSS JOIN blobs b
		WHERE h.tenant = ?1 AND h.session = ?2 AND b.number = h.number AND b.hash = ?3`

	sqlBlobOf = `SELECT 1 FROM blobs WHERE number = ?1 AND hash = ?2`

	sqlCheckpoints = `SELECT h.inc, c.seq, c.data FROM heads h CROSS JOIN checkpoints c
		WHERE h.tenant = ?1 AND h.session = ?2 AND c.number = h.number ORDER BY c.seq DESC LIMIT 2`
	sqlCheckpointNewest = `SELECT seq FROM checkpoints WHERE number = ?1 ORDER BY seq DESC LIMIT 1`
	sqlCheckpointPut    = `INSERT INTO checkpoints (number, seq, data) VALUES (?1, ?2, ?3)
		ON CONFLICT (number, seq) DO UPDATE SET data = excluded.data`
	sqlCheckpointTrim = `DELETE FROM checkpoints WHERE number = ?1 AND seq <
		(SELECT seq FROM checkpoints WHERE number = ?1 ORDER BY seq DESC LIMIT 1 OFFSET 1)`

	sqlStashGet = `SELECT until, data FROM stash WHERE tenant = ?1 AND session = ?2 AND name = ?3`
	sqlStashPut = `INSERT INTO stash (tenant, session, name, until, data) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (tenant, session, name) DO UPDATE SET until = excluded.until, data = excluded.data`
	sqlStashDrop    = `DELETE FROM stash WHERE tenant = ?1 AND session = ?2 AND name = ?3`
	sqlStashSession = `DELETE FROM stash WHERE tenant = ?1 AND session = ?2`
	sqlStashSweep   = `DELETE FROM stash WHERE id IN (SELECT id FROM stash WHERE until <= ?1 ORDER BY until LIMIT ?2)`

	sqlTrashPut    = `INSERT INTO trash (number, tenant, session, inc) VALUES (?1, ?2, ?3, ?4)`
	sqlTrashAll    = `SELECT number FROM trash`
	sqlTrashOf     = `SELECT number FROM trash WHERE tenant = ?1 AND session = ?2 AND inc = ?3`
	sqlTrashDone   = `DELETE FROM trash WHERE number = ?1`
	sqlHeadDelete  = `DELETE FROM heads WHERE tenant = ?1 AND session = ?2`
	sqlMetaDelete  = `DELETE FROM meta WHERE number = ?1`
	sqlPurgeEvents = `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE id > ?1 << 30 AND id < (?1 + 1) << 30 LIMIT ?2)`
	sqlPurgeRows   = `DELETE FROM rows WHERE number = ?1 AND key IN (SELECT key FROM rows WHERE number = ?1 LIMIT ?2)`
	sqlPurgeBlobs  = `DELETE FROM blobs WHERE id IN (SELECT id FROM blobs WHERE number = ?1 LIMIT ?2)`
	sqlPurgeCheckp = `DELETE FROM checkpoints WHERE number = ?1`

	sqlLastNumber = `SELECT max(ifnull((SELECT max(number) FROM heads), 0), ifnull((SELECT max(number) FROM trash), 0))`
	sqlHasNumber  = `SELECT 1 FROM heads WHERE number = ?1`
)
