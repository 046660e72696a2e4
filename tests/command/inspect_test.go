package command

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A told is what ls and show print of a name as JSON: its fields are those that users rely on.
type told struct {
	Name       string
	NameBase64 string `json:"name_base64"`
	Kind       string
	State      string
	Holders    []struct {
		ID, Session, Mode string
		Count             int64
		LeaseMS           *int64 `json:"lease_ms"`
		Process           *struct {
			Host, Program, Label string
			PID                  int
			Started              time.Time
		}
	}
	HolderCount *int64 `json:"holder_count"`
	LeaseMS     *int64 `json:"lease_ms"`
	Waiters     []struct {
		ID, Session, Mode string
		AliveMS           *int64 `json:"alive_ms"`
		Process           *struct{ PID int }
	}
	WaiterCount  *int64 `json:"waiter_count"`
	Value, Taken *int64
	Permits      []struct {
		ID      string
		LeaseMS int64 `json:"lease_ms"`
	}
	Barrier   *struct{ Generation, Arrived int64 }
	Token     *int64
	Listening map[string]int64
	Unlocked  *bool
}

// listed returns what ls prints of all names.
func listed(t testing.TB, srv *redistest.Server, args ...string) map[string]told {
	t.Helper()
	names := map[string]told{}
	for line := range strings.Lines(ok(t, srv, append([]string{"ls", "--json"}, args...)...)) {
		o := parsed(t, line)
		require.NotContains(t, names, o.Name, "listed twice")
		names[o.Name] = o
	}
	return names
}

func parsed(t testing.TB, text string) (o told) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	return o
}

func shown(t testing.TB, srv *redistest.Server, name string) told {
	t.Helper()
	return parsed(t, ok(t, srv, "show", "--json", name))
}

// The holder of a permit is known if it has told a note.
func TestShowTellsWhoHasAPermitWithANote(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	permits := semaphore.NewExpirable(knownAs(t, srv, "night shift"), "exports", nil)
	require.NoError(t, permits.SetPermits(t.Context(), 2))
	for _, note := range []string{"request 42", ""} {
		h, err := permits.Acquire(holdfast.WithNote(t.Context(), note))
		require.NoError(t, err)
		t.Cleanup(func() { _ = h.Release() })
		text := regexp.MustCompile(`permit ` + h.ID() + `, lease [^,\n]*, of \S+\[\d+\] \(night shift\), note: request 42\n`)
		if note == "" {
			assert.NotRegexp(t, text, ok(t, srv, "show", "exports"))
			continue
		}
		kit.Await(t, "the note", func() bool { return text.MatchString(ok(t, srv, "show", "exports")) })
		var o struct {
			Permits []struct {
				ID, Note string
				Process  struct{ Label string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(ok(t, srv, "show", "--json", "exports")), &o))
		require.Len(t, o.Permits, 1)
		assert.Equal(t, []string{h.ID(), "request 42", "night shift"},
			[]string{o.Permits[0].ID, o.Permits[0].Note, o.Permits[0].Process.Label})
	}
}

// take takes a lock for the length of the test.
func take(t testing.TB, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h, err := l.TryLock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Release() })
	return h
}

// longLease is that of the session that does everything.
const longLease = 10 * time.Minute

// everything holds, waits for and counts something of every kind, and returns the session that does so.
func everything(t testing.TB, srv *redistest.Server) *holdfast.Session {
	t.Helper()
	ctx := t.Context()
	s := open(t, srv, &holdfast.Options{Label: "night shift", Lease: longLease}) // no renewal may be late
	plain := take(t, rlock.New(s, "plain", nil))
	_, err := rlock.New(s, "plain", nil).TryLock(plain.Context(ctx))
	require.NoError(t, err)
	take(t, rlock.New(s, "fenced", &rlock.Options{Fenced: true}))
	take(t, rwlock.New(s, "read", nil).Read())
	take(t, rwlock.New(s, "read", nil).Read())
	take(t, rwlock.New(s, "written", nil).Write())
	take(t, setlock.New(s, "string", nil))
	take(t, fairlock.New(s, "fair", nil))
	queue(t, srv, s, "fair", 2)
	_, err = semaphore.New(s, "semaphore").TrySetPermits(ctx, 5)
	require.NoError(t, err)
	_, err = latch.New(s, "latch").TrySetCount(ctx, 3)
	require.NoError(t, err)
	permits := semaphore.NewExpirable(s, "permits", nil)
	_, err = permits.TrySetPermits(ctx, 4)
	require.NoError(t, err)
	permit, err := permits.TryAcquire(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = permit.Release() })
	return s
}

// queue makes n callers wait for a fair lock until the test ends.
func queue(t testing.TB, srv *redistest.Server, s *holdfast.Session, name string, n int) {
	t.Helper()
	for i := range n {
		go func() {
			if h, err := fairlock.New(s, name, nil).Lock(t.Context()); err == nil {
				_ = h.Release()
			}
		}()
		kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", "redisson_lock_queue:{"+name+"}") > int64(i) })
	}
}

// These are owners of Java's.
const (
	java1 = "0f8fad5b-d9cb-469f-a165-70867728950e:42"
	java2 = "7c9e6679-7425-40de-944b-e07fc1f90ae7:7"
)

// foreign writes keys of other programs, none of which may be taken for a lock.
func foreign(t testing.TB, srv *redistest.Server) {
	t.Helper()
	srv.Do(t, "HSET", "user:1", "name", "Ada", java1, "1")
	srv.Do(t, "HSET", "user:2", "mode", "read", "name", "Ada")
	srv.Do(t, "HSET", "user:3", "mode", "dark")
	srv.Do(t, "HSET", "user:4", java1, "one")
	srv.Do(t, "SET", "text", "hello")
	srv.Do(t, "SET", "float", "1.5")
	srv.Do(t, "SET", "long", strings.Repeat("7", 1<<20))
	srv.Do(t, "LPUSH", "list", java1)
	srv.Do(t, "LPUSH", "redisson_lock_queue:list", java1)
	srv.Do(t, "SADD", "set", java1)
	srv.Do(t, "ZADD", "{zset}:timeout", "1", "x")
	srv.Do(t, "XADD", "stream", "*", "a", "b")
	srv.Do(t, "SET", "redisson_unlock_latch:{x}:00", "1")
}

func TestLsAndShowEveryKind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := everything(t, srv)
	foreign(t, srv)
	kinds := map[string]string{
		"plain": "rlock|fairlock", "fenced": "fenced", "read": "rwlock", "written": "rwlock", "string": "setlock",
		"fair":      "fairlock",
		"semaphore": "semaphore|latch", "latch": "semaphore|latch", "permits": "expirable",
	}
	kit.Await(t, "the session tells who it is",
		func() bool { return srv.Int(t, "EXISTS", "holdfast_session:{"+s.ID()+"}") == 1 })
	names := listed(t, srv)
	assert.Len(t, names, len(kinds))
	for name, kind := range kinds {
		for _, o := range []told{names[name], shown(t, srv, name)} {
			assert.Equal(t, kind, o.Kind, name)
			if o.Value != nil {
				assert.Empty(t, o.State, name)
				continue
			}
			assert.Equal(t, "held", o.State, name)
			require.NotEmpty(t, o.Holders, name)
			assert.EqualValues(t, len(o.Holders), *o.HolderCount)
			assert.InDelta(t, longLease.Milliseconds()-30_000, *o.LeaseMS, 30_000, name)
			for _, h := range o.Holders {
				assert.Equal(t, s.ID(), h.Session, name)
				require.NotNil(t, h.Process, name)
				assert.Equal(t, os.Getpid(), h.Process.PID)
				assert.Equal(t, "night shift", h.Process.Label)
				assert.WithinDuration(t, time.Now(), h.Process.Started, time.Hour)
			}
		}
	}
	assert.EqualValues(t, 2, names["plain"].Holders[0].Count)
	assert.EqualValues(t, 1, *names["fenced"].Token)
	assert.EqualValues(t, 2, *names["read"].HolderCount)
	assert.Equal(t, "read", names["read"].Holders[1].Mode)
	assert.InDelta(t, longLease.Milliseconds()-30_000, *shown(t, srv, "read").Holders[0].LeaseMS, 30_000)
	assert.Equal(t, "write", names["written"].Holders[0].Mode)
	assert.NotContains(t, names["written"].Holders[0].ID, ":write")
	assert.EqualValues(t, 5, *names["semaphore"].Value)
	assert.EqualValues(t, 3, *names["latch"].Value)
	assert.EqualValues(t, 3, *names["permits"].Value)
	assert.EqualValues(t, 1, *names["permits"].Taken)
	assert.Len(t, shown(t, srv, "permits").Permits, 1)

	fair := shown(t, srv, "fair")
	require.Len(t, fair.Waiters, 2)
	assert.EqualValues(t, 2, *fair.WaiterCount)
	assert.Equal(t, srv.Strs(t, "LRANGE", "redisson_lock_queue:{fair}", "0", "-1"),
		[]string{fair.Waiters[0].ID, fair.Waiters[1].ID})
	assert.InDelta(t, 10_000, *fair.Waiters[0].AliveMS, 6_000)
	require.NotNil(t, fair.Waiters[1].Process)

	lines := strings.Split(strings.TrimSuffix(ok(t, srv, "ls"), "\n"), "\n")
	assert.Len(t, lines, len(kinds))
	for _, line := range lines {
		cells := strings.Split(line, "\t")
		require.Len(t, cells, 6, line)
		assert.Equal(t, kinds[cells[0]], cells[1])
	}
	text := ok(t, srv, "show", "plain")
	assert.Contains(t, text, "night shift")
	assert.Contains(t, text, "2 times")
	assert.Contains(t, ok(t, srv, "show", "fair"), "2. ")
	for _, name := range []string{"user:1", "text", "list", "nobody"} {
		r := run(t, srv, nil, "show", name)
		assert.Equal(t, 1, r.code, name)
		assert.Contains(t, r.stderr, "nothing is known of "+name)
		assert.Empty(t, r.stdout)
	}
}

// This is what Java leaves on the server, as in the golden states of the specification.
func TestLsAndShowWhatJavaHolds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	lease := func(key string) { srv.Do(t, "PEXPIRE", key, "300000") }
	srv.Do(t, "HSET", "x", java1, "2")
	lease("x")
	srv.Do(t, "HSET", "fl", java1, "1")
	lease("fl")
	srv.Do(t, "RPUSH", "redisson_lock_queue:{fl}", java2)
	srv.Do(t, "ZADD", "redisson_lock_timeout:{fl}", "95617584000000", java2)
	srv.Do(t, "RPUSH", "redisson_lock_queue:app{4}", java2) // free, with a waiter
	srv.Do(t, "ZADD", "redisson_lock_timeout:app{4}", "1", java2)
	srv.Do(t, "HSET", "rw", "mode", "read", java1, "2", java2, "1")
	lease("rw")
	srv.Do(t, "SET", "{rw}:"+java1+":rwlock_timeout:1", "1", "PX", "100000")
	srv.Do(t, "SET", "{rw}:"+java1+":rwlock_timeout:2", "1", "PX", "200000")
	srv.Do(t, "HSET", "down", "mode", "write", java1+":write", "1", java1, "1")
	lease("down")
	srv.Do(t, "HSET", "f", java1, "2")
	lease("f")
	srv.Do(t, "SET", "redisson_lock_token:{f}", "2")
	srv.Do(t, "SET", "p", "0")
	srv.Do(t, "ZADD", "{p}:timeout", "922337203685477",
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", "1", strings.Repeat("z", 16))
	srv.Do(t, "HSET", "noend", java1, "1")

	names := listed(t, srv)
	assert.Len(t, names, 8)
	assert.Equal(t, java1, names["x"].Holders[0].ID)
	assert.Nil(t, names["x"].Holders[0].Process)
	assert.Equal(t, java2, names["fl"].Waiters[0].ID)
	assert.Equal(t, "free", names["app{4}"].State)
	assert.EqualValues(t, 0, *names["app{4}"].Waiters[0].AliveMS)
	assert.EqualValues(t, -1, *names["noend"].LeaseMS)
	assert.Equal(t, "fenced", names["f"].Kind)
	assert.EqualValues(t, 1, *names["p"].Value, "a permit whose lease is over is free")
	assert.EqualValues(t, 1, *names["p"].Taken)

	rw := shown(t, srv, "rw")
	require.Len(t, rw.Holders, 2)
	assert.InDelta(t, 190_000, *rw.Holders[0].LeaseMS, 10_000)
	assert.EqualValues(t, 0, *rw.Holders[1].LeaseMS, "its hold is over")
	down := shown(t, srv, "down")
	require.Len(t, down.Holders, 2)
	assert.Equal(t, []string{"write", "read"}, []string{down.Holders[0].Mode, down.Holders[1].Mode})
	p := shown(t, srv, "p")
	require.Len(t, p.Permits, 2)
	assert.Equal(t, "000102030405060708090a0b0c0d0e0f", p.Permits[1].ID)
	assert.EqualValues(t, -1, p.Permits[1].LeaseMS)
	assert.Contains(t, ok(t, srv, "show", "x"), "Java or unknown")
	assert.Contains(t, ok(t, srv, "show", "noend"), "no end")
	assert.Equal(t, "free", shown(t, srv, "app{4}").State)
}

// The places of a barrier are permits; show tells how far it is, too.
func TestShowABarrier(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, nil)
	var parties []*barrier.Party
	for range 2 {
		p, err := barrier.New(s, "stages", 2, nil).Join(t.Context())
		require.NoError(t, err)
		parties = append(parties, p)
	}
	passed := make(chan error, 1)
	go func() {
		_, err := parties[0].Await(t.Context())
		passed <- err
	}()
	kit.Await(t, "an arrival", func() bool {
		b := shown(t, srv, "stages").Barrier
		return b != nil && b.Generation == 1 && b.Arrived == 1
	})
	require.Equal(t, []string{"stages"}, slices.Collect(maps.Keys(listed(t, srv))))
	require.Contains(t, ok(t, srv, "show", "stages"), "generation 1, arrived 1")
	_, err := parties[1].Await(t.Context())
	require.NoError(t, err)
	require.NoError(t, redistest.Receive(t, passed, "the end of the generation"))
	require.NoError(t, parties[0].Release())
	require.EqualValues(t, 2, shown(t, srv, "stages").Barrier.Generation)
	require.NoError(t, parties[1].Release())
	require.Nil(t, shown(t, srv, "stages").Barrier)

	srv.Do(t, "EVAL", `for i = 1, ARGV[1] do
			local id = string.format('%016d', i)
			redis.call('ZADD', KEYS[1], '922337203685477', id)
			redis.call('HSET', KEYS[2], id, '3')
		end
		redis.call('HSET', KEYS[2], 'gen', '4', 'arrived', '7')`,
		"2", "{stages}:timeout", "holdfast_barrier:{stages}", "10000") // the most that a barrier may have
	b := shown(t, srv, "stages").Barrier
	require.EqualValues(t, 4, b.Generation)
	require.EqualValues(t, 7, b.Arrived)
}
