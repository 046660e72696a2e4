package locks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// openWeak opens a session of a user that has all rights but to some keys or channels. Each of its calls that begins to
// wait is told of.
func openWeak(t *testing.T, srv *redistest.Server, rights ...string) (s *holdfast.Session, waits <-chan struct{}) {
	t.Helper()
	srv.Grant(t, "weak", append(rights, "+@all")...)
	user := kit.ClientOption(srv.Addr())
	user.Username, user.Password = "weak", redistest.Password
	told := make(chan struct{}, 10)
	s = kit.OpenWith(t, user, &holdfast.Options{Lease: 30 * time.Second, Observer: &holdfast.Observer{
		Wait: func(holdfast.Subject) func() { told <- struct{}{}; return nil },
	}})
	return s, told
}

// A session that may not use the line of a lock, or not hear there when it is its turn, hears of a release on the
// lock's channel, as Redisson does: also if it has listened in the line before, and whoever of it waits.
func TestWhoMayNotUseALineIsToldOfReleases(t *testing.T) {
	t.Parallel()
	for _, k := range []lined{linedKinds[0], linedKinds[2]} {
		for without, rights := range map[string][]string{
			"keys": {"~" + kit.Orders, "&*"}, "channel": {"~*", "&redisson_*"},
		} {
			t.Run(k.name+" without "+without, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				weak, waits := openWeak(t, srv, rights...)
				holds := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
				for range 3 {
					give, err := k.take(t.Context(), holds, kit.Orders)
					require.NoError(t, err)
					got := make(chan permitsTaken, 1)
					go func() {
						give, err := k.take(t.Context(), weak, kit.Orders)
						got <- permitsTaken{give, err}
					}()
					kit.Within(t, kit.Told, waits, "the wait")
					require.NoError(t, give())
					taken := kit.Within(t, kit.Told, got, "the lock")
					require.NoError(t, taken.err)
					require.NoError(t, taken.give())
				}
			})
		}
	}
}

// A writer that may not hear when it is its turn is in no line, and races with the first one there, as Redisson's do:
// those who stand there again and again do not keep it out.
func TestAWriterInNoLineRacesWithThoseWhoAre(t *testing.T) {
	q := newWriterLine(t)
	weak, _ := openWeak(t, q.srv, "~*", "&redisson_*")
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer stop()
	for range 4 {
		l := rwlock.New(q.comes(), kit.Orders, nil).Write()
		crowd.Go(func() {
			for ctx.Err() == nil {
				_ = holdfast.Do(ctx, l.Lock, func(context.Context) error {
					kit.SleepUntil(time.Now().Add(10 * time.Millisecond))
					return nil
				})
			}
		})
	}
	kit.Await(t, "a line", func() bool { return q.length() >= 2 })
	got := kit.GoLock(t.Context(), rwlock.New(weak, kit.Orders, nil).Write().Lock)
	require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the one in no line").Release())
}

// A writer that may not use the line, and gives up, keeps no reader waiting.
func TestAWriterInNoLineThatGivesUpLetsReadersIn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	opts := &rwlock.Options{PreferWriter: true}
	weak, _ := openWeak(t, srv, "~"+kit.Orders, "~"+wire.RWWriters(kit.Orders), "&*")
	read := rwlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, opts).Read()
	reading := kit.Lock(t, t.Context(), read)
	write := rwlock.New(weak, kit.Orders, opts).Write()
	kit.WaitInVain(t, write.TryLockFor, time.Second)
	next := kit.Granted(t, kit.Told, kit.GoLock(t.Context(), read.Lock), "a reader")
	require.NoError(t, next.Release())
	require.NoError(t, reading.Release())
}
