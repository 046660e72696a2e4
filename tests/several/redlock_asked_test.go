package several

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// requireAsked asks on all servers for a lock, and requires that its holder hears it.
func requireAsked(t *testing.T, f *kit.Fleet, asked <-chan struct{}) {
	t.Helper()
	for _, s := range f.Far(nil) {
		_, err := rlock.New(s, kit.Orders, nil).Ask(t.Context())
		require.NoError(t, err)
	}
	kit.Within(t, 2*kit.LongestWait, asked, "to be asked")
}

// joined is how many servers the holds of sessions that log so know that they have got since they were taken.
func joined(t *testing.T, log *kit.Journal) int {
	t.Helper()
	return len(log.Entries(t, "holdfast: another server has the lock"))
}

// lockOnAll takes the lock on all three servers. The hold knows that it has the first, which it does not need.
func lockOnAll(t *testing.T, f *kit.Fleet, opts *holdfast.Options) (*holdfast.Hold, []*holdfast.Session) {
	t.Helper()
	var log kit.Journal
	opts.Logger = log.JsonLogger()
	near := f.Near(opts)
	loading := f.Proxies[0].On(kit.AnyScript, proxy.Answer("-LOADING it is not there yet"), proxy.EveryTime)
	h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
	loading.Remove()
	kit.Await(t, "the first server", func() bool { return joined(t, &log) > 0 })
	f.Has(near, 1, 1, 1)
	return h, near
}

// A holder hears that somebody asks though the first of its sessions, which it does not need, is closed.
func TestAHolderOfARedLockIsAskedWithoutItsFirstSession(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	h, near := lockOnAll(t, f, new(holdfast.Options))
	require.NoError(t, near[0].Close())
	requireAsked(t, f, h.Asked())
	require.NoError(t, h.Release())
}

// A holder hears it though all members have been lost and granted anew since it began to listen.
func TestAHolderOfARedLockIsAskedByWhateverServers(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: 3 * time.Second})
	h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
	f.Has(near, 1, 1, 1)
	asked := h.Asked()
	for i, srv := range f.Servers {
		id := srv.Strs(t, "HKEYS", kit.Orders)
		srv.Do(t, "DEL", kit.Orders)
		f.Has(near, 1, 1, 1)
		require.NotEqual(t, id, srv.Strs(t, "HKEYS", kit.Orders), i)
	}
	require.NoError(t, h.Err())
	requireAsked(t, f, asked)
	require.NoError(t, h.Release())
}

// A hold that nobody can release is given back though the first of its sessions, which it does not need, is closed.
func TestARedLockThatNobodyCanReleaseIsGivenBackWithoutItsFirstSession(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	func() {
		h, near := lockOnAll(t, f, &holdfast.Options{Reclaim: true, Lease: time.Minute})
		require.NoError(t, near[0].Close())
		require.NoError(t, h.Err())
	}()
	kit.Await(t, "empty servers", func() bool {
		runtime.GC()
		return kit.KeysLeft(t, f.Servers) == 0
	})
}
