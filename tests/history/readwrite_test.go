package history

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const preferred = "rwlock preferred"

// rwHistorian runs the client that uses read-write locks.
func rwHistorian(args []string) {
	narrate(args, kit.WorkerLease, func(c *client) { c.share(anyLock(), args[2] == preferred) })
}

// A stay is one grant of a read-write lock to a client, with the holds of it.
type stay struct {
	client *client
	lock   *rwlock.RWMutex
	prefer bool
	tag    string

	mu    sync.Mutex
	holds map[string][]*holdfast.Hold // by half
}

// share takes one half of a lock, does some things under it if it was granted, and releases everything.
func (c *client) share(name string, prefer bool) {
	s := &stay{
		client: c, lock: rwlock.New(c.session, name, &rwlock.Options{PreferWriter: prefer}),
		prefer: prefer, tag: c.tag(), holds: map[string][]*holdfast.Hold{},
	}
	s.take(context.Background(), opTake, anyHalf())
	for range rand.N(10) {
		ctx, ok := s.context()
		if !ok {
			break
		}
		switch rand.N(7) {
		case 0, 1:
			s.take(ctx, opReenter, halfRead)
		case 2:
			s.take(ctx, opReenter, halfWrite)
		case 3:
			s.release(anyHalf())
		case 4: // an owner may be in several goroutines
			if len(s.all()) < 2 {
				continue // nothing would be left to re-enter
			}
			var both sync.WaitGroup
			both.Go(func() { s.take(ctx, opReenter, halfRead) })
			both.Go(func() { s.release(halfRead) })
			both.Wait()
		case 5:
			half := anyHalf()
			c.look(s.deed(opCount, half), s.all(), func() (any, error) { return s.half(half).HoldCount(ctx) })
		case 6:
			half := anyHalf()
			d := s.deed(opLocked, half)
			d.Tag = ""
			c.look(d, nil, func() (any, error) { return s.half(half).Locked(ctx) })
		}
	}
	for len(s.all()) > 0 {
		s.release(anyHalf())
	}
}

func anyHalf() string { return []string{halfRead, halfWrite}[rand.N(2)] }

func (s *stay) half(half string) *rwlock.Half {
	if half == halfWrite {
		return s.lock.Write()
	}
	return s.lock.Read()
}

func (s *stay) deed(kind, half string) deed {
	return deed{Lock: s.lock.Read().Name(), Half: half, Kind: kind, Tag: s.tag}
}

func (s *stay) all() []*holdfast.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append([]*holdfast.Hold(nil), s.holds[halfRead]...), s.holds[halfWrite]...)
}

// context returns one under which the client can go on; false if something is lost or nothing is held.
func (s *stay) context() (context.Context, bool) {
	all := s.all()
	for _, h := range all {
		if h.Err() != nil {
			return nil, false
		}
	}
	if len(all) == 0 {
		return nil, false
	}
	return all[rand.N(len(all))].Context(context.Background()), true
}

func (s *stay) take(ctx context.Context, kind, half string) {
	ctx, cancel := hurried(ctx)
	defer cancel()
	s.client.do(s.deed(kind, half), func() string {
		wait := patience()
		h, err := s.half(half).TryLockFor(ctx, wait)
		if err == nil {
			s.mu.Lock()
			s.holds[half] = append(s.holds[half], h)
			s.mu.Unlock()
		}
		if errors.Is(err, holdfast.ErrBusy) && (half == halfRead && s.prefer || wait > 0) {
			// to a writer, or held; or the time was over before anybody was asked
			return "promised"
		}
		return outcome(err)
	})
}

// release releases one hold of a half, if there is any.
func (s *stay) release(half string) {
	s.mu.Lock()
	holds := s.holds[half]
	if len(holds) == 0 {
		s.mu.Unlock()
		return
	}
	i := rand.N(len(holds))
	h, d := holds[i], s.deed(opRelease, half)
	d.Until = lastDeadline(holds)
	s.holds[half] = append(append([]*holdfast.Hold(nil), holds[:i]...), holds[i+1:]...)
	s.mu.Unlock()
	s.client.do(d, func() string { return ending(h.Release()) })
}

// Four processes, or twelve in CI, read, write, do both, downgrade and look, while replies get lost, one of them is
// stopped for longer than its lease and one is killed. Where some of them are Java's, one of these is stopped and one
// is killed as well. A read-write lock must explain all that they saw.
func TestAHistoryOfFourProcessesIsThatOfAReadWriteLock(t *testing.T) {
	t.Parallel()
	names := []string{"rwlock", preferred, "rwlock" + withJava}
	if stressed {
		names = append(names, "rwlock"+manyProcesses+withJava)
	}
	for _, name := range names {
		arg, java := strings.CutSuffix(name, withJava)
		arg, many := strings.CutSuffix(arg, manyProcesses)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads, writes := kit.ScriptOf(kit.KindOf("rwlock read"), "release"),
				kit.ScriptOf(kit.KindOf("rwlock write"), "release")
			srv := redistest.Start(t)
			silence := 500 * time.Millisecond
			if java { // two of the locks are wanted by many: of a thousand calls without an outcome nobody finds the order
				silence = 100 * time.Millisecond
			}
			about := subject{
				role: "rwHistorian", arg: arg,
				blows: lockBlows, holding: holdsLock,
				lost: losingFor(silence, func(command []string) bool { return reads(command) || writes(command) }),
			}
			if many {
				about.processes, about.blows = 3*historians, blowsOfMany
			}
			if java {
				about = about.withJava(arg, locksOfFew, longestWait(many))
			}
			r := write(t, srv, about)
			r.require(t, "read take unknown", "write take unknown", "read re-enter unknown",
				"write re-enter already held",
				"release unknown", "release lost")
			if java {
				r.requireMixed(t)
			}
			checkHistory(t, readWriteLock, r.grants())
			kit.Await(t, "the end of all leases", func() bool { return len(srv.Strs(t, "KEYS", "*")) == 0 })
		})
	}
}

// A checker that never finds anything would prove nothing.
func TestTheModelRefusesAReaderBesideAWriter(t *testing.T) {
	t.Parallel()
	type deeds []deed // one after the other
	by := func(client int, half, kind, out string) deed {
		return deed{Client: client, Half: half, Kind: kind, Tag: strconv.Itoa(client), Out: out}
	}
	took := func(client int, half string) deed { return by(client, half, opTake, "done") }
	nested := func(client int, half string) deed { return by(client, half, opReenter, "done") }
	gave := func(client int, half string) deed { return by(client, half, opRelease, "done") }
	lost := func(client int, half string) deed { return by(client, half, opRelease, "lost") }
	saw := func(half, what string) deed { return deed{Client: 9, Half: half, Kind: opLocked, Out: what} }
	const r, w = halfRead, halfWrite
	for _, c := range []struct {
		name    string
		history deeds
		legal   bool
	}{
		{"two readers", deeds{took(1, r), took(2, r), gave(1, r), gave(2, r)}, true},
		{"two writers", deeds{took(1, w), took(2, w)}, false},
		{"a writer after another", deeds{took(1, w), gave(1, w), took(2, w)}, true},
		{"a reader beside a writer", deeds{took(1, w), took(2, r)}, false},
		{"a writer beside a reader", deeds{took(1, r), took(2, w)}, false},
		{"a writer beside the second reader", deeds{took(1, r), took(2, r), gave(1, r), took(3, w)}, false},
		{"a writer after all readers", deeds{took(1, r), took(2, r), gave(1, r), gave(2, r), took(3, w)}, true},
		{"a writer after one of two reads", deeds{took(1, r), nested(1, r), gave(1, r), took(2, w)}, false},
		{"a writer after one of two writes", deeds{took(1, w), nested(1, w), gave(1, w), took(2, w)}, false},
		{"a reader after one of two writes", deeds{took(1, w), nested(1, w), gave(1, w), took(2, r)}, false},
		{"a writer who reads", deeds{took(1, w), nested(1, r), gave(1, r), gave(1, w), took(2, w)}, true},
		{"a reader beside a writer who reads", deeds{took(1, w), nested(1, r), took(2, r)}, false},
		{"a writer let in during a downgrade", deeds{took(1, w), nested(1, r), gave(1, w), took(2, w)}, false},
		{"a reader let in during a downgrade", deeds{took(1, w), nested(1, r), gave(1, w), took(2, r), gave(1, r)}, true},
		{"a writer after a downgrade", deeds{took(1, w), nested(1, r), gave(1, w), gave(1, r), took(2, w)}, true},
		{"a reader who comes to write", deeds{took(1, r), nested(1, w)}, false},
		{"a reader who is refused to write", deeds{took(1, r), by(1, w, opReenter, "already held")}, true},
		{"a writer who is refused to write", deeds{took(1, w), by(1, w, opReenter, "already held")}, false},
		{"nobody in a writer's way", deeds{by(1, w, opTake, "busy")}, false},
		{"a reader in a writer's way", deeds{took(1, r), by(2, w, opTake, "busy")}, true},
		{"only readers in a reader's way", deeds{took(1, r), by(2, r, opTake, "busy")}, false},
		{"a writer in a reader's way", deeds{took(1, w), by(2, r, opTake, "busy")}, true},
		{
			"a downgraded writer in a reader's way",
			deeds{took(1, w), nested(1, r), gave(1, w), by(2, r, opTake, "busy")},
			false,
		},
		{"re-entry into nothing", deeds{took(1, w), gave(1, w), nested(1, r)}, false},
		{"a release of what is not held", deeds{took(1, r), gave(1, w)}, false},

		{"a writer after a release without a reply", deeds{took(1, w), by(1, w, opRelease, "unknown"), took(2, w)}, true},
		{
			"a reader kept out after a release without a reply",
			deeds{took(1, w), by(1, w, opRelease, "unknown"), by(2, r, opTake, "busy")},
			true,
		},
		{
			"a reader kept out after that, though another came in",
			deeds{took(1, w), by(1, w, opRelease, "unknown"), took(2, r), by(3, r, opTake, "busy")},
			false,
		},
		{
			"a writer beside the reads of a release without a reply",
			deeds{took(1, w), nested(1, r), by(1, w, opRelease, "unknown"), took(2, w)},
			false,
		},
		{
			"a read that nobody knows of",
			deeds{took(1, w), by(1, r, opReenter, "unknown"), gave(1, w), by(2, w, opTake, "busy"), took(3, w)},
			true,
		},
		{
			"a write that nobody knows of beside a reader",
			deeds{took(1, r), by(2, w, opTake, "unknown"), by(3, r, opTake, "busy")},
			false,
		},

		{
			"a writer before the deadline of a loss",
			deeds{took(1, r), took(2, w), by(1, r, opRelease, "lost"), by(1, r, opOrphan, "")},
			false,
		},
		{
			"a writer after the deadline of a loss",
			deeds{took(1, r), by(1, r, opRelease, "lost"), by(1, r, opOrphan, ""), took(2, w)},
			true,
		},
		{
			"a writer after the loss of one of two reads, and the release of the other",
			deeds{took(1, r), nested(1, r), lost(1, r), gave(1, r), took(2, w)},
			true,
		},
		{
			"a writer after the release of one of two reads, before the deadline of the other, which is lost",
			deeds{took(1, r), nested(1, r), gave(1, r), lost(1, r), took(2, w)},
			false,
		},
		{
			"a writer after the loss of both reads, before their deadline",
			deeds{took(1, r), nested(1, r), lost(1, r), lost(1, r), took(2, w)},
			false,
		},
		{
			"a writer after the loss of both reads",
			deeds{took(1, r), nested(1, r), lost(1, r), lost(1, r), by(1, r, opOrphan, ""), took(2, w)},
			true,
		},
		{"a writer beside the read that is not lost", deeds{took(1, r), nested(1, r), lost(1, r), took(2, w)}, false},
		{"the count of the read that is not lost", deeds{took(1, r), nested(1, r), lost(1, r), by(1, r, opCount, "1")}, true},
		{
			"nobody in a writer's way after that",
			deeds{took(1, r), nested(1, r), lost(1, r), gave(1, r), by(2, w, opTake, "busy")},
			false,
		},
		{
			"a reader after the loss of one of two writes, and the release of the other",
			deeds{took(1, w), nested(1, w), lost(1, w), gave(1, w), took(2, r)},
			true,
		},
		{
			"a writer after the loss of a write, beside a read",
			deeds{took(1, w), nested(1, r), by(1, w, opOrphan, ""), took(2, w)},
			false,
		},
		{
			"a reader after the loss of a write",
			deeds{took(1, w), nested(1, r), by(1, w, opOrphan, ""), took(2, r), gave(1, r)},
			true,
		},

		{"a write half that is said to be free", deeds{took(1, w), saw(w, "false")}, false},
		{"a write half that is said to be held", deeds{took(1, r), saw(w, "true")}, false},
		{"a read half that is said to be free", deeds{took(1, w), nested(1, r), saw(r, "false")}, false},
		{"a read half that is said to be held", deeds{took(1, w), saw(r, "true")}, false},
		{
			"halves that are what they are said to be",
			deeds{took(1, w), saw(r, "false"), saw(w, "true"), nested(1, r), gave(1, w), saw(r, "true"), saw(w, "false")},
			true,
		},
		{"a count too many", deeds{took(1, w), nested(1, r), by(1, r, opCount, "2")}, false},
		{
			"counts of both",
			deeds{took(1, w), nested(1, r), nested(1, r), by(1, r, opCount, "2"), by(1, w, opCount, "1")},
			true,
		},
	} {
		var history []porcupine.Operation
		for i, d := range c.history {
			history = append(history, happened(d, int64(2*i), int64(2*i+1)))
		}
		require.Equal(t, c.legal, porcupine.CheckOperations(readWriteLock, history), c.name)
	}
}

// A process that stands still for longer than its lease may release what it has lost without learning that.
func TestAReleaseOfUnknownOutcomeMayComeAfterTheEndOfTrust(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		until int
		legal bool
	}{{30, true}, {50, false}} {
		deeds := []deed{
			{Client: 1, Half: halfRead, Kind: opTake, Tag: "a", Out: "done", Call: 1, Return: 2},
			{Client: 1, Half: halfRead, Kind: opReenter, Tag: "a", Out: "done", Call: 3, Return: 4},
			{Client: 1, Half: halfRead, Kind: opRelease, Tag: "a", Out: "unknown", Call: 10, Return: 40, Until: 50},
			{Client: 2, Half: halfWrite, Kind: opTake, Tag: "b", Out: "done", Call: 34, Return: 36},
			{Client: 1, Half: halfRead, Kind: opRelease, Tag: "a", Out: "unknown", Call: 44, Return: 48},
		}
		deeds[4].Until = time.Duration(c.until)
		require.Equal(t, c.legal, porcupine.CheckOperations(readWriteLock, record{deeds: deeds}.grants()), c.until)
	}
}
