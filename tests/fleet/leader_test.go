package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

const election = "billing"

var errDone = errors.New("done")

// A candidate runs in the test's own process.
type candidate struct {
	session *holdfast.Session
	led     chan context.Context // of each term
	ended   chan error           // what Run has returned
	leave   chan error           // what lead is to return
	stop    context.CancelFunc
}

// stand stands for election until the test ends. Its lead returns when its ctx ends, or with what leave says.
func stand(t *testing.T, s *holdfast.Session) *candidate {
	t.Helper()
	c := &candidate{session: s, led: make(chan context.Context, 100), ended: make(chan error, 1), leave: make(chan error)}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	t.Cleanup(stop)
	go func() {
		c.ended <- leader.Run(ctx, s, election, func(ctx context.Context) error {
			c.led <- ctx
			select {
			case <-ctx.Done():
				return fmt.Errorf("lead: %w", ctx.Err())
			case err := <-c.leave:
				return err
			}
		})
	}()
	return c
}

func (c *candidate) leads(t *testing.T) context.Context {
	t.Helper()
	return kit.Within(t, 15*time.Second, c.led, "a term")
}

// queued waits until so many wait behind the leader.
func queued(t *testing.T, s *holdfast.Session, n int) (all []holdfast.Waiter) {
	t.Helper()
	kit.Await(t, fmt.Sprint(n, " candidates"), func() (ok bool) {
		var err error
		all, err = leader.Candidates(t.Context(), s, election)
		require.NoError(t, err)
		return len(all) == n
	})
	return all
}

// current waits until a term is told.
func current(t *testing.T, s *holdfast.Session, term int64) (l leader.Leader) {
	t.Helper()
	kit.Await(t, fmt.Sprint("term ", term), func() bool {
		var err error
		l, err = leader.Current(t.Context(), s, election)
		require.NoError(t, err)
		return l.Term == term
	})
	return l
}

// A replica that is away for a while is like a server that is: nobody leads meanwhile, and no candidate gives up.
func TestACandidateStandsUntilItsTermIsAcknowledged(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	log := new(kit.Journal)
	c := stand(t, kit.Open(t, master.Addr(), &holdfast.Options{
		Acks: 1, AcksTimeout: 500 * time.Millisecond, Logger: log.Logger(),
	}))
	kit.Await(t, "a term that nobody has", func() bool { return strings.Contains(log.String(), "too few replicas") })
	redistest.StartReplica(t, master)
	c.leads(t)
}

// A master that is demoted lets those go who wait for its replicas.
func TestACandidateStandsAgainAfterAFailover(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	p := proxy.Start(t, master.Addr())
	unblocked := p.On(proxy.Command("WAIT"), proxy.Answer("-UNBLOCKED force unblock from blocking operation, "+
		"instance state changed (master -> replica?)"), proxy.First)
	c := stand(t, kit.Open(t, p.Addr(), &holdfast.Options{Acks: 1, AcksTimeout: 5 * time.Second}))
	unblocked.Wait(t, 1)
	c.leads(t)
}

// If its owner holds the lock otherwise by then, it waits for itself, and is told so.
func TestACandidateThatStandsAgainMayHaveTheLock(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	short, again := make(chan struct{}), make(chan struct{})
	var told atomic.Bool
	s := kit.Open(t, master.Addr(), &holdfast.Options{
		Acks: 1, AcksTimeout: 500 * time.Millisecond,
		Observer: &holdfast.Observer{Acquire: func(context.Context, holdfast.Subject) func(holdfast.Acquired) {
			return func(holdfast.Acquired) {
				if told.CompareAndSwap(false, true) {
					close(short)
					<-again
				}
			}
		}},
	})
	ctx := holdfast.NewOwner(t.Context())
	led := make(chan error, 1)
	go func() {
		led <- leader.Run(ctx, s, election, func(context.Context) error { return nil })
	}()
	kit.Within(t, kit.LongestWait, short, "a term that nobody has")
	redistest.StartReplica(t, master)
	var lock *holdfast.Hold
	kit.Await(t, "the lock", func() (has bool) {
		var err error
		lock, err = fairlock.New(s, election, nil).Lock(ctx)
		return err == nil
	})
	close(again)
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, led, "the end"), holdfast.ErrAlreadyHeld)
	require.NoError(t, lock.Release())
}

func TestACandidateThatMayNotAskReplicasIsToldSo(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), &holdfast.Options{Acks: 1, AcksTimeout: 5 * time.Second})
	master.Do(t, "ACL", "SETUSER", "default", "-wait")
	err := kit.Within(t, kit.LongestWait, stand(t, s).ended, "the refusal")
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	require.ErrorContains(t, err, "NOPERM")
}

func TestALeaderIsFollowedInOrder(t *testing.T) {
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		onlooker := kit.Open(t, srv.Addr(), &holdfast.Options{Anonymous: true})
		require.Zero(t, current(t, onlooker, 0))
		require.Empty(t, queued(t, onlooker, 0))
		began := time.Now().Add(-time.Second)
		const lease = 20 * time.Second
		var all []*candidate
		for i := range 3 {
			label := "candidate " + strconv.Itoa(i)
			client := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
			all = append(all, stand(t, kit.OpenKnown(t, client, &holdfast.Options{
				Label: label, Anonymous: i == 2, Lease: lease,
			})))
			if i == 0 {
				all[0].led <- all[0].leads(t)
			}
			queued(t, onlooker, i)
		}
		var last int64
		for i, c := range all {
			ctx := c.leads(t)
			term := leader.Term(ctx)
			require.Greater(t, term, last)
			last = term
			l := current(t, onlooker, term)
			require.Contains(t, l.ID, c.session.ID()+":")
			require.WithinRange(t, l.Since, began, time.Now().Add(time.Second))
			if i < 2 {
				require.Equal(t, "candidate "+strconv.Itoa(i), l.Label)
				require.Equal(t, os.Getpid(), l.PID)
				require.NotEmpty(t, l.Host)
			} else {
				require.Equal(t, leader.Leader{ID: l.ID, Term: term, Since: l.Since}, l)
			}
			waiting := queued(t, onlooker, 2-i)
			for n, w := range waiting {
				require.Contains(t, w.ID, all[i+1+n].session.ID()+":", "the next one first")
				require.LessOrEqual(t, w.Alive, lease/2, "a dead one is not waited for as long as the leader")
			}
			c.leave <- errDone
			require.Equal(t, errDone, kit.Within(t, 5*time.Second, c.ended, "the end"))
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.Equal(t, term, leader.Term(ctx), "it stays")
		}
		require.Zero(t, current(t, onlooker, 0))
		require.NotContains(t, srv.Keyspace(t), "holdfast_leader:{"+election+"}", "it was told before Run returned")
		for key, v := range srv.Keyspace(t) {
			require.True(t, v.Expires, key)
		}
	})
}

func TestALeaderResigns(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := stand(t, kit.Open(t, srv.Addr(), nil)), kit.Open(t, srv.Addr(), nil)
	first := a.leads(t)
	const soon = 50 * time.Millisecond
	best := time.Hour
	for try := 0; try < 3 || best >= soon && try < 10; try++ {
		next := stand(t, b)
		queued(t, b, 1)
		took := kit.Stopwatch()
		require.NoError(t, leader.Resign(first))
		require.Error(t, first.Err())
		second := next.leads(t)
		best = min(best, took())
		require.Greater(t, leader.Term(second), leader.Term(first))
		require.ErrorIs(t, leader.Resign(first), holdfast.ErrNotHeld)
		queued(t, b, 1) // it stands again
		next.leave <- nil
		require.NoError(t, kit.Within(t, 5*time.Second, next.ended, "the end"))
		third := a.leads(t)
		require.Greater(t, leader.Term(third), leader.Term(second))
		first = third //nolint:fatcontext // it is not nested: each is of a term of its own
	}
	require.Less(t, best, soon, "the best of ten")
	require.NoError(t, leader.Resign(first)) // there is nobody else
	again := a.leads(t)
	require.Greater(t, leader.Term(again), leader.Term(first))
	a.stop()
	require.EqualError(t, kit.Within(t, 5*time.Second, a.ended, "the end"), "lead: context canceled")
}

func TestALostTermIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := stand(t, kit.Open(t, srv.Addr(), nil))
	ctx := a.leads(t)
	srv.Do(t, "DEL", election) // by hand
	require.ErrorIs(t, leader.Resign(ctx), holdfast.ErrLost)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	again := a.leads(t)
	require.Greater(t, leader.Term(again), leader.Term(ctx))

	// Nobody has noticed when lead returns.
	srv.Do(t, "DEL", election)
	a.leave <- errDone
	err := kit.Within(t, 5*time.Second, a.ended, "the end")
	require.ErrorIs(t, err, errDone)
	require.ErrorIs(t, err, holdfast.ErrLost)
}

// What ends the term after Run's ctx has ended does not hide what lead returns.
func TestATermThatEndsAfterItsContext(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	lost := make(chan struct{}, 3) // one for each term
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second, Observer: &holdfast.Observer{
		Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			return func(e holdfast.Ended) {
				if errors.Is(e.Err, holdfast.ErrLost) {
					lost <- struct{}{}
				}
			}
		},
	}})
	run := func(rest func(ctx context.Context) error) error {
		ctx, stop := context.WithCancel(t.Context())
		return leader.Run(ctx, s, election, func(ctx context.Context) error {
			stop()
			<-ctx.Done()
			return rest(ctx)
		})
	}
	require.NoError(t, run(leader.Resign))
	err := run(func(ctx context.Context) error { return errors.Join(errDone, leader.Resign(ctx)) })
	require.EqualError(t, err, errDone.Error())
	err = run(func(context.Context) error {
		srv.Do(t, "DEL", election)
		kit.Within(t, 5*time.Second, lost, "the loss")
		return errDone
	})
	require.ErrorIs(t, err, errDone)
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.NotErrorIs(t, err, context.Canceled)

	around := kit.Lock(t, t.Context(), rlock.New(s, "around", nil)) // whose end looks like that of a resigned term
	err = leader.Run(around.Context(t.Context()), s, election, func(ctx context.Context) error {
		require.NoError(t, around.Release())
		<-ctx.Done()
		return errors.Join(errDone, leader.Resign(ctx))
	})
	require.EqualError(t, err, errDone.Error())
}

func TestMistakesOfElections(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	never := func(context.Context) error { t.Error("it leads"); return nil }
	require.ErrorContains(t, leader.Run(t.Context(), s, "", never), "name is empty")
	_, err := leader.Current(t.Context(), s, "")
	require.EqualError(t, err, `leader "": current: name is empty`)
	for _, err := range leader.Watch(t.Context(), s, "") {
		require.EqualError(t, err, `leader "": watch: name is empty`)
	}
	require.EqualError(t, leader.Resign(t.Context()), "leader: resign: ctx is not of a term: "+
		"want the ctx that Run has given to lead")
	require.Zero(t, leader.Term(t.Context()))
	srv.Do(t, "SET", "text", "precious")
	require.ErrorIs(t, leader.Run(t.Context(), s, "text", never), holdfast.ErrWrongKind)
	srv.Do(t, "DEL", "text")

	c := stand(t, s)
	ctx := c.leads(t)
	require.ErrorIs(t, leader.Run(ctx, s, election, never), holdfast.ErrAlreadyHeld)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errDone)
	require.ErrorIs(t, leader.Run(gone, s, election, never), errDone)
	c.leave <- nil
	require.NoError(t, kit.Within(t, 5*time.Second, c.ended, "the end"))

	require.PanicsWithValue(t, "mine", func() {
		_ = leader.Run(t.Context(), s, election, func(context.Context) error { panic("mine") })
	})
	next := stand(t, s)
	next.leads(t)
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.Within(t, 5*time.Second, next.ended, "the end"), holdfast.ErrClosed)
	for _, err := range leader.Watch(t.Context(), s, election) {
		require.ErrorIs(t, err, holdfast.ErrClosed)
	}
}

// told is what a watcher is told.
type told struct {
	leader leader.Leader
	err    error
	at     time.Time
}

func watch(ctx context.Context, s *holdfast.Session) <-chan told {
	all := make(chan told, 100)
	go func() {
		defer close(all)
		for l, err := range leader.Watch(ctx, s, election) {
			all <- told{l, err, time.Now()}
		}
	}()
	return all
}

// A term that ends because lead panics is told at once as well.
func TestWatchersAreToldOfAPanic(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := watch(t.Context(), kit.Open(t, srv.Addr(), nil))
	require.Zero(t, kit.Within(t, 5*time.Second, all, "nobody").leader)
	kit.Await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 1 })
	end, over := make(chan struct{}), make(chan any)
	s := kit.Open(t, srv.Addr(), nil)
	go func() {
		defer func() { over <- recover() }()
		_ = leader.Run(t.Context(), s, election, func(context.Context) error {
			<-end
			panic("lead")
		})
	}()
	require.NotZero(t, kit.Within(t, 15*time.Second, all, "a term").leader)
	close(end)
	require.Equal(t, "lead", kit.Within(t, 5*time.Second, over, "the panic"))
	require.Zero(t, kit.Within(t, 2*time.Second, all, "the end, sooner than it looks by itself").leader)
}

func TestWatchersAreToldOfEachLeader(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	srv.Stop() // an outage is waited out
	all := watch(ctx, s)
	tell := func() (l leader.Leader) {
		t.Helper()
		w := kit.Within(t, 15*time.Second, all, "a change")
		require.NoError(t, w.err)
		return w.leader
	}
	srv.Restart()
	require.Zero(t, tell(), "nobody")
	kit.Await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 1 })
	a := stand(t, kit.Open(t, srv.Addr(), nil))
	first := a.leads(t)
	require.Equal(t, leader.Term(first), tell().Term)
	b := stand(t, kit.Open(t, srv.Addr(), nil))
	queued(t, s, 1)
	took := kit.Stopwatch()
	a.leave <- nil
	second := leader.Term(b.leads(t))
	l := tell()
	if l.Term == 0 { // in between
		l = tell()
	}
	require.Equal(t, second, l.Term)
	require.Less(t, took(), 2*time.Second, "sooner than it looks by itself")

	// A server that has forgotten the later term does not bring an earlier one back.
	key := "holdfast_leader:{" + election + "}"
	srv.Do(t, "HSET", key, "term", "7", "owner", "old")
	srv.Do(t, "HSET", election, "old", "1")
	srv.Do(t, "PUBLISH", key, "1")
	require.Zero(t, tell())
	srv.Do(t, "HDEL", election, "old")

	b.leave <- nil
	require.NoError(t, kit.Within(t, 5*time.Second, b.ended, "the end"))
	third := stand(t, s).leads(t)
	require.Equal(t, leader.Term(third), tell().Term)
	looks := func() int64 { return srv.CommandStats(t)["hmget"] }
	before := looks()
	srv.Do(t, "PUBLISH", key, "1") // of a change that is no news
	kit.Await(t, "a look", func() bool { return looks() > before })
	cancel()
	last := kit.Within(t, 5*time.Second, all, "the end")
	require.ErrorIs(t, last.err, context.Canceled)
	kit.Await(t, "the end of all subscriptions", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })

	for _, err := range leader.Watch(t.Context(), s, election) {
		require.NoError(t, err)
		break // ends it, too
	}
	all = watch(t.Context(), s)
	require.Equal(t, leader.Term(third), tell().Term)
	require.NoError(t, s.Close())
	last = kit.Within(t, 5*time.Second, all, "the end")
	require.ErrorIs(t, last.err, holdfast.ErrClosed)
}

// A term is what one says who leads.
type term struct {
	Who   int
	Term  int64
	Begun bool
	Ended bool
	At    time.Duration // of the shared clock: after it had begun, or before a look that found that it lasts
}

// leads is a worker that stands for election, and says for how long it leads.
func leads(args []string) {
	lease, err := time.ParseDuration(args[1])
	kit.Must(err)
	who, err := strconv.Atoi(args[3])
	kit.Must(err)
	s := kit.OpenWorker(args[0], lease)
	kit.Must(leader.Run(context.Background(), s, args[2], func(ctx context.Context) error {
		return believe(ctx, who, func(said term) { kit.Say(said) })
	}))
}

// believe leads, and says for how long.
func believe(ctx context.Context, who int, say func(term)) error {
	n := leader.Term(ctx)
	say(term{Who: who, Term: n, Begun: true, At: worker.Now()})
	for {
		at := worker.Now()
		if ctx.Err() != nil {
			say(term{Who: who, Term: n, Ended: true, At: at})
			return ctx.Err()
		}
		say(term{Who: who, Term: n, At: at})
		time.Sleep(5 * time.Millisecond)
	}
}

const electionLease = time.Second

// A history is what is said in one election.
type history struct {
	mu    sync.Mutex
	terms []term
	begun chan term
}

func (h *history) add(said term) {
	h.mu.Lock()
	h.terms = append(h.terms, said)
	h.mu.Unlock()
	if said.Begun {
		h.begun <- said
	}
}

// check checks that beliefs do not overlap and that terms go up.
func (h *history) check(t *testing.T) (terms int) {
	t.Helper()
	type belief struct{ from, to time.Duration }
	all := map[int64]*belief{}
	for _, s := range h.terms {
		b := all[s.Term]
		switch {
		case s.Begun:
			require.Nil(t, b, "two have the term %d", s.Term)
			all[s.Term] = &belief{s.At, s.At}
		case !s.Ended:
			b.to = max(b.to, s.At)
		}
	}
	numbers := slices.Sorted(maps.Keys(all))
	for i, n := range numbers[1:] {
		before := all[numbers[i]]
		require.LessOrEqual(t, before.to, all[n].from, "term %d had not ended when %d began", numbers[i], n)
	}
	return len(all)
}

// What befalls a leader, and for how long the next one may have to wait.
var fates = []struct {
	name   string
	within time.Duration
	strike func(w *worker.Worker, p *proxy.Proxy) (undo func())
}{
	{"killed", electionLease + time.Second, func(w *worker.Worker, _ *proxy.Proxy) func() { w.Kill(); return nil }},
	{"stopped", electionLease + time.Second, func(w *worker.Worker, _ *proxy.Proxy) func() { w.Pause(); return w.Resume }},
	{"cut off", electionLease + time.Second, func(_ *worker.Worker, p *proxy.Proxy) func() {
		p.Silence()
		return p.ResumeAll
	}},
}

// Leaders are killed, stopped and cut off, by default 30 of them, and as many as HOLDFAST_LEADERS says. Terms never
// overlap and never go back. Now and then a candidate is killed as well, which may be the next in the queue.
func TestTermsNeverOverlap(t *testing.T) {
	t.Parallel()
	victims, n := 30, os.Getenv("HOLDFAST_LEADERS")
	if n != "" {
		var err error
		victims, err = strconv.Atoi(n)
		require.NoError(t, err)
	}
	const (
		elections = 10
		atOnce    = 3 // with as many processes each, of which a machine that is busy could not start thirty at once
	)
	srv := redistest.Start(t)
	var terms, late atomic.Int64
	kit.InParallel(t, atOnce, kit.UpTo(elections), func(i int) string { return fmt.Sprintf("election %d", i) },
		func(t *testing.T, i int) {
			h := &history{begun: make(chan term, 100)}
			type member struct {
				*worker.Worker
				proxy *proxy.Proxy
			}
			members := map[int]member{}
			next := 0
			join := func() {
				p := proxy.Start(t, srv.Addr())
				members[next] = member{worker.Start(t, worker.Hear(t, h.add), "leads", p.Addr(), electionLease.String(),
					fmt.Sprintf("election %d", i), strconv.Itoa(next)), p}
				next++
			}
			for range 3 {
				join()
			}
			leads := kit.Within(t, 30*time.Second, h.begun, "a leader")
			for n := range victims / elections {
				fate := fates[(n+i)%len(fates)]
				dies := rand.N(4) == 0 // a candidate, which may be the next in the queue
				if dies {
					for who, m := range members {
						if who != leads.Who {
							m.Kill()
							delete(members, who)
							join()
							break
						}
					}
				}
				victim := members[leads.Who]
				kit.SleepUntil(time.Now().Add(rand.N(electionLease / 2))) // in any phase of its renewals
				at := time.Now()
				undo := fate.strike(victim.Worker, victim.proxy)
				leads = kit.Within(t, 30*time.Second, h.begun, "the next leader, after one was "+fate.name)
				if took := time.Since(at); took > fate.within {
					if !dies {
						late.Add(1)
					}
					t.Logf("%s: the next one leads after %v; a candidate had died as well: %v", fate.name, took, dies)
				}
				if undo == nil {
					for who, m := range members {
						if m.Worker == victim.Worker {
							delete(members, who)
						}
					}
					join()
				} else {
					undo()
				}
			}
			for _, m := range members {
				m.Kill()
			}
			terms.Add(int64(h.check(t)))
		})
	t.Logf("%d leaders; %d were followed later than within the lease and 1 s, though no candidate had died",
		terms.Load(), late.Load())
	if n != "" { // somebody wants to know, on a machine that has time
		assert.Zero(t, late.Load())
	}
	assert.GreaterOrEqual(t, terms.Load(), int64(victims))
}

// A leader's process that was killed is followed within the lease and a second: the best of three.
func TestAKilledLeaderIsFollowedInTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	best := time.Hour
	for range 3 {
		h := &history{begun: make(chan term, 10)}
		name := fmt.Sprint("election ", rand.Int64())
		var all []*worker.Worker
		for i := range 3 {
			all = append(all, worker.Start(t, worker.Hear(t, h.add),
				"leads", srv.Addr(), electionLease.String(), name, strconv.Itoa(i)))
		}
		first := kit.Within(t, 10*time.Second, h.begun, "a leader")
		kit.Await(t, "candidates", func() bool {
			return srv.Do(t, "LLEN", "redisson_lock_queue:{"+name+"}") == int64(2)
		})
		at := time.Now()
		all[first.Who].Kill()
		kit.Within(t, 15*time.Second, h.begun, "the next leader")
		best = min(best, time.Since(at))
		for _, w := range all {
			w.Kill()
		}
	}
	require.Less(t, best, electionLease+time.Second)
}

// A term that is resigned is told of once, by Resign; and the next one is recorded once a minute.
func TestAResignedTermIsToldOfOnce(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	tells := p.On(kit.ScriptNamed("leader_tell"), proxy.Pass, proxy.EveryTime)
	c := stand(t, s)
	first := c.leads(t)
	current(t, s, leader.Term(first))
	require.NoError(t, leader.Resign(first))
	current(t, s, leader.Term(c.leads(t)))
	kit.SleepUntil(time.Now().Add(5500 * time.Millisecond)) // after 5 s it would be recorded again, had that failed
	require.Equal(t, 3, tells.Matched())
}

// The leader of a name and an rlock's holder exclude each other, but that does not lead.
func TestAHolderIsNoLeader(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, election, nil))
	c := stand(t, s)
	queued(t, s, 1)
	require.Zero(t, current(t, s, 0))
	require.NoError(t, hold.Release())
	c.leads(t)
}

// A term costs a call to lead and one to be recorded, and as many to end.
func TestCostsOfATerm(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	first := stand(t, s) // which learns the server's clock
	first.leads(t)
	recorded := func() {
		t.Helper()
		kit.Await(t, "a record", func() bool { return srv.Do(t, "EXISTS", "holdfast_leader:{"+election+"}") == int64(1) })
	}
	forgotten := func() {
		t.Helper()
		kit.Await(t, "no record", func() bool { return srv.Do(t, "EXISTS", "holdfast_leader:{"+election+"}") == int64(0) })
	}
	recorded()
	first.leave <- nil
	forgotten()

	srv.ResetStats(t)
	second := stand(t, s)
	second.leads(t)
	recorded()
	second.leave <- nil
	forgotten()
	require.Equal(t, int64(4), srv.CommandStats(t)["evalsha"]+srv.CommandStats(t)["eval"])
}

// An observer hears of each term, when it begins and when it is over, and nothing of the terms of others.
func TestTermsAreObserved(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	type begun struct {
		of     holdfast.Subject
		number int64
	}
	began, ended := make(chan begun, 10), make(chan holdfast.Ended, 10)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second, Observer: &holdfast.Observer{
		Term: func(_ context.Context, of holdfast.Subject, number int64) func(holdfast.Ended) {
			began <- begun{of, number}
			return func(e holdfast.Ended) { ended <- e }
		},
	}})
	c := stand(t, s)
	term := func() context.Context {
		ctx := c.leads(t)
		require.Equal(t, begun{holdfast.Subject{Kind: "leader", Name: election}, leader.Term(ctx)}, <-began)
		require.Empty(t, ended)
		return ctx
	}
	over := func() holdfast.Ended {
		e := kit.Within(t, 15*time.Second, ended, "the end of the term")
		require.Positive(t, e.Held)
		return e
	}
	require.NoError(t, leader.Resign(term()))
	require.NoError(t, over().Err)

	term()
	_, err := fairlock.New(kit.Open(t, srv.Addr(), nil), election, nil).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, over().Err, holdfast.ErrLost)

	term()
	c.leave <- errDone
	require.ErrorIs(t, kit.Within(t, 15*time.Second, c.ended, "the end of Run"), errDone)
	require.Empty(t, began)
	require.Len(t, ended, 1, "it is told before Run returns")
	require.NoError(t, (<-ended).Err)
}

// When Run returns, the observer has not only been called at the end of the term, but is done with it.
func TestTheEndOfATermIsToldBeforeRunReturns(t *testing.T) {
	t.Parallel()
	returned, late := make(chan struct{}), make(chan bool, 1)
	s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Observer: &holdfast.Observer{
		Term: func(context.Context, holdfast.Subject, int64) func(holdfast.Ended) {
			return func(holdfast.Ended) {
				select {
				case <-returned:
					late <- true
				case <-time.After(200 * time.Millisecond):
					late <- false
				}
			}
		},
	}})
	require.NoError(t, leader.Run(t.Context(), s, election, fine))
	close(returned)
	require.False(t, <-late)
}
