package locks

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Valkey from version 8 on names the master to a client that wants to know. Then messages are awaited there, too, and
// no longer at the former one, whose listeners nobody counts.
func TestASessionThatIsRedirectedListensAtTheMaster(t *testing.T) {
	t.Parallel()
	former, master := redistest.Start(t), redistest.Start(t)
	before, after := proxy.Start(t, former.Addr()), proxy.Start(t, master.Addr())
	for _, p := range []*proxy.Proxy{before, after} { // older servers do not know it
		p.On(proxy.Command("CLIENT CAPA"), proxy.Answer("+OK"), proxy.EveryTime)
	}
	s := kit.OpenWith(t, rueidis.ClientOption{
		InitAddress: []string{before.Addr()}, Standalone: rueidis.StandaloneOption{EnableRedirect: true},
	}, nil)
	kit.Lock(t, t.Context(), rlock.New(kit.Open(t, former.Addr(), nil), "orders", nil))
	hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, master.Addr(), nil), "orders", nil))
	got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
	kit.Await(t, "the subscription", func() bool { return len(former.Strs(t, "PUBSUB", "CHANNELS")) > 0 })

	calls := after.On(proxy.Command("EVALSHA"), proxy.Pass, proxy.EveryTime)
	before.On(proxy.Command("EXISTS"), proxy.Answer("-REDIRECT "+after.Addr()), proxy.EveryTime)
	former.Do(t, "REPLICAOF", "127.0.0.1", "1")
	calls.Wait(t, 1)
	kit.AwaitSoon(t, kit.Lease, "the subscription at the master", func() bool {
		return len(master.Strs(t, "PUBSUB", "CHANNELS")) > 0
	})
	require.NoError(t, hold.Release())
	require.NoError(t, kit.Within(t, kit.Lease, got, "the lock").Hold.Release())
}
