package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// line makes n sessions wait for an rlock until the test ends.
func line(t testing.TB, srv *redistest.Server, of func(s *holdfast.Session) *rlock.Mutex, key string, n int) {
	t.Helper()
	for i := range n {
		l := of(open(t, srv, nil))
		go func() {
			if h, err := l.Lock(t.Context()); err == nil {
				_ = h.Release()
			}
		}()
		kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", key) > int64(i) })
	}
}

// The sessions in the line of an rlock are listed as the waiters of a fair lock are.
func TestLsAndShowTheLineOfALock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, kind string
		opts      *rlock.Options
	}{
		"orders":  {"holdfast_line:{orders}", "rlock", nil},
		"app{42}": {"holdfast_line::app{42}", "rlock", nil},
		"price":   {"holdfast_line:{price}", "fenced", &rlock.Options{Fenced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			of := func(s *holdfast.Session) *rlock.Mutex { return rlock.New(s, name, c.opts) }
			holder := take(t, of(open(t, srv, nil)))
			line(t, srv, of, c.key, 3)
			var ids []string
			for _, text := range srv.Strs(t, "LRANGE", c.key, "0", "-1") {
				id, _, _ := strings.Cut(text, " ")
				ids = append(ids, id)
			}
			kit.Await(t, "all tell who they are", func() bool {
				o := shown(t, srv, name)
				return len(o.Waiters) == 3 && o.Waiters[0].Process != nil && o.Waiters[2].Process != nil
			})
			for _, o := range []told{
				shown(t, srv, name), listed(t, srv)[name],
				listed(t, srv, name[:3]+"*", "--kind", c.kind)[name],
			} {
				assert.Equal(t, c.kind, o.Kind)
				assert.Equal(t, "held", o.State)
				require.Len(t, o.Waiters, 3)
				assert.EqualValues(t, 3, *o.WaiterCount)
				for i, w := range o.Waiters {
					assert.Equal(t, ids[i], w.ID)
					assert.Equal(t, ids[i][:36], w.Session)
					assert.InDelta(t, 10_000, *w.AliveMS, 6_000)
				}
			}
			assert.True(t, strings.HasSuffix(ok(t, srv, "ls"), "\t3\n"))
			text := ok(t, srv, "show", name)
			assert.Contains(t, text, "  waiting   1. ")
			assert.Contains(t, text, " 3. ")
			assert.Contains(t, text, "wait outside the line\n")

			ok(t, srv, "unlock", "--yes", name)
			kit.Await(t, "all had it", func() bool { return srv.Int(t, "EXISTS", name, c.key) == 0 })
			assert.Error(t, holder.Release())
		})
	}
}

// What the waiters of a fair lock ask for stands behind the point of the scores that say until when they are alive.
func TestLsAndShowTheQueueOfAFairLock(t *testing.T) {
	t.Parallel()
	for name, mapped := range map[string]string{"orders": "{orders}", "app{42}": "app{42}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, durable...)
			holder := take(t, fairlock.New(open(t, srv, nil), name, nil))
			for n := range 2 {
				l := fairlock.New(open(t, srv, nil), name, nil)
				go func() {
					if h, err := l.Lock(t.Context()); err == nil {
						<-t.Context().Done()
						_ = h.Release()
					}
				}()
				kit.Await(t, "a waiter that a release may hand the lock to", func() bool {
					scores := srv.Strs(t, "ZRANGE", "holdfast_fair_alive:"+mapped, "0", "-1", "WITHSCORES")
					return strings.Count(strings.Join(scores, " "), ".") == n+1
				})
			}
			ids := srv.Strs(t, "LRANGE", "redisson_lock_queue:"+mapped, "0", "-1")
			for _, o := range []told{shown(t, srv, name), listed(t, srv)[name]} {
				assert.Equal(t, "fairlock", o.Kind)
				require.Len(t, o.Waiters, 2)
				for i, w := range o.Waiters {
					assert.Equal(t, ids[i], w.ID)
					assert.InDelta(t, 10_000, *w.AliveMS, 6_000)
				}
			}
			assert.Regexp(t, ` 2\. .*, taken for alive for 1?\d(\.\d)?s\n`, ok(t, srv, "show", name))
			expect(t, examine(t, srv, nil), "waiters", "ok", "no fair lock has waiters whose process is gone")

			require.NoError(t, holder.Release())
			o := shown(t, srv, name)
			require.Len(t, o.Holders, 1)
			assert.Equal(t, ids[0], o.Holders[0].ID)
			assert.EqualValues(t, 1, *o.WaiterCount)
			assert.Equal(t, ids[1], o.Waiters[0].ID)
			assert.InDelta(t, 15_000, *o.LeaseMS, 15_000) // that of a grant, until it is renewed
		})
	}
}

// A lock that was freed a moment ago, or whose lease is over, may have a line. It is an rlock for all that.
func TestLsAndShowALineWithoutALock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "RPUSH", "holdfast_line:{orders}", java1+" 10000", java2+" 10000")
	srv.Do(t, "RPUSH", "holdfast_line::app{42}", java1+" 10000")
	srv.Do(t, "RPUSH", "holdfast_line:{price}", java1+" 10000 fenced")
	srv.Do(t, "SET", "redisson_lock_token:{price}", "7")
	for name, kind := range map[string]string{"orders": "rlock", "app{42}": "rlock", "price": "fenced"} {
		for _, o := range []told{shown(t, srv, name), listed(t, srv)[name], listed(t, srv, name[:3]+"*")[name]} {
			assert.Equal(t, kind, o.Kind, name)
			assert.Equal(t, "free", o.State, name)
			require.NotEmpty(t, o.Waiters, name)
			assert.Equal(t, java1, o.Waiters[0].ID)
			assert.Nil(t, o.Waiters[0].AliveMS, "nothing is known")
		}
	}
	assert.Len(t, listed(t, srv), 3)
	assert.Empty(t, listed(t, srv, "--kind", "fairlock"))
	r := run(t, srv, nil, "unlock", "--yes", "orders")
	assert.Equal(t, 1, r.code, r.stderr)
}

// If a name is used as both kinds of locks, there is no order among all who wait.
func TestShowALineBesideAQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "x", java1, "1")
	srv.Do(t, "PEXPIRE", "x", "30000")
	srv.Do(t, "RPUSH", "holdfast_line:{x}", java2+" 10000")
	srv.Do(t, "RPUSH", "redisson_lock_queue:{x}", java1)
	o := shown(t, srv, "x")
	assert.Equal(t, "rlock|fairlock", o.Kind)
	assert.EqualValues(t, 2, *o.WaiterCount)
	assert.Equal(t, []string{java2, java1}, []string{o.Waiters[0].ID, o.Waiters[1].ID})
	text := ok(t, srv, "show", "x")
	assert.NotContains(t, text, "1. ")
	assert.Contains(t, text, "  waiting   ? "+java2)
}

// So are the sessions in the line of a semaphore, of either kind.
func TestShowTheLineOfASemaphore(t *testing.T) {
	t.Parallel()
	for kind, leased := range map[string]bool{"semaphore|latch": false, "expirable": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			acquire := func() error {
				s := open(t, srv, nil)
				if !leased {
					return semaphore.New(s, "pool").Acquire(t.Context(), 1)
				}
				_, err := semaphore.NewExpirable(s, "pool", nil).Acquire(t.Context())
				return err
			}
			srv.Do(t, "SET", "pool", "1")
			require.NoError(t, acquire())
			for i := range 2 {
				go func() { _ = acquire() }()
				kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", "holdfast_line:{pool}") > int64(i) })
			}
			kit.Await(t, "all tell who they are", func() bool {
				o := shown(t, srv, "pool")
				return len(o.Waiters) == 2 && o.Waiters[0].Process != nil && o.Waiters[1].Process != nil
			})
			o := shown(t, srv, "pool")
			assert.Equal(t, kind, o.Kind)
			assert.EqualValues(t, 2, *o.WaiterCount)
			for _, w := range o.Waiters {
				assert.InDelta(t, 10_000, *w.AliveMS, 6_000)
			}
			text := ok(t, srv, "show", "pool")
			assert.Contains(t, text, "  waiting   1. ")
			assert.Contains(t, text, " 2. ")
		})
	}
}
