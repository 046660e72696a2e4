package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// historian runs the client that uses locks of a kind. With few locks, which clients wait for, those of a process hand
// them over to each other.
func historian(args []string) {
	kind, many := strings.CutSuffix(args[2], manyProcesses)
	kind, few := strings.CutSuffix(kind, fewLocks)
	k, longest := kit.KindOf(kind), longestWait(many)
	narrate(args, kit.WorkerLease, func(c *client) {
		if few {
			c.once(k, fmt.Sprint("lock ", rand.N(locksOfFew)), func() time.Duration { return rand.N(longest) })
			return
		}
		c.once(k, anyLock(), patience)
	})
}

const (
	writers       = "rwlock write" // whose turn comes by a message, without a grant
	fewLocks      = ", few locks"
	manyProcesses = ", many processes"

	locksOfFew = 2
)

// longestWait is long enough for most to be served, since they are in turn.
func longestWait(many bool) time.Duration {
	if many {
		return 600 * time.Millisecond
	}
	return 200 * time.Millisecond
}

// once takes a lock, does some things under it if it was granted, and releases it.
func (c *client) once(k kit.Kind, name string, patience func() time.Duration) {
	l := k.Make(c.session, name, 0)
	tag := c.tag()
	var holds []*holdfast.Hold
	take := func(ctx context.Context) (out string) {
		wait := patience()
		h, err := l.TryLockFor(ctx, wait)
		if err == nil {
			holds = append(holds, h)
		}
		if errors.Is(err, holdfast.ErrBusy) && (k.Queues || wait > 0) {
			return "promised" // or held; or the time was over before anybody was asked
		}
		return outcome(err)
	}
	ctx, cancel := hurried(context.WithValue(context.Background(), asker{}, c))
	c.do(deed{Lock: l.Name(), Kind: opTake, Tag: tag}, func() string { return take(ctx) })
	cancel()
	if len(holds) == 0 {
		return
	}
	ctx = holds[0].Context(context.Background())
	for range rand.N(4) {
		switch rand.N(3) {
		case 0:
			c.do(deed{Lock: l.Name(), Kind: opReenter, Tag: tag}, func() string { return take(ctx) })
		case 1:
			c.look(deed{Lock: l.Name(), Kind: opCount, Tag: tag}, holds,
				func() (any, error) { return l.HoldCount(ctx) })
		case 2:
			c.look(deed{Lock: l.Name(), Kind: opLocked}, nil, func() (any, error) { return l.Locked(ctx) })
		}
	}
	rand.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
	for i, h := range holds { // a re-entry may be trusted for longer than what it has re-entered
		d := deed{Lock: l.Name(), Kind: opRelease, Tag: tag, Wire: h.ID(), Until: lastDeadline(holds[i:])}
		c.do(d, func() string { return ending(h.Release()) })
	}
}

// Four processes, or twelve, take, re-enter, look at and release locks, while replies get lost, one of them is stopped
// for longer than its lease and one is killed. Where some of them are Java's, one of these is stopped and one is killed
// as well. A reentrant mutex must explain all that they saw.
func TestAHistoryOfFourProcessesIsThatOfAMutex(t *testing.T) {
	t.Parallel()
	names := []string{
		"rlock", "rlock" + fewLocks, "rlock" + fewLocks + manyProcesses, "fairlock", "fairlock" + fewLocks,
		"fairlock" + fewLocks + manyProcesses, writers + fewLocks + manyProcesses,
		"rlock" + fewLocks + manyProcesses + withJava, "fairlock" + fewLocks + manyProcesses + withJava,
		writers + fewLocks + manyProcesses + withJava,
	}
	if stressed {
		names = append(names, "rlock"+fewLocks+withJava, "fairlock"+fewLocks+withJava)
	}
	for _, name := range names {
		arg, java := strings.CutSuffix(name, withJava)
		kind, many := strings.CutSuffix(arg, manyProcesses)
		kind, few := strings.CutSuffix(kind, fewLocks)
		k := kit.KindOf(kind)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			about := subject{
				role: "historian", arg: arg, blows: lockBlows, holding: holdsLock,
				lost: losing(kit.ScriptOf(k, "release")),
			}
			if few { // a call that waits outlasts this; of a thousand calls without an outcome nobody finds the order
				about.lost = losingFor(100*time.Millisecond, kit.ScriptOf(k, "release"))
			}
			if many {
				about.processes, about.blows = 3*historians, blowsOfMany
			}
			if java {
				about = about.withJava(kind, locksOfFew, longestWait(many))
			}
			r := write(t, srv, about)
			r.require(t, "take unknown", "release unknown", "release lost")
			if java {
				r.requireMixed(t)
			}
			r.requireApart(t)
			checkHistory(t, reentrantMutex, r.grants())
			if handed, granted := r.handedOver(), r.granted(); few && kind != writers {
				t.Log(handed, "handed over,", granted, "granted by releases of other processes")
				require.Greater(t, granted, deedsEach/36)
				require.True(t, many || java || k.Queues || handed > deedsEach/36)
			}
			s := kit.Open(t, srv.Addr(), nil)
			if k.Queues {
				kit.SleepUntil(time.Now().Add(historyWait)) // dead waiters are removed from a queue when somebody looks
			}
			for i := range historyLocks { // or when a lock is released
				require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, fmt.Sprint("lock ", i), 0)).Release())
			}
			kit.Await(t, "the end of all leases", func() bool {
				space := srv.Keyspace(t)
				maps.DeleteFunc(space, func(key string, left redistest.Value) bool { // of the dead that a release has passed over
					return left.Expires && strings.HasPrefix(key, "holdfast_fair_")
				})
				return len(space) == 0
			})
		})
	}
}

// granted counts the grants that a client has got without a call, as others released.
func (r record) granted() (n int) {
	for _, d := range r.deeds {
		if d.Granted {
			n++
		}
	}
	return n
}

// handedOver counts the grants that a client has got from another one without the server: the wire owner is the same.
func (r record) handedOver() (n int) {
	tags := map[string]map[string]bool{}
	for _, d := range r.deeds {
		if d.Kind != opRelease || d.Java {
			continue
		}
		if tags[d.Wire] == nil {
			tags[d.Wire] = map[string]bool{}
		}
		tags[d.Wire][d.Tag] = true
	}
	for _, of := range tags {
		n += len(of) - 1
	}
	return n
}

// A checker that never finds anything would prove nothing.
func TestTheModelRefusesTwoHolders(t *testing.T) {
	t.Parallel()
	at := happened
	first := at(deed{Client: 0, Kind: opTake, Tag: "a", Out: "done"}, 1, 2)
	second := at(deed{Client: 1, Kind: opTake, Tag: "b", Out: "done"}, 3, 4)
	released := at(deed{Client: 0, Kind: opRelease, Tag: "a", Out: "done"}, 5, 6)
	lost := at(deed{Client: 0, Kind: opRelease, Tag: "a", Out: "lost"}, 5, 6)
	unknown := at(deed{Client: 0, Kind: opRelease, Tag: "a", Out: "unknown"}, 2, 3)
	orphaned := func(from int64) porcupine.Operation {
		return at(deed{Client: 0, Kind: opOrphan, Tag: "a"}, from, 100)
	}
	busy := at(deed{Client: 1, Kind: opTake, Tag: "b", Out: "busy"}, 3, 4)
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		legal   bool
	}{
		{"two holders", []porcupine.Operation{first, second, released}, false},
		{"a second holder before the deadline of a loss", []porcupine.Operation{first, second, lost, orphaned(5)}, false},
		{"a second holder after the deadline of a loss", []porcupine.Operation{first, second, lost, orphaned(2)}, true},
		{"a second holder after a release without a reply", []porcupine.Operation{first, second, unknown}, true},
		{"a second holder after the loss of one hold, and the release of the other", []porcupine.Operation{
			first, at(deed{Client: 0, Kind: opReenter, Tag: "a", Out: "done"}, 2, 3), at(lost.Input.(deed), 3, 4),
			at(released.Input.(deed), 5, 6), at(second.Input.(deed), 7, 8),
		}, true},
		{"nobody in the way", []porcupine.Operation{busy}, false},
		{"somebody in the way", []porcupine.Operation{first, busy, released}, true},
	} {
		require.Equal(t, c.legal, porcupine.CheckOperations(reentrantMutex, c.history), c.name)
	}
}

// A hold that was given back is trusted until it is, whatever the outcome, and the one that is left until its own
// deadline: a release that has to wait for its turn meanwhile gives back both.
func TestAHoldThatWasGivenBackLeavesTheLockToItsOthers(t *testing.T) {
	t.Parallel()
	const outer, inner = 40, 60 // their deadlines
	for _, c := range []struct {
		released   time.Duration // when the inner one was
		from, to   time.Duration // when another one took the lock
		explicable bool
	}{
		{30, 48, 59, true},
		{30, 32, 39, false},
		{45, 41, 44, false},
		{45, 46, 59, true},
	} {
		history := record{deeds: []deed{
			{Kind: opTake, Tag: "a", Out: "done", Call: 1, Return: 2},
			{Kind: opReenter, Tag: "a", Out: "done", Call: 3, Return: 4},
			{Kind: opRelease, Tag: "a", Out: "unknown", Call: c.released, Return: inner + 3, Until: inner},
			{Client: 1, Kind: opTake, Tag: "b", Out: "done", Call: c.from, Return: c.to},
			{Kind: opRelease, Tag: "a", Out: "lost", Call: inner + 4, Return: inner + 5, Until: outer},
		}}.grants()
		require.Equal(t, c.explicable, porcupine.CheckOperations(reentrantMutex, history), c)
	}
}

func TestALeftoverHasEndedWhenAnotherHasTheLockToHimself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		half string
		from int64 // when the other one asked
		end  int64 // of the leftover
	}{{halfWrite, 6, 8}, {"", 6, 8}, {halfWrite, 4, 21}, {halfRead, 6, 50}} {
		of := func(tag, half, kind, out string, from, to int64) porcupine.Operation {
			return happened(deed{Half: half, Kind: kind, Tag: tag, Out: out}, from, to)
		}
		got := endedByOthers([]porcupine.Operation{
			of("a", halfRead, opTake, "done", 0, 2),
			of("a", halfRead, opRelease, "lost", 4, 5),
			of("a", halfRead, opOrphan, "", 3, 50),
			of("b", c.half, opTake, "done", c.from, 8),
			of("c", c.half, opTake, "done", 20, 21),
		})
		require.Equal(t, c.end, got[2].Return, c)
	}
}

// requireApart checks directly that nobody was sure of a lock while another one was.
func (r record) requireApart(t *testing.T) {
	t.Helper()
	for lock, holds := range r.beliefs() {
		if i := sortByTime(holds); i > 0 {
			r.tell(t, lock, holds[i-1].from, holds[i].to)
		}
		sortApart(t, holds)
	}
}

// beliefs are, for each lock, when somebody was sure of it: from when the taking call returned until the last release
// was called, or trust was over. It may have been over before the call returned, of a process that was stopped just
// then.
func (r record) beliefs() map[string][]interval {
	held := map[string][]interval{}
	at := map[string]int{}                // by the tag of the grant, which is of one lock
	trusted := map[string]time.Duration{} // by the same, until when
	for _, d := range r.deeds {
		if d.Kind == opRelease {
			trusted[d.Tag] = max(trusted[d.Tag], d.Until)
		}
	}
	for _, d := range r.deeds {
		i, sure := at[d.Tag]
		until, released := trusted[d.Tag]
		switch {
		case d.Kind == opTake && d.Out == "done" && (!released || until > d.Return):
			at[d.Tag] = len(held[d.Lock])
			held[d.Lock] = append(held[d.Lock], interval{who: d.Client, from: d.Return, to: d.Return})
		case d.Kind == opRelease && sure:
			h := &held[d.Lock][i]
			h.to = max(h.to, min(d.Call, d.Until))
		}
	}
	return held
}

func TestWhoeverIsToldTooLateBelievesNothing(t *testing.T) {
	t.Parallel()
	took := deed{Client: 3, Lock: "l", Kind: opTake, Tag: "a", Call: 1, Return: 9, Out: "done"}
	gave := deed{Client: 3, Lock: "l", Kind: opRelease, Tag: "a", Call: 12, Return: 13, Out: "lost"}
	for until, want := range map[time.Duration][]interval{
		8:  nil,
		10: {{who: 3, from: 9, to: 10}},
		20: {{who: 3, from: 9, to: 12}},
	} {
		gave.Until = until
		require.Equal(t, want, record{deeds: []deed{took, gave}}.beliefs()["l"], until)
	}
	killed := record{deeds: []deed{took}}
	require.Equal(t, []interval{{who: 3, from: 9, to: 9}}, killed.beliefs()["l"])
}

// tell logs what was done about a lock in a time.
func (r record) tell(t *testing.T, lock string, from, to time.Duration) {
	t.Helper()
	type whole deed // without its String
	for _, d := range r.deeds {
		if d.Lock == lock && d.Return >= from && d.Call <= to {
			t.Logf("%+v", whole(d))
		}
	}
}
