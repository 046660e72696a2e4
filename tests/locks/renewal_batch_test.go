package locks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// stayHeld waits until all holds have been renewed for longer than a lease from now on. It fails the test if one is
// lost.
func stayHeld(t *testing.T, lease time.Duration, holds []*holdfast.Hold) {
	t.Helper()
	end := time.Now().Add(2 * lease)
	for _, hold := range holds {
		kit.Await(t, "the renewals of "+hold.Name(), func() bool {
			require.NoError(t, hold.Err())
			return hold.Deadline().After(end)
		})
	}
}

// A server refuses a whole call if the user may not touch one of its keys. Only that key's holder may lose it.
func TestANameThatMayNotBeTouchedCostsNoOther(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	srv := redistest.Start(t)
	srv.Grant(t, "weak", "+@all", "&*", "~app:*", "~other")
	s := kit.OpenWith(t, rueidis.ClientOption{
		InitAddress: []string{srv.Addr()}, Username: "weak",
		Password: redistest.Password,
	},
		&holdfast.Options{Lease: lease})
	other := kit.Lock(t, t.Context(), rlock.New(s, "other", nil))
	var holds []*holdfast.Hold
	for i := range 20 {
		holds = append(holds, kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("app:", i), nil)))
	}
	srv.Do(t, "ACL", "SETUSER", "weak", "resetkeys", "~app:*")
	still := kit.Stillness()
	stayHeld(t, lease, holds)
	require.ErrorIs(t, other.Err(), holdfast.ErrLost)
	if still() < lease/6 { // else the last renewal may have had no reply in time
		require.ErrorContains(t, other.Err(), "NOPERM")
	}
	for _, hold := range holds {
		require.NoError(t, hold.Release())
	}
}

// One call renews many locks. If the server has dropped one, or its key holds something else, only that one is lost.
func TestALockThatIsGoneCostsNoOther(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease})
	var kept, gone []*holdfast.Hold
	for _, k := range kit.OnOneServer() {
		if k.Twin || k.Several {
			continue
		}
		for i := range 6 {
			hold := kit.Lock(t, t.Context(), k.Make(s, fmt.Sprint("lock ", i, " ", k.Name), 0))
			if i == 2 || i == 4 {
				gone = append(gone, hold)
			} else {
				kept = append(kept, hold)
			}
		}
	}
	for name := range srv.Keyspace(t) {
		switch {
		case strings.Contains(name, "lock 2"):
			srv.Do(t, "DEL", name)
		case strings.Contains(name, "lock 4"):
			srv.Do(t, "DEL", name)
			srv.Do(t, "XADD", name, "*", "of", "another type")
		}
	}
	stayHeld(t, lease, kept)
	for _, hold := range gone {
		require.ErrorIs(t, hold.Err(), holdfast.ErrLost, hold.Name())
	}
}

// While a slot moves, each node serves those of its locks that it has, and no node has all of them.
func TestLocksOfASlotThatMovesAreRenewed(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	r := newResharding(t)
	s := kit.OpenCluster(t, r.Cluster, &holdfast.Options{Lease: lease})
	tag := r.name(t, "tag")
	var holds []*holdfast.Hold
	for i := range 20 {
		holds = append(holds, kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprintf("{%s}%d", tag, i), nil)))
	}
	move := r.open(t, tag, 0)
	for _, hold := range holds[:7] {
		move.Take(t, hold.Name())
	}
	stayHeld(t, lease, holds)
	move.Finish(t)
	for _, hold := range holds {
		require.NoError(t, hold.Release())
	}
}
