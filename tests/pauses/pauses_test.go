// Package pauses checks that holders who are stopped for longer than their lease lose no write of others: on Redis with
// Hold.Guard, in databases with package fence. Without these the same checks find lost writes.
package pauses

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/sqltest"
)

func TestMain(m *testing.M) { kit.Main(m, map[string]func([]string){"sleeper": sleeper}) }

const mostCounters = 8

// counter is the name of one, and of its lock.
func counter(c int) string { return fmt.Sprint("counter ", c) }

// A store has counters, which are read and written under a hold.
type store struct {
	read  func(ctx context.Context, h *holdfast.Hold, name string) (int64, error)
	write func(ctx context.Context, h *holdfast.Hold, name string, n int64) error
}

// refused reports whether a late write was: nothing has changed then.
func refused(err error) bool {
	return errors.Is(err, holdfast.ErrLost) || errors.Is(err, fence.ErrStale)
}

// redisStore keeps counters on the server of the locks.
func redisStore(client rueidis.Client, guarded bool) store {
	key := func(name string) string { return "{" + name + "}:n" }
	return store{
		read: func(ctx context.Context, _ *holdfast.Hold, name string) (int64, error) {
			n, err := client.Do(ctx, client.B().Get().Key(key(name)).Build()).AsInt64()
			if rueidis.IsRedisNil(err) {
				return 0, nil
			}
			return n, err
		},
		write: func(ctx context.Context, h *holdfast.Hold, name string, n int64) (err error) {
			set := client.B().Set().Key(key(name)).Value(strconv.FormatInt(n, 10)).Build()
			if guarded {
				_, err = h.Guard(ctx, set)
				return err
			}
			return client.Do(ctx, set).Error()
		},
	}
}

// sqlStore keeps counters in a table.
func sqlStore(t *testing.T, db *sqltest.Database, guarded bool) store {
	db.Do(t, "CREATE TABLE counters (name VARCHAR(50) PRIMARY KEY, n BIGINT NOT NULL)")
	for c := range mostCounters {
		db.Do(t, "INSERT INTO counters VALUES (?, 0)", counter(c))
	}
	return sqlCounters(db, guarded)
}

// sqlCounters keeps them in a table that is there.
func sqlCounters(db *sqltest.Database, guarded bool) store {
	within := func(ctx context.Context, h *holdfast.Hold, name string, do func(tx *sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if guarded {
			if err := fence.Check(ctx, tx, db.Dialect, name, h.Token()); err != nil {
				return err
			}
		}
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	return store{
		read: func(ctx context.Context, h *holdfast.Hold, name string) (n int64, err error) {
			err = within(ctx, h, name, func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, db.Bind("SELECT n FROM counters WHERE name = ?"), name).Scan(&n)
			})
			return n, err
		},
		write: func(ctx context.Context, h *holdfast.Hold, name string, n int64) error {
			return within(ctx, h, name, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, db.Bind("UPDATE counters SET n = ? WHERE name = ?"), n, name)
				return err
			})
		},
	}
}

// An increment is an operation of a history: it has read a counter, and what came of writing one more.
type increment struct {
	counter string
	read    int64
	done    bool // else it was refused, and changed nothing
}

// counters are right if each increment that was done is there: it rests on what the one before has written.
var counters = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, op := range history {
			name := op.Input.(increment).counter
			if _, ok := at[name]; !ok {
				at[name] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[name]] = append(parts[at[name]], op)
		}
		return parts
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		i := input.(increment)
		if !i.done {
			return true, state
		}
		return i.read == state.(int64), i.read + 1
	},
}

// A trial is a store with sessions whose holders are stopped.
type trial struct {
	store
	early, late *holdfast.Session
	fenced      bool
	began       time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	refused int
}

func (r *trial) lock(s *holdfast.Session, name string) *rlock.Mutex {
	return rlock.New(s, name, &rlock.Options{Fenced: r.fenced})
}

// finish writes what rests on a read, and records it.
func (r *trial) finish(t *testing.T, client int, h *holdfast.Hold, name string, read int64, since time.Duration) {
	err := r.write(t.Context(), h, name, read+1)
	if !refused(err) {
		require.NoError(t, err)
	}
	r.record(client, increment{name, read, err == nil}, since)
}

// record writes an increment into the history that has just ended.
func (r *trial) record(client int, i increment, since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !i.done {
		r.refused++
	}
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: i, Call: int64(since), Return: int64(time.Since(r.began)),
	})
}

// pause has a holder stop between its read and its write, as far as anybody can tell: the server ends its lease, which
// the holder does not know, and before it goes on, others have the lock one after the other, and write. The last one
// has read by then, or written as well.
func (r *trial) pause(t *testing.T, name string, round int) {
	since := time.Since(r.began)
	stopped := kit.Lock(t, t.Context(), r.lock(r.early, name))
	read, err := r.read(t.Context(), stopped, name)
	require.NoError(t, err)
	theirs := r.lock(r.late, name)
	was, err := theirs.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	goesOn := func() { r.finish(t, 0, stopped, name, read, since) }
	for others := round%3 + 1; others > 0; others-- {
		since := time.Since(r.began)
		h := kit.Lock(t, t.Context(), theirs)
		read, err := r.read(t.Context(), h, name)
		require.NoError(t, err)
		if others == 1 && round%2 == 0 {
			goesOn()
		}
		r.finish(t, 1, h, name, read, since)
		require.NoError(t, h.Release())
	}
	if round%2 == 1 {
		goesOn()
	}
	_ = stopped.Release()
}

// stores makes the stores: Redis is the server of the locks.
var stores = map[string]func(t *testing.T, srv *redistest.Server, guarded bool) (s store, fenced bool){
	"Redis": func(t *testing.T, srv *redistest.Server, guarded bool) (store, bool) {
		return redisStore(kit.NewClient(t, srv.Addr()), guarded), false
	},
	"PostgreSQL": ofSQL(fence.PostgreSQL), "MySQL": ofSQL(fence.MySQL), "SQLite": ofSQL(fence.SQLite),
}

func ofSQL(d fence.Dialect) func(t *testing.T, _ *redistest.Server, guarded bool) (store, bool) {
	return func(t *testing.T, _ *redistest.Server, guarded bool) (store, bool) {
		return sqlStore(t, sqltest.Start(t, d), guarded), true
	}
}

func TestPausesLoseNoWrite(t *testing.T) {
	pauses := kit.Stressed(96, 1000) // each counter sees everything that can happen twice
	eachTrial(t, true, func(t *testing.T, r *trial) {
		r.run(t, pauses, mostCounters)
		require.Equal(t, pauses, r.refused, "every late write, and no other")
		require.True(t, r.right())
	})
}

// So the test above can find lost writes.
func TestWithoutAGuardPausesLoseWrites(t *testing.T) {
	eachTrial(t, false, func(t *testing.T, r *trial) {
		r.run(t, 10, 2)
		require.Zero(t, r.refused)
		require.False(t, r.right())
	})
}

func eachTrial(t *testing.T, guarded bool, test func(t *testing.T, r *trial)) {
	t.Parallel()
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			patient := &holdfast.Options{Lease: time.Minute} // a release has five seconds
			r := &trial{
				began: time.Now(), early: kit.Open(t, srv.Addr(), patient), late: kit.Open(t, srv.Addr(), patient),
			}
			r.store, r.fenced = start(t, srv, guarded)
			test(t, r)
		})
	}
}

func (r *trial) run(t *testing.T, pauses, counters int) {
	t.Run("pauses", func(t *testing.T) {
		for c := range counters {
			t.Run(strconv.Itoa(c), func(t *testing.T) {
				t.Parallel()
				for round := range pauses / counters {
					r.pause(t, counter(c), round)
				}
			})
		}
	})
}

// right reports whether the history is one in which no write was lost.
func (r *trial) right() bool {
	return porcupine.CheckOperationsTimeout(counters, r.history, time.Minute) == porcupine.Ok
}
