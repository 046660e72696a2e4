package several

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
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

// A holder hears that somebody asks though the first of its sessions, which it does not need, is closed.
func TestAHolderOfARedLockIsAskedWithoutItsFirstSession(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	near := f.Near(nil)
	h := f.Everywhere(kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
	require.NoError(t, near[0].Close())
	requireAsked(t, f, h.Asked())
	require.NoError(t, h.Release())
}

// A holder hears it though all members have been lost and granted anew since it began to listen.
func TestAHolderOfARedLockIsAskedByWhateverServers(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: kit.Lease})
	h := f.Everywhere(kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
	asked := h.Asked()
	for i, srv := range f.Servers {
		id, before := srv.Strs(t, "HKEYS", kit.Orders), f.Joined()
		srv.Do(t, "DEL", kit.Orders)
		kit.Await(t, "the server to be taken anew", func() bool { return f.Joined() > before })
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
		near := f.Near(&holdfast.Options{Reclaim: true, Lease: time.Minute})
		h := f.Everywhere(kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
		require.NoError(t, near[0].Close())
		require.NoError(t, h.Err())
	}()
	kit.Await(t, "empty servers", func() bool {
		runtime.GC()
		return kit.KeysLeft(t, f.Servers) == 0
	})
}
