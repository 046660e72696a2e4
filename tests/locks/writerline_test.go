package locks

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A writerLine is a read-write lock for which sessions wait to write, in a line on the server.
type writerLine struct {
	*testing.T
	srv *redistest.Server
	s   *holdfast.Session // which has the lock first
	rw  *rwlock.RWMutex
}

var writersWaiting, writersLine, writersAlive = wire.RWWaiting(kit.Orders), wire.RWLine(kit.Orders),
	wire.RWAlive(kit.Orders)

func newWriterLine(t *testing.T) *writerLine {
	t.Parallel()
	srv := redistest.Start(t)
	kit.LoadScripts(t, srv)
	q := &writerLine{T: t, srv: srv}
	q.s = q.comes()
	q.rw = rwlock.New(q.s, kit.Orders, nil)
	return q
}

// comes is one more session.
func (q *writerLine) comes() *holdfast.Session {
	return kit.Open(q, q.srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
}

func (q *writerLine) length() int64 { return q.srv.Int(q, "LLEN", writersLine) }

// waits has one more session wait to write, and returns when it is the last one in the line.
func (q *writerLine) waits(ctx context.Context) <-chan kit.Result {
	q.Helper()
	before := q.length()
	got := kit.GoLock(ctx, rwlock.New(q.comes(), kit.Orders, nil).Write().Lock)
	kit.Await(q, "one more in the line", func() bool { return q.length() == before+1 })
	return got
}

// settled lets looks pass that come with subscriptions.
func settled() { kit.SleepUntil(time.Now().Add(400 * time.Millisecond)) }

// Writers are served in the order of asking, and cost three calls each: to stand, to take, to give back.
func TestWritersAreServedInTheOrderOfAsking(t *testing.T) {
	const sessions = 8
	q := newWriterLine(t)
	hold := kit.Lock(t, t.Context(), q.rw.Write())
	var waiting []<-chan kit.Result
	for range sessions {
		waiting = append(waiting, q.waits(t.Context()))
	}
	waiters, err := q.rw.Waiters(t.Context())
	require.NoError(t, err)
	require.Len(t, waiters, sessions)
	settled()
	q.srv.ResetStats(t)
	for i, got := range waiting {
		require.NoError(t, hold.Release())
		hold = kit.Granted(q, kit.LongestWait, got, strconv.Itoa(i))
		require.Equal(t, waiters[i].ID, hold.ID())
		for _, later := range waiting[i+1:] {
			require.Empty(t, later)
		}
	}
	require.NoError(t, hold.Release())
	require.Zero(t, q.length())
	require.LessOrEqual(t, q.srv.CommandStats(t)["evalsha"], int64(2*sessions+1+8)) // each may show once that it is alive
}

// The last reader tells the first writer, not those before it; nor does a writer that goes on reading.
func TestTheLastReaderTellsTheFirstWriter(t *testing.T) {
	q := newWriterLine(t)
	writing := kit.Lock(t, t.Context(), q.rw.Write())
	also, err := q.rw.Read().Lock(writing.Context(t.Context()))
	require.NoError(t, err)
	first, second := q.waits(t.Context()), q.waits(t.Context())
	settled()
	require.NoError(t, writing.Release())
	reading := kit.Lock(t, t.Context(), rwlock.New(q.comes(), kit.Orders, nil).Read())
	require.NoError(t, also.Release())
	settled()
	require.Empty(t, first)
	require.NoError(t, reading.Release())
	hold := kit.Granted(q, kit.Told, first, "the first")
	require.Empty(t, second)
	require.NoError(t, hold.Release())
	require.NoError(t, kit.Granted(q, kit.Told, second, "the second").Release())
}

// A writer who gives up leaves the line, and the next one is the first.
func TestAWriterThatGivesUpLeavesTheLine(t *testing.T) {
	q := newWriterLine(t)
	hold := kit.Lock(t, t.Context(), q.rw.Write())
	ctx, cancel := context.WithCancel(t.Context())
	first, second := q.waits(ctx), q.waits(t.Context())
	cancel()
	require.ErrorIs(t, kit.Within(t, time.Second, first, "the end").Err, context.Canceled)
	kit.Await(t, "one place", func() bool { return q.length() == 1 })
	require.NoError(t, hold.Release())
	require.NoError(t, kit.Granted(q, kit.Told, second, "the second").Release())
	kit.Await(t, "no place", func() bool { return q.length() == 0 && q.srv.Int(t, "ZCARD", writersAlive) == 0 })
}

// What is in the way of a writer, and how long it waits for it.
func TestAWriterBehindWhatGoesWrong(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(q *writerLine) // the writer stands
		within time.Duration
	}{
		"nobody knows that some stand in the line": {
			then: func(q *writerLine) { q.srv.Do(q, "DEL", writersWaiting) }, within: 5 * time.Second,
		},
		"the line is evicted": {
			then: func(q *writerLine) { q.srv.Do(q, "DEL", writersLine) }, within: 5 * time.Second,
		},
		"who is alive is evicted": {
			then: func(q *writerLine) { q.srv.Do(q, "DEL", writersAlive) }, within: 5 * time.Second,
		},
		"all of the line is evicted": {
			then: func(q *writerLine) { q.srv.Do(q, "DEL", writersAlive, writersLine, writersWaiting) }, within: 5 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newWriterLine(t)
			hold := kit.Lock(t, t.Context(), q.rw.Write())
			got := q.waits(t.Context())
			settled()
			c.then(q)
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Granted(q, c.within, got, name).Release())
		})
	}
}

// Whoever does not know the line tells the lock's channel, which the first one hears.
func TestTheFirstWriterHearsThoseWhoDoNotKnowTheLine(t *testing.T) {
	const java = "0f8fad5b-d9cb-469f-a165-70867728950e:42"
	for name, fields := range map[string][]string{
		"writer": {"mode", "write", java + ":write", "1"}, "reader": {"mode", "read", java, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newWriterLine(t)
			q.srv.Do(t, append([]string{"HSET", kit.Orders}, fields...)...)
			q.srv.Do(t, "PEXPIRE", kit.Orders, "30000")
			if name == "reader" {
				q.srv.Do(t, "SET", wire.ReadHold(kit.Orders, java, 1), "1", "PX", "30000")
			}
			first, second := q.waits(t.Context()), q.waits(t.Context())
			kit.Await(t, "the first listens", func() bool {
				return q.srv.Do(t, "PUBSUB", "NUMSUB", wire.RWChannel(kit.Orders)).([]any)[1] == int64(1)
			})
			settled()
			q.srv.Do(t, "DEL", kit.Orders)
			q.srv.Do(t, "PUBLISH", wire.RWChannel(kit.Orders), "1")
			hold := kit.Granted(q, kit.Told, first, "the first")
			require.Empty(t, second)
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Granted(q, kit.Told, second, "the second").Release())
		})
	}
}

// Each half that is freed by force, and a lock whose lease ends, is the first one's.
func TestAWriterTakesWhatIsFreedByForceOrEnds(t *testing.T) {
	for name, free := range map[string]func(q *writerLine) error{
		"the write half": func(q *writerLine) error {
			_ = kit.Lock(q, q.Context(), q.rw.Write())
			return nil
		},
		"the read half": func(q *writerLine) error {
			_ = kit.Lock(q, q.Context(), q.rw.Read())
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newWriterLine(t)
			require.NoError(t, free(q))
			first := q.waits(t.Context())
			half := q.rw.Write()
			if name == "the read half" {
				half = q.rw.Read()
			}
			settled()
			was, err := half.ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, was)
			require.NoError(t, kit.Granted(q, kit.Told, first, "the first").Release())
		})
	}
	t.Run("a lease", func(t *testing.T) {
		q := newWriterLine(t)
		hold := kit.Lock(t, t.Context(), rwlock.New(q.s, kit.Orders, &rwlock.Options{FixedLease: 3 * time.Second}).Write())
		require.NoError(t, hold.Detach())
		first := q.waits(t.Context())
		require.NoError(t, kit.Granted(q, 4*time.Second, first, "the first").Release())
	})
}

// A writer that waits behind another one is told, though a reader's first hold had run out when its last one ended.
func TestWritersBehindAReaderWithAnExpiredHold(t *testing.T) {
	q := newWriterLine(t)
	outer := kit.Lock(t, t.Context(), rwlock.New(q.s, kit.Orders, &rwlock.Options{FixedLease: 3 * time.Second}).Read())
	ctx := context.WithoutCancel(outer.Context(t.Context()))
	inner := kit.Lock(t, ctx, q.rw.Read())
	first, second := q.waits(t.Context()), q.waits(t.Context())
	kit.Await(t, "the end of the outer hold", func() bool {
		return q.srv.Int(t, "EXISTS", kit.OrdersReadHold(outer.ID(), 1)) == 0
	})
	settled()
	require.NoError(t, inner.Release())
	h := kit.Granted(q, kit.LongestWait, first, "the first")
	require.EqualValues(t, 1, q.srv.Int(t, "EXISTS", writersWaiting), "the server knows that one waits")
	require.NoError(t, h.Release())
	took := kit.Stopwatch()
	h = kit.Granted(q, kit.LongestWait, second, "the second")
	require.Less(t, took(), kit.Told)
	require.NoError(t, h.Release())
}
