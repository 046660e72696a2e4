package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

const (
	stages      = "stages"
	stagesState = "holdfast_barrier:{" + stages + "}"
)

// partyLease is the lease of parties in processes of their own.
const partyLease = 3 * time.Second

var breaks = &barrier.Options{Breaks: true}

// join joins the barrier, and leaves at the end of the test.
func join(t *testing.T, s *holdfast.Session, parties int, opts *barrier.Options) *barrier.Party {
	t.Helper()
	p, err := barrier.New(s, stages, parties, opts).Join(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Release() })
	return p
}

// joinAll joins with a session for each party.
func joinAll(t *testing.T, addr string, parties int, opts *barrier.Options) (all []*barrier.Party) {
	t.Helper()
	for range parties {
		all = append(all, join(t, kit.Open(t, addr, nil), parties, opts))
	}
	return all
}

// passed is what Await has returned.
type passed struct {
	gen int64
	err error
}

func goAwait(ctx context.Context, p *barrier.Party) <-chan passed {
	c := make(chan passed, 1)
	go func() {
		gen, err := p.Await(ctx)
		c <- passed{gen, err}
	}()
	return c
}

// arrives begins to wait, and returns when the server knows that so many have arrived.
func arrives(t *testing.T, srv *redistest.Server, p *barrier.Party, arrived int) <-chan passed {
	t.Helper()
	c := goAwait(t.Context(), p)
	awaitArrived(t, srv, arrived)
	return c
}

// awaitArrived waits until the server knows that so many have arrived.
func awaitArrived(t *testing.T, srv *redistest.Server, arrived int) {
	t.Helper()
	kit.Await(t, fmt.Sprint(arrived, " have arrived"), func() bool {
		return srv.Do(t, "HGET", stagesState, "arrived") == strconv.Itoa(arrived)
	})
}

func requirePassed(t *testing.T, within time.Duration, gen int64, waiting ...<-chan passed) {
	t.Helper()
	for _, c := range waiting {
		got := kit.Within(t, within, c, fmt.Sprint("the end of generation ", gen))
		require.NoError(t, got.err)
		require.Equal(t, gen, got.gen)
	}
}

// allPass has all parties go through a generation.
func allPass(t *testing.T, gen int64, all []*barrier.Party) {
	t.Helper()
	var waiting []<-chan passed
	for _, p := range all {
		waiting = append(waiting, goAwait(t.Context(), p))
	}
	requirePassed(t, kit.LongestWait, gen, waiting...)
}

func requireBroken(t *testing.T, within time.Duration, waiting ...<-chan passed) {
	t.Helper()
	for _, c := range waiting {
		require.ErrorIs(t, kit.Within(t, within, c, "a broken generation").err, barrier.ErrBroken)
	}
}

// A passage is one party's way through a generation, by the shared clock.
type passage struct {
	Who, Life int // which process, and how often it has joined
	Gen       int64
	From, To  time.Duration // before it arrived, after it went on
	Broken    bool          // it did not
	Lost      bool          // nor this: its hold was
}

// A referee checks what parties say.
type referee struct {
	mu  sync.Mutex
	all []passage
	new chan passage
}

func newReferee() *referee { return &referee{new: make(chan passage, 100_000)} }

func (r *referee) add(said passage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, said)
	r.new <- said
}

// await waits for a passage.
func (r *referee) await(t *testing.T, what string, is func(passage) bool) passage {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		if said := kit.Within(t, time.Until(end), r.new, what); is(said) {
			return said
		}
	}
}

// seen waits until somebody has said something.
func (r *referee) seen(t *testing.T, what string, is func(passage) bool) {
	t.Helper()
	kit.AwaitFor(t, patience, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.all, is)
	})
}

// A life is that of a party, from when it has joined until it leaves or is lost.
type life struct{ who, life int }

// eras tells in which era each life was: generations are counted anew when all parties are gone, so that no life
// reaches into another era.
func (r *referee) eras() map[life]int {
	type span struct{ from, to time.Duration }
	spans := map[life]span{}
	for _, p := range r.all {
		if s, ok := spans[life{p.Who, p.Life}]; ok {
			spans[life{p.Who, p.Life}] = span{min(s.from, p.To), max(s.to, p.To)}
		} else if !p.Lost {
			spans[life{p.Who, p.Life}] = span{p.To, p.To}
		}
	}
	era, end, eras := 0, time.Duration(0), map[life]int{}
	lives := slices.SortedFunc(maps.Keys(spans), func(x, y life) int { return cmp.Compare(spans[x].from, spans[y].from) })
	for _, l := range lives {
		if spans[l].from > end {
			era++
		}
		eras[l], end = era, max(end, spans[l].to)
	}
	return eras
}

// check checks that nobody went on before all who went through that generation had arrived, and that nobody went
// through one twice, or left one out that was not broken.
func (r *referee) check(t *testing.T) (generations int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	type generation struct {
		era int
		gen int64
	}
	first, last := map[generation]passage{}, map[generation]passage{} // who went on first, and who arrived last
	latest, eras := map[life]passage{}, r.eras()
	for _, p := range r.all {
		if p.Lost {
			continue
		}
		l := life{p.Who, p.Life}
		before, knows := latest[l]
		latest[l] = p
		switch {
		case p.Broken:
			continue
		case knows && before.Broken:
			require.Greater(t, p.Gen, before.Gen, "%+v after %+v", p, before)
		case knows:
			require.Equal(t, before.Gen+1, p.Gen, "%+v after %+v", p, before)
		}
		g := generation{eras[l], p.Gen}
		if f, ok := first[g]; !ok || p.To < f.To {
			first[g] = p
		}
		if l, ok := last[g]; !ok || p.From > l.From {
			last[g] = p
		}
	}
	for g := range first {
		require.LessOrEqual(t, last[g].From, first[g].To, "%+v went on before %+v arrived", first[g], last[g])
	}
	return len(first)
}

// takePart goes through generations until ctx ends, and joins again when it has lost its place.
func takePart(ctx context.Context, b *barrier.Barrier, who int, say func(passage)) error {
	for life := 0; ; life++ {
		p, err := b.Join(ctx)
		for last := int64(0); err == nil; {
			said := passage{Who: who, Life: life, From: worker.Now()}
			said.Gen, err = p.Await(ctx)
			said.To, said.Broken, said.Lost = worker.Now(), errors.Is(err, barrier.ErrBroken), errors.Is(err, holdfast.ErrLost)
			switch {
			case said.Broken:
				said.Gen, err = last, nil // it says no more than that it was later
			case err == nil:
				last = said.Gen
			}
			if err == nil || said.Lost {
				say(said)
			}
		}
		if p != nil {
			_ = p.Release()
		}
		if !errors.Is(err, holdfast.ErrLost) {
			return err
		}
	}
}

// watch has parties take part, and goes by what they say; each then does what next does. The function that it returns
// ends that.
func (r *referee) watch(
	t *testing.T, parties int, open func(who int) *holdfast.Session, next func(ctx context.Context, said passage),
) (over func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for who := range parties {
		b := barrier.New(open(who), stages, parties, nil)
		all.Go(func() {
			assert.ErrorIs(t, takePart(ctx, b, who, func(said passage) {
				r.add(said)
				next(ctx, said)
			}), context.Canceled)
		})
	}
	return func() {
		stop()
		all.Wait()
	}
}

// awaits is a worker that takes part.
func awaits(args []string) {
	s := kit.OpenWorker(args[0], partyLease)
	who, err := strconv.Atoi(args[2])
	kit.Must(err)
	parties, err := strconv.Atoi(args[3])
	kit.Must(err)
	b := barrier.New(s, args[1], parties, &barrier.Options{Breaks: args[4] == "breaks"})
	kit.Must(takePart(context.Background(), b, who, func(said passage) {
		kit.Say(said)
		time.Sleep(rand.N(10 * time.Millisecond)) // the work
	}))
}

func TestGenerationsFollowEachOther(t *testing.T) {
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		const parties, generations = 4, 50
		r := newReferee()
		sessions := kit.OpenAll(t, []*redistest.Server{srv, srv, srv}, nil)
		over := r.watch(t, parties, func(who int) *holdfast.Session { return sessions[max(who-1, 0)] }, // two share one
			func(ctx context.Context, said passage) {
				if said.Gen == generations {
					<-ctx.Done()
				}
			})
		for range parties {
			r.await(t, "the last generation", func(p passage) bool { return p.Gen == generations })
		}
		over()
		require.Equal(t, generations, r.check(t))
		keys := srv.Keyspace(t)
		require.Equal(t, map[string]redistest.Value{stages: {Type: "string", Content: "4"}}, keys)
	})
}

func TestAPartyThatLeaves(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*barrier.Options{"counts out": nil, "breaks": breaks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			all := joinAll(t, srv.Addr(), 3, opts)
			a, b := arrives(t, srv, all[0], 1), arrives(t, srv, all[1], 2)
			require.NoError(t, all[2].Release())
			_, err := all[2].Await(t.Context())
			require.ErrorIs(t, err, holdfast.ErrNotHeld)
			require.NotErrorIs(t, err, context.Canceled, "it is no ctx of the caller's that has ended")
			if opts == nil {
				requirePassed(t, kit.Told, 1, a, b)
				late := join(t, kit.Open(t, srv.Addr(), nil), 3, nil)
				a, b, c := arrives(t, srv, all[0], 1), arrives(t, srv, all[1], 2), goAwait(t.Context(), late)
				requirePassed(t, kit.Told, 2, a, b, c)
				arrives(t, srv, all[0], 1)
				b = arrives(t, srv, all[1], 2)
				require.NoError(t, all[0].Release()) // which had arrived: the last one is waited for
				require.Equal(t, "3", srv.Do(t, "HGET", stagesState, "gen"))
				requirePassed(t, kit.Told, 3, goAwait(t.Context(), late), b)
				return
			}
			requireBroken(t, kit.Told, a, b)
			a, b = arrives(t, srv, all[0], 1), arrives(t, srv, all[1], 2)
			late := join(t, kit.Open(t, srv.Addr(), nil), 3, opts)
			requirePassed(t, kit.Told, 2, a, b, goAwait(t.Context(), late))
			require.NoError(t, all[0].Hold.Release())                 // nobody is told
			another := join(t, kit.Open(t, srv.Addr(), nil), 3, opts) // before anybody looks
			requireBroken(t, kit.Told, goAwait(t.Context(), all[1]), goAwait(t.Context(), late))
			requirePassed(t, kit.Told, 4, goAwait(t.Context(), all[1]), goAwait(t.Context(), late),
				goAwait(t.Context(), another))
		})
	}
}

// A party hears of broken generations once, however many there were since it arrived.
func TestBrokenGenerationsAreToldOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := joinAll(t, srv.Addr(), 2, breaks)
	ctx, cancel := context.WithCancel(t.Context())
	first := goAwait(ctx, all[0])
	awaitArrived(t, srv, 1)
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.Told, first, "the end of ctx").err, context.Canceled)
	require.NoError(t, all[1].Release())
	require.NoError(t, join(t, kit.Open(t, srv.Addr(), nil), 2, breaks).Release())
	late := join(t, kit.Open(t, srv.Addr(), nil), 2, breaks)
	requireBroken(t, kit.Told, goAwait(t.Context(), all[0]))
	requirePassed(t, kit.LongestWait, 3, goAwait(t.Context(), all[0]), goAwait(t.Context(), late))
}

// Whoever is there when a session is closed, or everything is deleted, is told so.
func TestBarriersThatEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	all := []*barrier.Party{join(t, s, 3, nil), join(t, kit.Open(t, srv.Addr(), nil), 3, nil)}
	third := kit.Open(t, srv.Addr(), nil)
	join(t, third, 3, nil)
	a, b := arrives(t, srv, all[0], 1), arrives(t, srv, all[1], 2)
	require.NoError(t, third.Close())
	requirePassed(t, kit.LongestWait, 1, a, b)

	a, b = arrives(t, srv, all[0], 1), goAwait(t.Context(), join(t, s, 3, nil))
	gone, err := barrier.New(kit.Open(t, srv.Addr(), nil), stages, 3, nil).Delete(t.Context())
	require.NoError(t, err)
	require.True(t, gone)
	for _, c := range []<-chan passed{a, b} {
		require.ErrorIs(t, kit.Within(t, kit.Told, c, "a loss").err, holdfast.ErrLost)
	}
	require.ErrorIs(t, all[0].Err(), holdfast.ErrLost)
	require.Empty(t, srv.Keyspace(t))

	p := join(t, s, 2, nil) // of another number
	a = arrives(t, srv, p, 1)
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.Within(t, kit.Told, a, "the end of the session").err, holdfast.ErrClosed)
	_, err = p.Await(t.Context())
	require.ErrorIs(t, err, holdfast.ErrClosed)
}

// A party whose ctx ends has arrived, and its next call waits for the same generation.
func TestAWaitIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := joinAll(t, srv.Addr(), 2, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	first := goAwait(ctx, all[0])
	awaitArrived(t, srv, 1)
	cancel(errDone)
	got := kit.Within(t, kit.Told, first, "the end of ctx")
	require.ErrorIs(t, got.err, errDone)
	require.ErrorIs(t, got.err, context.Canceled)
	require.NotErrorIs(t, got.err, holdfast.ErrUnknown)
	requirePassed(t, kit.Told, 1, goAwait(t.Context(), all[1]))
	both := one(goAwait(t.Context(), all[0]), goAwait(t.Context(), all[0])) // in whichever order
	requirePassed(t, kit.Told, 1, both)
	got = kit.Within(t, kit.LongestWait, one(both, goAwait(t.Context(), all[1])), "the same generation, or the next one")
	require.NoError(t, got.err)
}

// A wait that has ended, because all have arrived or its ctx has ended, is over for the observer as well, and leaves no
// subscription.
func TestAWaitAtABarrierLeavesNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var waits atomic.Int64
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
		Wait: func(holdfast.Subject) func() {
			waits.Add(1)
			return func() { waits.Add(-1) }
		},
	}})
	p, other := join(t, s, 2, nil), join(t, kit.Open(t, srv.Addr(), nil), 2, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := goAwait(ctx, p)
	kit.Await(t, "a wait", func() bool { return waits.Load() == 1 })
	requirePassed(t, kit.LongestWait, 1, goAwait(t.Context(), other), first)
	require.Zero(t, waits.Load())
	second := goAwait(ctx, p)
	kit.Await(t, "another wait", func() bool { return waits.Load() == 1 })
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.Told, second, "the end of ctx").err, context.Canceled)
	require.Zero(t, waits.Load())
	kit.Await(t, "the end of the subscriptions", func() bool {
		return srv.Do(t, "PUBSUB", "NUMSUB", stagesState).([]any)[1] == int64(0)
	})
}

// Of two calls at the same time, the one that reaches the server after the other one's generation, and the next one,
// are over is told what the other one was. It does not arrive at a later one.
func TestALateCallArrivesAtNoLaterGeneration(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*barrier.Options{"counts out": nil, "breaks": breaks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			type late struct{}
			held, sent := make(chan struct{}), make(chan struct{})
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
				Acquire: func(ctx context.Context, _ holdfast.Subject) func(holdfast.Acquired) {
					if ctx.Value(late{}) != nil {
						close(held)
						<-sent
					}
					return nil
				},
			}})
			p, other := join(t, s, 2, opts), join(t, kit.Open(t, srv.Addr(), nil), 2, opts)
			call := goAwait(context.WithValue(t.Context(), late{}, true), p)
			kit.Within(t, kit.LongestWait, held, "the late call")
			if opts == nil {
				requirePassed(t, kit.LongestWait, 1, goAwait(t.Context(), p), goAwait(t.Context(), other))
			} else {
				first := arrives(t, srv, p, 1)
				require.NoError(t, other.Release())
				requireBroken(t, kit.LongestWait, first)
				other = join(t, kit.Open(t, srv.Addr(), nil), 2, opts)
			}
			requirePassed(t, kit.LongestWait, 2, goAwait(t.Context(), p), goAwait(t.Context(), other))
			if opts != nil {
				third := arrives(t, srv, p, 1)
				require.NoError(t, other.Release())
				requireBroken(t, kit.LongestWait, third)
			}
			close(sent)
			if opts == nil {
				requirePassed(t, kit.LongestWait, 1, call)
			} else {
				requireBroken(t, kit.LongestWait, call)
			}
			require.Equal(t, "0", srv.Do(t, "HGET", stagesState, "arrived"))
		})
	}
}

// A late copy of an acquisition brings a party back that has left, and a late copy of its arrival could be executed
// then. So it does not arrive before no copy of the acquisition can be executed any more.
func TestAPartyDoesNotArriveWhileItsAcquisitionMayComeAgain(t *testing.T) {
	t.Parallel()
	_, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 9 * time.Second})
	require.NoError(t, join(t, s, 2, nil).Release()) // the session knows the server's clock
	proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "acquire"), proxy.DropReply, proxy.First)
	began := time.Now()
	join(t, s, 2, nil)
	require.Greater(t, time.Since(began), 2900*time.Millisecond)
}

// A party whose ctx ends with the loss of another hold, while its call is under way, keeps its place.
func TestALostHoldAroundAPartyIsNotItsOwn(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	all := []*barrier.Party{join(t, s, 2, nil), join(t, kit.Open(t, srv.Addr(), nil), 2, nil)}
	held := p.On(kit.ScriptNamed("barrier_arrive"), proxy.HoldReply, proxy.First)
	ctx, cancel := context.WithCancelCause(t.Context())
	first := goAwait(ctx, all[0])
	held.Wait(t, 1)
	cancel(holdfast.ErrLost)
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, first, "the end of ctx").err, context.Canceled)
	held.Remove()
	require.NoError(t, all[0].Err())
	requirePassed(t, kit.LongestWait, 1, goAwait(t.Context(), all[0]), goAwait(t.Context(), all[1]))
}

// one returns what comes first.
func one(a, b <-chan passed) <-chan passed {
	c := make(chan passed, 2)
	for _, from := range []<-chan passed{a, b} {
		go func() { c <- <-from }()
	}
	return c
}

// Whoever joins while the server has forgotten the barrier alone takes no earlier generation for its own.
func TestANewPartyGoesOnWithTheOthersAlthoughTheBarrierWasForgotten(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]proxy.Action{
		"": proxy.Pass, "and its first attempt was refused": proxy.Answer(kit.LoadingReply),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			all := joinAll(t, srv.Addr(), 3, nil)
			allPass(t, 1, all)
			require.NoError(t, all[2].Release())
			srv.Do(t, "DEL", stagesState)
			p := proxy.Start(t, srv.Addr())
			late := join(t, kit.Open(t, p.Addr(), nil), 3, nil)
			other := arrives(t, srv, all[0], 1)
			attempt := p.On(kit.ScriptNamed("barrier_arrive"), first, proxy.First)
			second := goAwait(t.Context(), late)
			attempt.Wait(t, 1)
			kit.Await(t, "the new party's arrival, or its end", func() bool {
				return len(second) > 0 || srv.Do(t, "HGET", stagesState, "arrived") == "2"
			})
			require.Empty(t, second, "it went on although another party has not arrived")
			requirePassed(t, kit.LongestWait, 2, goAwait(t.Context(), all[1]), other, second)
		})
	}
}

// A party leaves while the server has forgotten the barrier alone: the generation is broken, and the others go on
// together with a new one, whether that joins before they have looked, or before they have arrived again.
func TestAPartyLeavesABarrierThatWasForgotten(t *testing.T) {
	t.Parallel()
	for name, looksFirst := range map[string]bool{"the others look first": true, "another one joins first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			all := joinAll(t, srv.Addr(), 3, breaks)
			for gen := range int64(2) {
				allPass(t, gen+1, all)
			}
			first, second := arrives(t, srv, all[0], 1), arrives(t, srv, all[1], 2)
			srv.Do(t, "DEL", stagesState)
			require.NoError(t, all[2].Release())
			if looksFirst {
				requireBroken(t, kit.LongestWait, first, second)
			}
			late := join(t, kit.Open(t, srv.Addr(), nil), 3, breaks)
			third := goAwait(t.Context(), late)
			if !looksFirst {
				requireBroken(t, kit.LongestWait, first, second)
			}
			requirePassed(t, kit.LongestWait, 4, third, goAwait(t.Context(), all[0]), goAwait(t.Context(), all[1]))
		})
	}
}

// A party leaves in the first generation, when all have joined, and the server has forgotten the barrier alone. The
// others have seen that all places were taken, and go on.
func TestAPartyLeavesABarrierThatWasForgottenInItsFirstGeneration(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := joinAll(t, srv.Addr(), 3, nil)
	first, second := arrives(t, srv, all[0], 1), arrives(t, srv, all[1], 2)
	srv.Do(t, "DEL", stagesState)
	require.NoError(t, all[2].Release())
	requirePassed(t, kit.LongestWait, 1, first, second)
}

// A party that has arrived leaves no generation out, although the server has forgotten its arrival when it hears that
// the others have gone on.
func TestAGenerationThatTheServerHasForgottenCounts(t *testing.T) {
	t.Parallel()
	for name, arrival := range map[string]proxy.Action{"": proxy.Pass, "and the reply was lost": proxy.DropReply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			slow, other := join(t, kit.Open(t, p.Addr(), nil), 2, nil), join(t, kit.Open(t, srv.Addr(), nil), 2, nil)
			p.On(kit.ScriptNamed("barrier_arrive"), arrival, proxy.First)
			look := p.On(kit.ScriptNamed("barrier_arrive"), proxy.Stall, proxy.Second)
			first := arrives(t, srv, slow, 1)
			requirePassed(t, kit.LongestWait, 1, goAwait(t.Context(), other))
			look.Wait(t, 1)
			ctx, cancel := context.WithCancel(t.Context())
			second := goAwait(ctx, other)
			awaitArrived(t, srv, 1)
			srv.Do(t, "DEL", stagesState)
			cancel()
			require.ErrorIs(t, kit.Within(t, kit.Told, second, "the end of ctx").err, context.Canceled)
			second = arrives(t, srv, other, 1) // and says how far the barrier is
			look.Release()
			requirePassed(t, kit.LongestWait, 1, first)
			requirePassed(t, kit.LongestWait, 2, goAwait(t.Context(), slow), second)
		})
	}
}

// The server has lost the number of free places, as by an eviction: the parties go on, and others join.
func TestPlacesOfWhichTheNumberIsLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := joinAll(t, srv.Addr(), 3, nil)
	allPass(t, 1, all)
	require.NoError(t, all[2].Release())
	srv.Do(t, "DEL", stages)
	requirePassed(t, kit.LongestWait, 2, goAwait(t.Context(), all[0]), goAwait(t.Context(), all[1]))
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	p, err := barrier.New(kit.Open(t, srv.Addr(), nil), stages, 3, nil).Join(ctx)
	require.NoError(t, err)
	require.NoError(t, p.Release())
}

// A party that leaves when the number of free places is lost makes a new one, which is too low. The others go on.
func TestAPartyLeavesWhenTheNumberOfPlacesIsLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := joinAll(t, srv.Addr(), 3, nil)
	allPass(t, 1, all)
	require.NoError(t, all[2].Release())
	a := arrives(t, srv, all[0], 1)
	srv.Do(t, "DEL", stages)
	require.NoError(t, all[1].Release())
	requirePassed(t, kit.LongestWait, 2, a)
	require.Equal(t, "2", srv.Do(t, "GET", stages))
	for i := range 2 {
		all[1+i] = join(t, kit.Open(t, srv.Addr(), nil), 3, nil)
	}
	allPass(t, 3, all)
}

// Whoever comes too many waits until a place is free.
func TestJoinWaitsForAPlace(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	all := joinAll(t, srv.Addr(), 2, nil)
	s := kit.Open(t, srv.Addr(), nil)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := barrier.New(s, stages, 2, nil).Join(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	joined := make(chan *barrier.Party, 1)
	go func() {
		p, _ := barrier.New(s, stages, 2, nil).Join(t.Context())
		joined <- p
	}()
	kit.Await(t, "a place in the line", func() bool { return srv.Int(t, "LLEN", "holdfast_line:{"+stages+"}") == 1 })
	require.NoError(t, all[0].Release())
	late := kit.Within(t, kit.Told, joined, "a place")
	requirePassed(t, kit.Told, 1, goAwait(t.Context(), all[1]), goAwait(t.Context(), late))
	require.NoError(t, late.Release())
	require.NoError(t, all[1].Release())
	require.Equal(t, map[string]redistest.Value{stages: {Type: "string", Content: "2"}}, srv.Keyspace(t))

	for range 2 { // they begin anew, also where nobody has told the server that all have left
		again := joinAll(t, srv.Addr(), 2, nil)
		a := arrives(t, srv, again[0], 1)
		requirePassed(t, kit.Told, 1, goAwait(t.Context(), again[1]), a)
		require.NoError(t, again[0].Hold.Release())
		require.NoError(t, again[1].Hold.Release())
		require.EqualValues(t, 1, srv.Int(t, "EXISTS", stagesState))
	}
}

// Whoever has taken a place, and gets no party because an observer panics or ends the goroutine, gives it back.
func TestAPlaceGoesBackIfJoinDoesNotReturn(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"panics": func() { panic("mine") }, "ends the goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
				Attempt: func(of holdfast.Subject, _ holdfast.Attempt) {
					if of.Kind == "barrier" {
						end()
					}
				},
			}})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }() // as net/http does
				_, _ = barrier.New(s, stages, 2, nil).Join(t.Context())
			}()
			kit.Within(t, kit.LongestWait, ended, "the end of the call")
			require.Equal(t, map[string]redistest.Value{stages: {Type: "string", Content: "2"}}, srv.Keyspace(t))
		})
	}
}

// Whoever waits for a place gets one although the server has forgotten the barrier.
func TestJoinOutlivesABarrier(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	join(t, kit.Open(t, srv.Addr(), nil), 1, nil)
	s := kit.Open(t, srv.Addr(), nil)
	joined := make(chan error, 1)
	go func() { joined <- kit.ErrorOf(barrier.New(s, stages, 1, nil).Join(t.Context())) }()
	kit.Await(t, "a place in the line", func() bool { return srv.Int(t, "LLEN", "holdfast_line:{"+stages+"}") == 1 })
	srv.Do(t, "FLUSHALL")
	require.NoError(t, kit.Within(t, patience, joined, "a place"))
}

// An outage is waited out, from the first call on.
func TestJoinWaitsOutAnOutage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	require.NoError(t, kit.ErrorOf(barrier.New(s, stages, 1, nil).Delete(t.Context()))) // it is connected
	p.RefuseNew(true)
	p.CutAll()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, kit.ErrorOf(barrier.New(s, stages, 1, nil).Join(short)), context.DeadlineExceeded)
	joined := make(chan error, 1)
	go func() { joined <- kit.ErrorOf(barrier.New(s, stages, 1, nil).Join(t.Context())) }()
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond))
	p.RefuseNew(false)
	require.NoError(t, kit.Within(t, kit.LongestWait, joined, "a place"))
}

// A call for another number of parties fails also while all places are taken: it does not wait for one without end.
func TestJoinForAnotherNumberWhileAllPlacesAreTaken(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	join(t, s, 1, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := barrier.New(s, stages, 2, nil).Join(ctx)
	require.EqualError(t, err, `barrier "stages": join: parties are 2, must be 1, with which the barrier was made`)
}

func TestMistakesOfBarriers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	for parties, text := range map[int]string{
		0:      `barrier "stages": join: parties are 0, must be from 1 to 10000`,
		10_001: `barrier "stages": join: parties are 10001, must be from 1 to 10000`,
	} {
		_, err := barrier.New(s, stages, parties, nil).Join(t.Context())
		require.EqualError(t, err, text)
	}
	_, err := barrier.New(s, "", 2, nil).Join(t.Context())
	require.EqualError(t, err, `barrier "": join: name is empty`)
	_, err = barrier.New(s, "", 2, nil).Delete(t.Context())
	require.EqualError(t, err, `barrier "": delete: name is empty`)
	require.Empty(t, srv.Keyspace(t))

	p := join(t, s, 3, nil)
	_, err = barrier.New(s, stages, 4, nil).Join(t.Context())
	require.EqualError(t, err, `barrier "stages": join: parties are 4, must be 3, with which the barrier was made`)
	require.EqualValues(t, 1, srv.Int(t, "ZCARD", "{"+stages+"}:timeout"), "it has given its place back")
	srv.Do(t, "SET", stages, "5") // by hand, while it waits
	_, err = p.Await(t.Context())
	require.EqualError(t, err, `barrier "stages": await: parties are 3, must be 6, with which the barrier was made`)

	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "lock", nil)).Err())
	_, err = barrier.New(s, "lock", 2, nil).Join(t.Context())
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
	srv.Do(t, "SET", "holdfast_barrier:{other}", "something else")
	_, err = barrier.New(s, "other", 2, nil).Join(t.Context())
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Zero(t, srv.Int(t, "ZCARD", "{other}:timeout"))
}

// A permit that is no party is waited for like one, and a party's permit can be given back by its id.
func TestPartiesArePermits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	all := joinAll(t, srv.Addr(), 2, nil)
	permits := semaphore.NewExpirable(s, stages, nil)
	n, err := permits.AcquiredPermits(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	a := arrives(t, srv, all[0], 1)
	require.NoError(t, permits.Release(t.Context(), all[1].ID()))
	requirePassed(t, kit.LongestWait, 1, a)
	_, err = all[1].Await(t.Context())
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.ErrorIs(t, all[1].Err(), holdfast.ErrLost, "it knows from now on")
	require.ErrorIs(t, all[1].Release(), holdfast.ErrLost)
}

// A process that dies, stops or is cut off counts out, or breaks the generation, within its lease and a second: the
// best of three.
func TestAPartyThatIsGone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"counts out", "breaks"} {
		for _, fate := range fates {
			t.Run(mode+", "+fate.name, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				best := time.Hour
				for try := range 3 {
					r := newReferee()
					name := fmt.Sprint("stages ", try)
					const parties = 3
					var all []*worker.Worker
					var p *proxy.Proxy
					for who := range parties {
						p = proxy.Start(t, srv.Addr()) // the last one's
						all = append(all, worker.Start(t, worker.Hear(t, r.add), "awaits", p.Addr(), name, strconv.Itoa(who),
							strconv.Itoa(parties), mode))
					}
					r.await(t, "a generation", func(said passage) bool { return said.Gen > 3 })
					at, still := worker.Now(), kit.Stillness()
					undo := fate.strike(all[parties-1], p)
					// It may have arrived at one more generation.
					goesOn := r.await(t, "the others", func(said passage) bool {
						late := said.To-said.From > partyLease/2
						return said.Who != parties-1 && said.To > at && (said.Broken || said.Lost || mode != "breaks" && late)
					})
					if goesOn.Lost { // it stood still as well, for as long
						require.Greater(t, still(), partyLease/2)
					} else {
						require.Equal(t, mode == "breaks", goesOn.Broken)
						best = min(best, goesOn.To-at)
					}
					if undo != nil { // it learns that it has lost its place, and joins again
						awaitLost(t, srv, name, parties-1) // the others may have stood still rather than waited
						undo()
						r.seen(t, "its loss", func(said passage) bool {
							return said.Who == parties-1 && said.Lost && said.To > at
						})
						r.seen(t, "its return", func(said passage) bool {
							return said.Who == parties-1 && said.Gen > 0 && said.Life > 0 && said.To > at
						})
					}
					for _, w := range all {
						w.Kill()
					}
					r.check(t)
				}
				require.Less(t, best, partyLease+time.Second)
			})
		}
	}
}

// awaitLost waits until no more than so many parties have their places.
func awaitLost(t *testing.T, srv *redistest.Server, name string, parties int64) {
	t.Helper()
	kit.Await(t, "the end of a lease", func() bool {
		return srv.Int(t, "EVAL", `local t = redis.call('TIME')
			return redis.call('ZCOUNT', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000) + 1, '+inf')`,
			"1", "{"+name+"}:timeout") <= parties
	})
}

// Parties of several barriers are killed, stopped and cut off at any time, while replies are lost. Nobody goes on too
// early, nobody waits for ever.
func TestNobodyGoesOnTooEarly(t *testing.T) {
	t.Parallel()
	const barriers, victims, parties = 4, 4, 4
	srv := redistest.Start(t)
	kit.InParallel(t, barriers, kit.UpTo(barriers), func(i int) string { return fmt.Sprintf("barrier %d", i) },
		func(t *testing.T, i int) {
			r := newReferee()
			type member struct {
				*worker.Worker
				proxy *proxy.Proxy
			}
			members, next := map[int]member{}, 0
			mode := []string{"counts out", "breaks"}[i%2]
			enter := func() {
				p := proxy.Start(t, srv.Addr())
				members[next] = member{worker.Start(t, worker.Hear(t, r.add), "awaits", p.Addr(), fmt.Sprintf("barrier %d", i),
					strconv.Itoa(next), strconv.Itoa(parties), mode), p}
				next++
			}
			for range parties {
				enter()
			}
			for n := range victims {
				r.await(t, "a generation", func(said passage) bool { return said.Gen > 0 && !said.Broken && !said.Lost })
				kit.SleepUntil(time.Now().Add(rand.N(partyLease / 2))) // in any phase of its renewals
				fate := fates[(n+i)%len(fates)]
				for who, victim := range members {
					victim.proxy.On(kit.ScriptNamed("barrier_arrive"), proxy.DropReply, proxy.First)
					undo := fate.strike(victim.Worker, victim.proxy)
					at := worker.Now()
					if undo == nil {
						delete(members, who)
						enter()
					}
					if undo != nil && mode == "breaks" { // the others may wait for this one already
						kit.SleepUntil(time.Now().Add(partyLease))
						undo()
						break
					}
					r.await(t, "the others, after one was "+fate.name, func(said passage) bool {
						return said.Who != who && !said.Broken && !said.Lost && said.From > at
					})
					if undo != nil {
						undo()
					}
					break
				}
			}
			for _, m := range members {
				m.Kill()
			}
			t.Logf("%d generations", r.check(t))
		})
}

// Replies to arrivals are lost all the time.
func TestLostRepliesLetNobodyThrough(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	const parties, generations = 3, 30
	r := newReferee()
	over := r.watch(t, parties, func(int) *holdfast.Session { return kit.Open(t, p.Addr(), nil) },
		func(context.Context, passage) {})
	lost := 0
	for last := int64(0); last < generations; {
		rule := p.On(kit.ScriptNamed("barrier_arrive"), proxy.DropReply, proxy.Second)
		last = max(last, r.await(t, "a generation", func(said passage) bool { return said.Gen > last }).Gen)
		rule.Remove()
		lost += rule.Count()
	}
	over()
	require.GreaterOrEqual(t, r.check(t), generations)
	require.Positive(t, lost)
}

// A replica takes over that has everything, or nothing of the last moments or at all. Nobody waits for ever, and nobody
// goes through a generation twice, or too early.
func TestGenerationsUnderSentinelFailover(t *testing.T) {
	t.Parallel()
	for _, forgets := range []string{"nothing", "how far it is", "everything"} {
		t.Run("forgets "+forgets, func(t *testing.T) {
			t.Parallel()
			set := redistest.StartSentinels(t)
			open := func(int) *holdfast.Session {
				// The sentinels need 2 s to take a master for dead.
				return kit.OpenWith(t, kit.BySentinel(set), &holdfast.Options{Lease: 20 * time.Second})
			}
			const parties = 3
			r := newReferee()
			held := make(chan struct{}) // until the failover one of them does not arrive
			over := r.watch(t, parties, open, func(ctx context.Context, said passage) {
				if said.Who == 0 && said.Gen >= 10 {
					select {
					case <-held:
					case <-ctx.Done():
					}
				}
			})
			for range parties {
				r.await(t, "generation 10", func(said passage) bool { return said.Gen == 10 })
			}
			awaitArrived(t, set.Master(), 2)
			set.Master().AwaitReplica(t)
			switch forgets {
			case "how far it is":
				set.Replica().Forget(t, stagesState)
			case "everything":
				set.Replica().Forget(t)
			}
			set.Failover(t)
			close(held)
			if forgets != "everything" {
				for range parties {
					r.await(t, "the generation that was waited for", func(said passage) bool { return said.Gen == 11 })
				}
			}
			for range parties {
				r.await(t, "more generations", func(said passage) bool { return said.Gen == 20 || said.Life > 0 })
			}
			over()
			if forgets != "everything" { // else they are counted anew
				require.Greater(t, r.check(t), 11)
			}
		})
	}
}

// The server forgets the last moments again and again, as replicas do that take over: nobody goes on too early, and
// nobody waits for longer than it takes to look.
func TestAServerThatForgetsTheLastMoments(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newReferee()
	over := r.watch(t, 3, func(int) *holdfast.Session { return kit.Open(t, srv.Addr(), nil) },
		func(context.Context, passage) { time.Sleep(rand.N(2 * time.Millisecond)) })
	after := func(gen int64) int64 {
		return r.await(t, "a generation", func(said passage) bool { return said.Gen > gen }).Gen
	}
	for last, n := after(5), 0; n < 5; n++ {
		var state []any
		if n > 0 {
			state = srv.Do(t, "HGETALL", stagesState).([]any)
		}
		kit.SleepUntil(time.Now().Add(rand.N(8 * time.Millisecond)))
		command := []string{
			"EVAL", "redis.call('DEL', KEYS[1]) if #ARGV > 0 then redis.call('HSET', KEYS[1], unpack(ARGV)) end",
			"1", stagesState,
		}
		for _, word := range state {
			command = append(command, word.(string))
		}
		srv.Do(t, command...)
		last = after(last + 2)
	}
	over()
	require.Greater(t, r.check(t), 8)
}

// A generation costs a call of each party to arrive, and one of each but the last to go on.
func TestCostsOfAGeneration(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const parties = 3
	all := joinAll(t, srv.Addr(), parties, nil)
	fewest := int64(1000)
	for gen := range int64(5) {
		srv.ResetStats(t)
		messages := srv.Messages(t, stagesState)
		var waiting []<-chan passed
		for i, p := range all[1:] {
			waiting = append(waiting, arrives(t, srv, p, i+1))
		}
		waiting = append(waiting, goAwait(t.Context(), all[0]))
		requirePassed(t, kit.LongestWait, gen+1, waiting...)
		require.Len(t, messages.Drain(t), 1)
		stats := srv.CommandStats(t)
		fewest = min(fewest, stats["evalsha"]+stats["eval"])
	}
	require.EqualValues(t, 2*parties-1, fewest)
}
