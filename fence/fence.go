// Package fence keeps writes to a SQL database from holders of a lock that come too late. It remembers the newest
// fencing token that each name was used with, in a table, and refuses older ones:
//
//	hold, err := rlock.New(session, "price:42", &rlock.Options{Fenced: true}).Lock(ctx)
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	if err := fence.Check(ctx, tx, fence.PostgreSQL, "price:42", hold.Token()); err != nil {
//		return err // also errors.Is(err, fence.ErrStale): somebody has locked it since
//	}
//	… // read and write what the lock protects
//	return tx.Commit()
//
// Create the table once:
//
//	CREATE TABLE holdfast_fence (name VARCHAR(255) NOT NULL PRIMARY KEY, token BIGINT NOT NULL)
//
// In MySQL and MariaDB make the name VARBINARY(255). They compare a VARCHAR by its collation: "a" and "A" are one name
// then, or, by most collations, utf8mb4_bin included, "a" and "a ". Two locks of one name refuse each other's tokens.
//
// Names are as long as the column allows. One row for each name stays.
//
// # What is promised
//
// Once a transaction has been checked with a newer token, no transaction that was checked with an older one can commit,
// however long its holder was stopped, unless the newer transaction is rolled back. This needs three things:
//
//   - Check comes first in the transaction, and what it protects is read and written in the same transaction, or in
//     later ones that begin with Check, too.
//   - Transactions that only read what they act upon call Check, too. Otherwise an older holder may write after a newer
//     one has read.
//   - Everybody who writes calls it, with the token of a hold of the same lock.
//
// Check locks the name's row until the transaction ends, so checked transactions of one name follow each other. In
// PostgreSQL every isolation level suffices. In READ COMMITTED a Check waits for another one of the same name; in
// REPEATABLE READ and SERIALIZABLE it may then fail, as anything may, with a serialization failure (40001): begin the
// transaction again. In MySQL (InnoDB) and MariaDB, READ COMMITTED and above suffice, as long as nothing was read in
// the transaction before Check; a transaction that the server ends because of a deadlock (1213) is begun again. All who
// write use one primary: the row locks of Galera and of Group Replication are those of one node. SQLite has one writer
// at a time: Check makes this transaction that writer, and fails with SQLITE_BUSY as any write does, after the
// connection's busy timeout.
//
// A Redis server that forgets a lock forgets its last token, too; see docs/guarantees.md. Where the lock's own Redis
// server has the data, Hold.Guard needs no tokens.
package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrStale answers the question: has a newer holder been here? See [StaleError].
var ErrStale = errors.New("fence: stale token")

// A StaleError says which token was newer. It matches [ErrStale].
type StaleError struct {
	Name   string
	Token  int64 // that was refused
	Newest int64 // that the table has
}

// Error names both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("%v: %d of %.256q, the newest is %d", ErrStale, e.Token, e.Name, e.Newest)
}

// Unwrap makes the error match [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }

// A Dialect is the kind of SQL that a database understands.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 and later
	MySQL                         // MySQL 5.7 and later, MariaDB 10 and later, with InnoDB
	SQLite                        // 3.24 and later
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// statements are what Check executes.
type statements struct {
	raise  string // make the token the newest one, unless a newer one is there
	newest string // ask for the newest one
}

var dialects = map[Dialect]statements{
	PostgreSQL: {
		raise: `INSERT INTO holdfast_fence (name, token) VALUES ($1, $2) ON CONFLICT (name) ` +
			`DO UPDATE SET token = excluded.token WHERE holdfast_fence.token <= excluded.token`,
		newest: `SELECT token FROM holdfast_fence WHERE name = $1`,
	},
	MySQL: {
		raise: `INSERT INTO holdfast_fence (name, token) VALUES (?, ?) ` +
			`ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`,
		newest: `SELECT token FROM holdfast_fence WHERE name = ? FOR UPDATE`, // and not what the snapshot has
	},
	SQLite: {
		raise: `INSERT INTO holdfast_fence (name, token) VALUES (?, ?) ON CONFLICT (name) ` +
			`DO UPDATE SET token = excluded.token WHERE holdfast_fence.token <= excluded.token`,
		newest: `SELECT token FROM holdfast_fence WHERE name = ?`,
	},
}

// Check makes token the newest one of the name, or fails with a *[StaleError] if a newer one was there. The same token
// is accepted any number of times. Call it first in a transaction; it then blocks until other checked transactions of
// the name have ended, or ctx ends. It counts when the transaction commits. After any error roll the transaction back.
//
// The token must be that of a hold of a fenced lock: 0, which other locks have, and less are refused.
func Check(ctx context.Context, tx *sql.Tx, d Dialect, name string, token int64) error {
	s, ok := dialects[d]
	switch {
	case !ok:
		return fmt.Errorf("fence: %v is no dialect", d)
	case tx == nil:
		return errors.New("fence: tx is nil")
	case name == "":
		return errors.New("fence: name is empty")
	case token <= 0:
		return fmt.Errorf("fence: token of %.256q is %d, must be above 0: the lock must be fenced", name, token)
	}
	result, err := tx.ExecContext(ctx, s.raise, name, token)
	if err != nil {
		return fmt.Errorf("fence: check %.256q: %w", name, err)
	}
	if d != MySQL { // which counts differently, depending on the driver's settings
		raised, err := result.RowsAffected()
		if err != nil {
			return fmt.Errorf("fence: check %.256q: %w", name, err)
		}
		if raised > 0 {
			return nil
		}
	}
	var newest int64
	if err := tx.QueryRowContext(ctx, s.newest, name).Scan(&newest); err != nil {
		return fmt.Errorf("fence: check %.256q: %w", name, err)
	}
	if newest > token {
		return &StaleError{Name: name, Token: token, Newest: newest}
	}
	if d != MySQL {
		return fmt.Errorf("fence: check %.256q: the driver does not count rows", name)
	}
	return nil
}
