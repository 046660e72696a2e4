package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A lined is a kind of lock, or of permits, for which sessions wait in a line on the server.
type lined struct {
	name        string
	take        func(ctx context.Context, s *holdfast.Session, name string) (give func() error, err error)
	queue, told string   // key of the list of waiters, and how the channels begin on which sessions are told
	moves       []string // what may become of a lock's slot
	stops       bool     // while it is half moved
	granted     bool     // by a release, rather than told of it
	permits     bool
}

// giving is how a hold is given back.
func giving(h *holdfast.Hold, err error) (give func() error, _ error) {
	if err != nil {
		return nil, err
	}
	return h.Release, nil
}

var linedKinds = []lined{
	{
		name: "rlock",
		take: func(ctx context.Context, s *holdfast.Session, name string) (func() error, error) {
			return giving(rlock.New(s, name, nil).Lock(ctx))
		},
		queue: "holdfast_line:{%s}", told: "holdfast_line:{%s}:",
		moves: []string{"stays", "moves", "is half moved"}, granted: true,
	},
	{
		name: "fairlock",
		take: func(ctx context.Context, s *holdfast.Session, name string) (func() error, error) {
			return giving(fairlock.New(s, name, nil).Lock(ctx))
		},
		queue: "redisson_lock_queue:{%s}", told: "holdfast_fair:{%s}:",
		moves: []string{"stays", "moves", "is half moved"}, stops: true, granted: true,
	},
	{
		name: "write half",
		take: func(ctx context.Context, s *holdfast.Session, name string) (func() error, error) {
			return giving(rwlock.New(s, name, nil).Write().Lock(ctx))
		},
		queue: "holdfast_rwlock_line:{%s}", told: "holdfast_rwlock_line:{%s}:",
		moves: []string{"stays", "moves", "is half moved"},
	},
	linedPermits(counting, false),
	linedPermits("permit with a lease", true),
}

const counting = "counting permit"

// linedLocks are those of the kinds that are no permits.
var linedLocks = linedKinds[:3]

func linedPermits(name string, leased bool) lined {
	return lined{
		name: name,
		take: func(ctx context.Context, s *holdfast.Session, name string) (func() error, error) {
			return takerOf(s, name, leased)(ctx, 1)
		},
		queue: "holdfast_line:{%s}", told: "holdfast_line:{%s}:", permits: true,
	}
}

// waits has a call of a session of its own wait for the lock, and returns when n wait.
func (k lined) waits(
	t *testing.T, s *holdfast.Session, name string, srv func() *redistest.Server, n int,
) <-chan permitsTaken {
	t.Helper()
	got := make(chan permitsTaken, 1)
	go func() {
		give, err := k.take(t.Context(), s, name)
		got <- permitsTaken{give, err}
	}()
	kit.Await(t, "one more that waits", func() bool {
		return srv().Int(t, "LLEN", fmt.Sprintf(k.queue, name)) == int64(n)
	})
	return got
}

// passes has the lock pass on from one that gives it back to all that wait.
func passes(
	t *testing.T, give func() error, got []<-chan permitsTaken, limit time.Duration, granted func(i int),
) {
	t.Helper()
	began := time.Now()
	all := make(chan permitsTaken)
	for _, g := range got {
		go func() { all <- <-g }()
	}
	for i := range got {
		require.NoError(t, give(), "%d", i)
		taken := kit.Within(t, limit, all, "one of those that wait")
		require.NoError(t, taken.err)
		give = taken.give
		t.Log(i, time.Since(began))
		granted(i)
	}
	require.NoError(t, give())
}

// A queue is the line of a lock, or of one permit, that one has, and others wait for.
type queue struct {
	*testing.T
	lined
	srv  *redistest.Server
	give func() error
	n    int
}

func newQueue(t *testing.T, k lined) *queue {
	t.Helper()
	q := &queue{T: t, lined: k, srv: redistest.Start(t)}
	kit.LoadScripts(t, q.srv)
	if k.permits {
		q.srv.Do(t, "SET", kit.Orders, "1")
	}
	var err error
	q.give, err = k.take(t.Context(), q.comes(q.srv.Addr()), kit.Orders)
	require.NoError(t, err)
	return q
}

// comes is one more session.
func (q *queue) comes(addr string) *holdfast.Session {
	q.Helper()
	return kit.Open(q, addr, &holdfast.Options{Lease: 30 * time.Second})
}

// one has one more session wait.
func (q *queue) one(addr string) <-chan permitsTaken {
	q.Helper()
	q.n++
	return q.waits(q.T, q.comes(addr), kit.Orders, func() *redistest.Server { return q.srv }, q.n)
}

// process has one more process wait.
func (q *queue) process() *worker.Worker {
	q.Helper()
	q.n++
	w := worker.Start(q, func(string) {}, "waits in line", q.srv.Addr(), q.name)
	kit.Await(q, "a process in the line", func() bool { return q.length() == q.n })
	return w
}

// waitInLine is a process that waits for a lock or a permit, and has it until it is to stop.
func waitInLine(args []string) {
	k := linedKinds[slices.IndexFunc(linedKinds, func(k lined) bool { return k.name == args[1] })]
	s := kit.OpenWorker(args[0], 30*time.Second)
	give, err := k.take(context.Background(), s, kit.Orders)
	kit.Must(err)
	<-worker.Stopped()
	kit.Must(give())
	kit.Must(s.Close())
}

func (q *queue) length() int { return int(q.srv.Int(q, "LLEN", fmt.Sprintf(q.queue, kit.Orders))) }

// listening is how many sessions listen for what they are told.
func (q *queue) listening() int {
	return len(q.srv.Strs(q, "PUBSUB", "CHANNELS", fmt.Sprintf(q.told, kit.Orders)+"*-*"))
}

// passesOn gives back what there is, and awaits that one of those who wait has it.
func (q *queue) passesOn(limit time.Duration, got <-chan permitsTaken, what string) {
	q.Helper()
	require.NoError(q, q.give())
	taken := kit.Within(q, limit, got, what)
	require.NoError(q, taken.err)
	q.give = taken.give
}

// A session without the right to tell others that they have a fair lock frees it, as an older version does.
func TestWhoMayNotTellSessionsPassesAFairLockOn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Grant(t, "weak", "+@all", "~*", "&redisson_*")
	user := kit.ClientOption(srv.Addr())
	user.Username, user.Password = "weak", redistest.Password
	weak := kit.OpenWith(t, user, &holdfast.Options{Lease: 30 * time.Second})
	k, free := linedKinds[1], fairlock.New(weak, kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), free)
	strong := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	got := k.waits(t, strong, kit.Orders, func() *redistest.Server { return srv }, 1)
	kit.Await(t, "a waiter that hears", func() bool {
		alive := srv.Strs(t, "ZRANGE", "holdfast_fair_alive:{"+kit.Orders+"}", "0", "0", "WITHSCORES")
		return len(alive) == 2 && strings.Contains(alive[1], ".")
	})
	require.NoError(t, hold.Release())
	taken := kit.Within(t, kit.LongestWait, got, "the waiter")
	require.NoError(t, taken.err)
	require.NoError(t, taken.give())
}

// Nobody waits for those who were killed while they waited: a release passes them over. The machine may be busy, so the
// best of some counts.
func TestThoseWhoWereKilledCostNothing(t *testing.T) {
	t.Parallel()
	for _, k := range linedKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			const soon = 50 * time.Millisecond
			best := time.Hour
			for tries := 0; best >= soon && tries < 6; tries++ {
				q := newQueue(t, k)
				dead := []*worker.Worker{q.process(), q.process()}
				next := q.one(q.srv.Addr())
				kit.Await(t, "those who are told", func() bool { return q.listening() >= 3 })
				for _, w := range dead {
					w.Kill()
				}
				kit.Await(t, "the server to have noticed", func() bool { return q.listening() == 1 })
				kit.AwaitHandOn(t, q.srv)
				took := kit.Stopwatch()
				q.passesOn(kit.LongestWait, next, "the one that lives")
				best = min(best, took())
				require.NoError(t, q.give())
			}
			t.Log(best)
			require.Less(t, best, soon)
		})
	}
}

// A silence is how one that waits in line falls silent and wakes up, and what it does then.
type silence struct{ falls, wakes, ends func() }

func (q *queue) frozen() silence {
	w := q.process()
	return silence{w.Pause, w.Resume, func() {
		w.End()
		kit.Within(q, kit.LongestWait, w.Ended(), "the end of the process")
	}}
}

func (q *queue) cutOff() silence {
	p := proxy.Start(q, q.srv.Addr())
	got := q.one(p.Addr())
	return silence{
		func() {
			p.Silence()
		},
		p.ResumeAll,
		func() {
			taken := kit.Within(q, kit.LongestWait, got, "the one that was cut off")
			if q.name == counting { // such a call cannot be repeated
				require.ErrorIs(q, taken.err, holdfast.ErrUnknown)
				return
			}
			require.NoError(q, taken.err)
			require.NoError(q, taken.give())
		},
	}
}

// Whoever is frozen or cut off when its turn comes delays the others by less than 10 s, once. Then they come in any
// order: whoever looks first. The silent one has nothing when it can act again, and stands in the line anew.
func TestThoseWhoDoNotAnswerDelayTheOthersOnce(t *testing.T) {
	t.Parallel()
	for _, k := range linedKinds {
		for how, falls := range map[string]func(*queue) silence{"frozen": (*queue).frozen, "cut off": (*queue).cutOff} {
			t.Run(k.name+", "+how, func(t *testing.T) {
				t.Parallel()
				q := newQueue(t, k)
				silent := falls(q)
				others := make(chan permitsTaken)
				for range 2 {
					got := q.one(q.srv.Addr())
					go func() { others <- <-got }()
				}
				settled()
				kit.Await(t, "those who are told", func() bool { return q.listening() >= 3 })
				silent.falls()
				kit.AwaitHandOn(t, q.srv)
				took, released := kit.Stopwatch(), time.Now()
				q.passesOn(20*time.Second, others, "one of the others")
				delay := took()
				t.Log(delay)
				require.Less(t, delay, 10*time.Second+kit.Told) // a busy machine tells the others late
				require.Greater(t, time.Since(released), 4*time.Second, "it was its turn")
				took = kit.Stopwatch()
				q.passesOn(kit.LongestWait, others, "the other one")
				require.Less(t, took(), kit.Told, "once")
				silent.wakes()
				if k.name != counting || how == "frozen" {
					kit.Await(t, "it stands anew", func() bool { return q.length() == 1 })
				}
				require.NoError(t, q.give())
				kit.Await(t, "its turn", func() bool { return q.length() == 0 })
				silent.ends()
			})
		}
	}
}
