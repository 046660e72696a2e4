package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/kit"
	p19 "github.com/holdfast-go/holdfast/tests/programs/p19_fencedtx"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/sqltest"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }

var dialects = []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite}

// each runs a test with a database of each kind.
func each(t *testing.T, test func(t *testing.T, db *sqltest.Database)) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			test(t, sqltest.Start(t, d))
		})
	}
}

// begin begins a transaction that is rolled back at the end of the test, unless it has ended.
func begin(t *testing.T, db *sqltest.Database, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestOlderTokensAreRefused(t *testing.T) {
	each(t, func(t *testing.T, db *sqltest.Database) {
		check := func(name string, token int64, end func(*sql.Tx) error) error {
			tx := begin(t, db, sql.LevelDefault)
			if err := fence.Check(t.Context(), tx, db.Dialect, name, token); err != nil {
				require.NoError(t, tx.Rollback())
				return err
			}
			return end(tx)
		}
		const big = int64(1) << 62
		name := "it's; a \"name\" \\ € " + strings.Repeat("x", 200)
		for _, token := range []int64{7, 7, 8, 8, big, big} {
			require.NoError(t, check(name, token, (*sql.Tx).Commit))
		}
		err := check(name, big-1, (*sql.Tx).Commit)
		require.ErrorIs(t, err, fence.ErrStale)
		stale, ok := errors.AsType[*fence.StaleError](err)
		require.True(t, ok)
		require.Equal(t, fence.StaleError{Name: name, Token: big - 1, Newest: big}, *stale)
		require.ErrorContains(t, err, "fence: stale token: 4611686018427387903 of ")

		require.NoError(t, check("other", 1, (*sql.Tx).Commit), "each name for itself")
		require.NoError(t, check("other", 9, (*sql.Tx).Rollback))
		require.NoError(t, check("other", 1, (*sql.Tx).Commit), "what was rolled back does not count")

		for token, says := range map[int64]string{0: "token of \"other\" is 0", -1: "token of \"other\" is -1"} {
			require.ErrorContains(t, check("other", token, (*sql.Tx).Commit), says)
		}
		require.ErrorContains(t, check("", 1, (*sql.Tx).Commit), "name is empty")
		require.ErrorContains(t, fence.Check(t.Context(), nil, db.Dialect, "other", 1), "tx is nil")
		tx := begin(t, db, sql.LevelDefault)
		require.ErrorContains(t, fence.Check(t.Context(), tx, 0, "other", 1), "Dialect(0) is no dialect")
		require.NoError(t, tx.Rollback())
	})
}

// A transaction that is checked while another one of the name is open waits for it, or has to begin again. With an
// older token it then fails, unless the other one was rolled back.
func TestCheckedTransactionsFollowEachOther(t *testing.T) {
	levels := map[fence.Dialect][]sql.IsolationLevel{
		fence.PostgreSQL: {sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		fence.MySQL:      {sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		fence.SQLite:     {sql.LevelDefault},
	}
	each(t, func(t *testing.T, db *sqltest.Database) {
		for _, level := range levels[db.Dialect] {
			for i := range 8 {
				commits, second := i&1 == 0, int64(4+i&2)
				name := fmt.Sprint(level, i)
				if i&4 == 0 {
					db.Do(t, "INSERT INTO holdfast_fence (name, token) VALUES (?, 3)", name)
				}
				follows(t, db, level, name, second, commits)
			}
		}
	})
}

func follows(t *testing.T, db *sqltest.Database, level sql.IsolationLevel, name string, second int64, commits bool) {
	t.Helper()
	first := begin(t, db, level)
	require.NoError(t, fence.Check(t.Context(), first, db.Dialect, name, 5))
	checked := make(chan error, 1)
	go func() {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		if err == nil {
			err = fence.Check(t.Context(), tx, db.Dialect, name, second)
			err = errors.Join(err, tx.Commit())
		}
		checked <- err
	}()
	if waiting, ok := waiters[db.Dialect]; ok {
		kit.Await(t, "that the second one waits", func() bool {
			var n int
			require.NoError(t, db.QueryRowContext(t.Context(), waiting).Scan(&n))
			return n == 1
		})
	}
	select {
	case err := <-checked:
		require.FailNow(t, "it does not wait", "%s: %v", name, err)
	default:
	}
	if commits {
		require.NoError(t, first.Commit())
	} else {
		require.NoError(t, first.Rollback())
	}
	err := kit.Within(t, kit.LongestWait, checked, "the second one")
	switch {
	case commits && db.Dialect == fence.PostgreSQL && level != sql.LevelReadCommitted:
		require.ErrorContains(t, err, "could not serialize access", name)
	case commits && second < 5:
		require.ErrorIs(t, err, fence.ErrStale, name)
	default:
		require.NoError(t, err, name)
	}
}

// A transaction that has read something before its Check sees the data of that time, but is told of a token that was
// committed since, or has to begin again.
func TestACheckLooksAtWhatWasCommittedSince(t *testing.T) {
	each(t, func(t *testing.T, db *sqltest.Database) {
		if db.Dialect == fence.SQLite { // there, no other transaction commits meanwhile
			return
		}
		db.Do(t, "INSERT INTO holdfast_fence (name, token) VALUES ('x', 3)")
		old, newer := begin(t, db, sql.LevelRepeatableRead), begin(t, db, sql.LevelRepeatableRead)
		var token int64
		require.NoError(t, old.QueryRowContext(t.Context(), "SELECT token FROM holdfast_fence").Scan(&token))
		require.NoError(t, fence.Check(t.Context(), newer, db.Dialect, "x", 5))
		require.NoError(t, newer.Commit())
		err := fence.Check(t.Context(), old, db.Dialect, "x", 4)
		if db.Dialect == fence.PostgreSQL {
			require.ErrorContains(t, err, "could not serialize access")
		} else {
			require.ErrorIs(t, err, fence.ErrStale)
		}
	})
}

// A Check that waits for another transaction ends with its own ctx.
func TestACheckEndsWithItsContext(t *testing.T) {
	each(t, func(t *testing.T, db *sqltest.Database) {
		if db.Dialect == fence.SQLite { // there, a transaction waits when it begins
			return
		}
		first, second := begin(t, db, sql.LevelDefault), begin(t, db, sql.LevelDefault)
		require.NoError(t, fence.Check(t.Context(), first, db.Dialect, "x", 5))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		checked := make(chan error, 1)
		go func() { checked <- fence.Check(ctx, second, db.Dialect, "x", 6) }()
		require.Error(t, kit.Within(t, 5*time.Second, checked, "the end of the Check"))
		require.NoError(t, first.Commit())
	})
}

// waiters ask how many wait for a row.
var waiters = map[fence.Dialect]string{
	fence.PostgreSQL: `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`,
	fence.MySQL: `SELECT variable_value FROM information_schema.global_status
		WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'`,
}

// These are the statements of the guide for tokens in a column of the user's own table.
func TestTokensInAColumn(t *testing.T) {
	each(t, func(t *testing.T, db *sqltest.Database) {
		db.Do(t, "CREATE TABLE prices (sku VARCHAR(20) PRIMARY KEY, cents BIGINT NOT NULL, token BIGINT NOT NULL)")
		db.Do(t, "INSERT INTO prices VALUES ('a', 100, 0)")
		look := func(token int64) int64 {
			result, err := db.ExecContext(t.Context(),
				db.Bind("UPDATE prices SET token = ? WHERE sku = ? AND token <= ? AND ? > 0"), token, "a", token, token)
			require.NoError(t, err)
			n, err := result.RowsAffected()
			require.NoError(t, err)
			return n
		}
		write := func(token, cents int64) int64 {
			result, err := db.ExecContext(t.Context(),
				db.Bind("UPDATE prices SET cents = ?, token = ? WHERE sku = ? AND token <= ? AND ? > 0"),
				cents, token, "a", token, token)
			require.NoError(t, err)
			n, err := result.RowsAffected()
			require.NoError(t, err)
			return n
		}
		require.EqualValues(t, 1, look(1))
		require.EqualValues(t, 1, write(1, 101))
		require.EqualValues(t, 1, look(2))
		require.Zero(t, write(1, 102), "a newer holder has read")
		require.EqualValues(t, 1, write(2, 103))
		require.Zero(t, write(0, 104))
		require.Zero(t, look(0))
	})
}

// The program of the guide.
func TestAFencedTransaction(t *testing.T) {
	t.Parallel()
	db := sqltest.Start(t, fence.PostgreSQL)
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	db.Do(t, "CREATE TABLE prices (sku VARCHAR(20) PRIMARY KEY, cents BIGINT NOT NULL)")
	db.Do(t, "INSERT INTO prices VALUES ('a', 100)")
	more := func(cents int) int { return cents + 1 }
	require.NoError(t, p19.SetPrice(t.Context(), s, db.DB, "a", more))
	require.NoError(t, p19.SetPrice(t.Context(), s, db.DB, "a", more))
	db.Do(t, "UPDATE holdfast_fence SET token = 9 WHERE name = 'price:a'")
	require.ErrorIs(t, p19.SetPrice(t.Context(), s, db.DB, "a", more), fence.ErrStale)
	var cents int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT cents FROM prices").Scan(&cents))
	require.Equal(t, 102, cents)
}

// Names that differ only in case, or in spaces behind them, are two names, each with tokens of its own.
func TestNamesThatDifferLittle(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			db := sqltest.Start(t, d)
			for i, name := range []string{"price:a", "price:A", "price:a "} {
				tx := begin(t, db, sql.LevelDefault)
				require.NoError(t, fence.Check(t.Context(), tx, d, name, int64(1000-i)))
				require.NoError(t, tx.Commit())
			}
		})
	}
}
