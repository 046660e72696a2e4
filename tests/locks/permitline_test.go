package locks

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A permitLine is a semaphore, of either kind, for whose permits sessions wait in a line on the server.
type permitLine struct {
	*testing.T
	srv    *redistest.Server
	name   string
	leased bool
}

// A taker takes n permits, and returns what gives them back.
type taker func(ctx context.Context, n int) (give func() error, err error)

// takerOf is a session's.
func takerOf(s *holdfast.Session, name string, leased bool) taker {
	p, e := semaphore.New(s, name), semaphore.NewExpirable(s, name, nil)
	return func(ctx context.Context, n int) (func() error, error) {
		if !leased {
			return func() error { return p.Release(context.WithoutCancel(ctx), n) }, p.Acquire(ctx, n)
		}
		holds, err := e.AcquireN(ctx, n)
		return func() error { return e.Release(context.Background(), kit.HoldIDs(holds...)...) }, err
	}
}

// eachPermitLine runs a test with a line of each kind, of a semaphore with n permits, all of which the test has.
func eachPermitLine(t *testing.T, n int, test func(q *permitLine, all []func() error)) {
	t.Parallel()
	for kind, leased := range map[string]bool{"counting": false, "leased": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			kit.LoadScripts(t, srv)
			q := &permitLine{t, srv, "orders", leased}
			s := q.comes()
			_, err := semaphore.New(s, q.name).TrySetPermits(t.Context(), n)
			require.NoError(t, err)
			var all []func() error
			for range n {
				give, err := takerOf(s, q.name, leased)(t.Context(), 1)
				require.NoError(t, err)
				all = append(all, give)
			}
			test(q, all)
		})
	}
}

// comes is one more session.
func (q *permitLine) comes() *holdfast.Session {
	q.Helper()
	return kit.Open(q, q.srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
}

func (q *permitLine) length() int { return int(q.srv.Int(q, "LLEN", lineKey)) }

// permitsTaken is how a call ended that wants permits.
type permitsTaken struct {
	give func() error
	err  error
}

// waits has a session wait for n permits, and returns when it is the last one in the line.
func (q *permitLine) waits(ctx context.Context, s *holdfast.Session, n int) <-chan permitsTaken {
	q.Helper()
	before := q.length()
	got := q.asks(ctx, s, n)
	kit.Await(q, "one more in the line", func() bool { return q.length() == before+1 })
	return got
}

func (q *permitLine) asks(ctx context.Context, s *holdfast.Session, n int) <-chan permitsTaken {
	got := make(chan permitsTaken, 1)
	go func() {
		give, err := takerOf(s, q.name, q.leased)(ctx, n)
		got <- permitsTaken{give, err}
	}()
	return got
}

// behind has a call of a session wait for n permits in the line, and another one for next behind it. The first one ends
// with giveUp.
func (q *permitLine) behind(n, next int) (giveUp func(), second <-chan permitsTaken) {
	q.Helper()
	s := q.comes()
	ctx, cancel := context.WithCancel(q.Context())
	first := q.waits(ctx, s, n)
	second = q.asks(q.Context(), s, next)
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // it waits behind it
	return func() {
		q.Helper()
		cancel()
		require.Error(q, kit.Within(q, kit.LongestWait, first, "the one that gives up").err)
	}, second
}

// granted requires that a call gets its permits within d.
func (q *permitLine) granted(d time.Duration, got <-chan permitsTaken, what string) (give func() error) {
	q.Helper()
	taken := kit.Within(q, d, got, what)
	require.NoError(q, taken.err, what)
	return taken.give
}

// gone awaits that nobody stands in the line any more.
func (q *permitLine) gone() {
	q.Helper()
	kit.Await(q, "an empty line", func() bool {
		return q.length() == 0 && q.srv.Int(q, "ZCARD", aliveKey) == 0
	})
}

// Permits are served in the order of asking, and cost three calls each: to stand, to take, to give back.
func TestPermitsAreServedInTheOrderOfAsking(t *testing.T) {
	const sessions = 8
	eachPermitLine(t, 1, func(q *permitLine, all []func() error) {
		var waiting []<-chan permitsTaken
		began := time.Now()
		for range sessions {
			waiting = append(waiting, q.waits(q.Context(), q.comes(), 1))
		}
		kit.SleepUntil(time.Now().Add(300 * time.Millisecond)) // looks that came with the subscriptions are over
		q.srv.ResetStats(q)
		give := all[0]
		for i, got := range waiting {
			require.NoError(q, give())
			give = q.granted(kit.LongestWait, got, strconv.Itoa(i))
			for _, later := range waiting[i+1:] {
				require.Empty(q, later)
			}
		}
		require.NoError(q, give())
		q.gone()
		calls := q.srv.CommandStats(q)["evalsha"]
		signs := 2 + sessions*int64(time.Since(began)/(4*time.Second)) // of life
		require.LessOrEqual(q, calls, 2*sessions+1+signs)
	})
}

// Whoever wants many is not passed by those behind who want few; and all have theirs as soon as there is room.
func TestPermitsForManyAndFewAreServedInOrder(t *testing.T) {
	eachPermitLine(t, 4, func(q *permitLine, all []func() error) {
		three, one := q.waits(q.Context(), q.comes(), 3), q.waits(q.Context(), q.comes(), 1)
		two := q.waits(q.Context(), q.comes(), 2)
		require.NoError(q, all[0]())
		require.NoError(q, all[1]())
		fourth := q.waits(q.Context(), q.comes(), 1) // does not pass, either
		kit.SleepUntil(time.Now().Add(200 * time.Millisecond))
		require.Empty(q, one)
		require.Empty(q, fourth)
		require.NoError(q, all[2]())
		give := q.granted(kit.LongestWait, three, "three")
		require.NoError(q, all[3]())
		give1 := q.granted(kit.LongestWait, one, "one")
		require.Empty(q, two)
		require.NoError(q, give())
		give = q.granted(kit.LongestWait, two, "two")
		give2 := q.granted(kit.LongestWait, fourth, "the fourth")
		require.NoError(q, give())
		require.NoError(q, give1())
		require.NoError(q, give2())
		q.gone()
	})
}

// Whoever gives up makes room for those behind, at once.
func TestAPlaceAmongThoseWhoWaitForPermitsIsGivenUp(t *testing.T) {
	eachPermitLine(t, 2, func(q *permitLine, all []func() error) {
		ctx, cancel := context.WithCancel(q.Context())
		many, few := q.waits(ctx, q.comes(), 2), q.waits(q.Context(), q.comes(), 1)
		require.NoError(q, all[0]())
		kit.SleepUntil(time.Now().Add(100 * time.Millisecond))
		require.Empty(q, few)
		cancel()
		require.ErrorIs(q, kit.Within(q, kit.LongestWait, many, "the one that gives up").err, context.Canceled)
		require.NoError(q, q.granted(kit.Told, few, "the one behind")())
		require.NoError(q, all[1]())
		q.gone()
	})
}

// So is a place that a call takes when its caller has given up already: by an attempt whose reply comes later, or that
// is executed later.
func TestAPlaceThatIsTakenTooLateIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]proxy.Action{"the reply": proxy.HoldReply, "the call": proxy.Stall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, proxied := kit.StartProxied(t)
			p := kit.NewPool(t, kit.Open(t, proxied.Addr(), nil), 0)
			line := wire.Line(p.Name())
			waits := func(n int) { kit.Await(t, "the line", func() bool { return srv.Int(t, "LLEN", line) == int64(n) }) }
			ctx, cancel := context.WithCancel(t.Context())
			first := goAcquire(ctx, p, 1)
			waits(1)
			cancel()
			require.ErrorIs(t, kit.Within(t, kit.LongestWait, first, "the first call"), context.Canceled)
			waits(0) // and the next call stands at once

			acquired := proxied.On(kit.ScriptNamed("semaphore_acquire"), late, proxy.First)
			left := proxied.On(kit.ScriptNamed("semaphore_leave"), proxy.Pass, proxy.EveryTime)
			ctx, cancel = context.WithCancel(t.Context())
			second := goAcquire(ctx, p, 1)
			acquired.Wait(t, 1)
			cancel()
			require.ErrorIs(t, kit.Within(t, kit.LongestWait, second, "the second call"), context.Canceled)
			if late == proxy.Stall {
				left.Wait(t, 1) // when the client has given the silent connection up
			}
			acquired.Release()
			acquired.WaitAnswered(t, 1)
			waits(0)
		})
	}
}

// Also if the session is being closed by then.
func TestAPlaceThatIsTakenAtTheEndOfTheSessionIsGivenUp(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), nil)
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "warm", nil)).Release()) // it knows the server's clock
	p := kit.NewPool(t, s, 0)
	line := wire.Line(p.Name())
	stands := proxied.On(func(command []string) bool {
		return kit.ScriptNamed("semaphore_acquire")(command) && slices.ContainsFunc(command, func(word string) bool {
			return strings.HasPrefix(word, s.ID()+":")
		})
	}, proxy.HoldReply, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	got := goAcquire(ctx, p, 1)
	stands.Wait(t, 1)
	require.EqualValues(t, 1, srv.Int(t, "LLEN", line))
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, got, "the end"), context.Canceled)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // time for it to wait for what is under way
	stands.Release()
	require.NoError(t, kit.Within(t, kit.LongestWait, closed, "the end of the session"))
	require.Zero(t, srv.Int(t, "LLEN", line))
}

// A call that gives up leaves the place of its session to the next call that wants as many.
func TestAPlaceAmongThoseWhoWaitForPermitsIsBequeathed(t *testing.T) {
	eachPermitLine(t, 1, func(q *permitLine, all []func() error) {
		giveUp, heir := q.behind(1, 1)
		other := q.waits(q.Context(), q.comes(), 1)
		giveUp()
		require.NoError(q, all[0]())
		give := q.granted(kit.LongestWait, heir, "its heir")
		require.Empty(q, other)
		require.NoError(q, give())
		require.NoError(q, q.granted(kit.LongestWait, other, "the other one")())
		q.gone()
	})
}

// One that wants another number takes a place of its own, and that which was left is given up.
func TestAPlaceForAnotherNumberOfPermitsIsNotBequeathed(t *testing.T) {
	eachPermitLine(t, 1, func(q *permitLine, all []func() error) {
		giveUp, next := q.behind(2, 1)
		giveUp()
		kit.Await(q, "a place for one alone", func() bool {
			line := q.srv.Strs(q, "LRANGE", lineKey, "0", "-1")
			return len(line) == 1 && strings.HasSuffix(line[0], " 1")
		})
		require.NoError(q, all[0]())
		require.NoError(q, q.granted(kit.Told, next, "the one behind")())
		q.gone()
	})
}

// What the server has lost of the line costs a sign of life.
func TestALineOfPermitsThatIsEvicted(t *testing.T) {
	for name, keys := range map[string][]string{
		"the line": {lineKey}, "who is alive": {aliveKey}, "both": {lineKey, aliveKey}, "the permits": {"orders"},
		"all": {"orders", lineKey, aliveKey},
	} {
		t.Run(name, func(t *testing.T) {
			eachPermitLine(t, 1, func(q *permitLine, all []func() error) {
				one, two := q.waits(q.Context(), q.comes(), 1), q.waits(q.Context(), q.comes(), 1)
				q.srv.Do(q, append([]string{"DEL"}, keys...)...)
				require.NoError(q, all[0]())
				either := make(chan permitsTaken)
				for _, c := range []<-chan permitsTaken{one, two} {
					go func() { either <- <-c }()
				}
				give := q.granted(kit.LongestWait, either, "one of them")
				require.NoError(q, give())
				require.NoError(q, q.granted(kit.LongestWait, either, "the other one")())
				kit.Await(q, "an empty line", func() bool { return q.length() == 0 })
			})
		})
	}
}

// Who has no right to the line's keys and channels waits as if nobody knew it, and is woken at once.
func TestPermitsWithoutTheRightToALine(t *testing.T) {
	t.Parallel()
	for name, leased := range map[string]bool{"counting": false, "leased": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			srv.Grant(t, "weak", "+@all", "~orders", "~{orders}*", "~holdfast_session*", "&redisson_sc*")
			open := func(weak bool) taker {
				user := kit.ClientOption(srv.Addr())
				if weak {
					user.Username, user.Password = "weak", redistest.Password
				}
				return takerOf(kit.OpenWith(t, user, &holdfast.Options{Lease: 30 * time.Second}), "orders", leased)
			}
			for _, weak := range [][2]bool{{true, true}, {true, false}, {false, true}} { // who waits, who releases
				srv.Do(t, "FLUSHALL")
				srv.Do(t, "SET", "orders", "1")
				give, err := open(weak[1])(t.Context(), 1)
				require.NoError(t, err)
				got := make(chan permitsTaken, 1)
				go func() {
					give, err := open(weak[0])(t.Context(), 1)
					got <- permitsTaken{give, err}
				}()
				kit.Await(t, "a waiter", func() bool {
					return len(srv.Strs(t, "PUBSUB", "CHANNELS", "redisson_sc:*")) == 1
				})
				kit.SleepUntil(time.Now().Add(300 * time.Millisecond))
				require.Empty(t, got)
				require.NoError(t, give())
				taken := kit.Within(t, kit.LongestWait, got, "the waiter")
				require.NoError(t, taken.err)
				require.NoError(t, taken.give())
			}
		})
	}
}

func TestALineOfPermitsInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	permitsInACluster(t, cluster)
	permitsWhoseSlotMoves(t, cluster)
}

// In a cluster the line is where the semaphore is, and served in order where the server counts who listens.
func permitsInACluster(t *testing.T, cluster *redistest.Cluster) {
	for mode, pubsub := range map[string]holdfast.PubSubMode{
		"sharded": holdfast.PubSubSharded, "plain": holdfast.PubSubPlain,
	} {
		for kind, leased := range map[string]bool{"counting": false, "leased": true} {
			t.Run(mode+" "+kind, func(t *testing.T) {
				if pubsub == holdfast.PubSubSharded {
					cluster.NeedSharded(t)
				}
				name := "orders " + mode + kind
				node := cluster.NodeOf(t, name)
				open := func() taker {
					s := kit.OpenCluster(t, cluster, &holdfast.Options{Lease: 30 * time.Second, PubSub: pubsub})
					return takerOf(s, name, leased)
				}
				node.Do(t, "SET", name, "1")
				give, err := open()(t.Context(), 1)
				require.NoError(t, err)
				var waiting []<-chan permitsTaken
				all := make(chan permitsTaken, 4)
				for i := range 4 {
					got := make(chan permitsTaken, 1)
					waiting = append(waiting, got)
					go func() {
						give, err := open()(t.Context(), 1)
						if pubsub == holdfast.PubSubSharded {
							got <- permitsTaken{give, err}
						} else {
							all <- permitsTaken{give, err}
						}
					}()
					kit.Await(t, "one more in the line", func() bool {
						return node.Int(t, "LLEN", "holdfast_line:{"+name+"}") == int64(i+1)
					})
				}
				for _, got := range waiting {
					require.NoError(t, give())
					if pubsub == holdfast.PubSubPlain {
						got = all
					}
					taken := kit.Within(t, kit.LongestWait, got, "the next one")
					require.NoError(t, taken.err)
					give = taken.give
				}
				require.NoError(t, give())
			})
		}
	}
}

// It moves with its slot, and while that is half moved nobody waits for long.
func permitsWhoseSlotMoves(t *testing.T, cluster *redistest.Cluster) {
	for kind, leased := range map[string]bool{"counting": false, "leased": true} {
		for _, move := range []string{"moves", "is half moved"} {
			t.Run(kind+" "+move, func(t *testing.T) {
				name := kind + " " + move
				line := "holdfast_line:{" + name + "}"
				from, to := cluster.NodeOf(t, name), cluster.Nodes[0]
				if to == from {
					to = cluster.Nodes[1]
				}
				open := func() taker {
					return takerOf(kit.OpenCluster(t, cluster, &holdfast.Options{Lease: 30 * time.Second}), name, leased)
				}
				from.Do(t, "SET", name, "1")
				give, err := open()(t.Context(), 1)
				require.NoError(t, err)
				all := make(chan permitsTaken, 3)
				for i := range 3 {
					go func() {
						give, err := open()(t.Context(), 1)
						all <- permitsTaken{give, err}
					}()
					kit.Await(t, "one more in the line", func() bool { return from.Int(t, "LLEN", line) == int64(i+1) })
				}
				var half *redistest.Move
				if move == "moves" {
					cluster.MoveSlot(t, name, to)
				} else {
					half = cluster.OpenSlot(t, name, to)
					half.Take(t, line)
				}
				for i := range 3 {
					require.NoError(t, give())
					if i == 0 && half != nil && leased { // a semaphore without permits that are taken is on neither node now
						half.Finish(t)
					}
					taken := kit.Within(t, 3*kit.LongestWait, all, "one of them")
					require.NoError(t, taken.err)
					give = taken.give
					if i == 0 && half != nil && !leased {
						half.Finish(t)
					}
				}
				require.NoError(t, give())
			})
		}
	}
}
