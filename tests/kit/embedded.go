package kit

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The conformance suite also runs on the embedded server of holdfasttest: users must test on what their programs run
// with.

type conformance func(t *testing.T, k Kind, srv *redistest.Server)

// EveryKind is EachKind on both servers.
func EveryKind(t *testing.T, test conformance) {
	EachKind(t, test)
	embeddedRows(t, func(Kind) bool { return true }, test)
}

// EveryAlone is EachAlone on both servers.
func EveryAlone(t *testing.T, test conformance) {
	EachAlone(t, test)
	embeddedRows(t, func(k Kind) bool { return k.Most == nil }, test)
}

// EveryLock is EachLock on both servers.
func EveryLock(t *testing.T, test conformance) {
	EachLock(t, test)
	embeddedRows(t, func(k Kind) bool { return !k.Permits && !k.Several }, test)
}

// embeddedRows runs test in parallel for every kind that concerns selects, each with its own embedded server.
func embeddedRows(t *testing.T, concerns func(Kind) bool, test conformance) {
	for _, k := range Kinds {
		if !concerns(k) {
			continue
		}
		t.Run("embedded "+k.Name, func(t *testing.T) {
			t.Parallel()
			if k.Most != nil {
				k.Make = newEmbeddedRedLocks(t)
			}
			test(t, k, StartEmbedded(t))
		})
	}
}

// StartEmbedded starts an embedded server that can be observed like a real one. A proxy counts its calls.
func StartEmbedded(t *testing.T) *redistest.Server {
	t.Helper()
	counting := proxy.Start(t, holdfasttest.NewServer(t).Addr())
	calls := counting.On(proxy.Command("EVALSHA"), proxy.Delay(0), proxy.Times(math.MaxInt)) // it only counts
	return redistest.Attach(t, counting.Addr(), func() map[string]int64 {
		return map[string]int64{"evalsha": int64(calls.Matched())}
	})
}

// EitherServer starts a server, which is a real one or an embedded one.
var EitherServer = map[string]func(t *testing.T) *redistest.Server{
	"redis":    func(t *testing.T) *redistest.Server { t.Helper(); return redistest.Start(t) },
	"embedded": StartEmbedded,
}

// newEmbeddedRedLocks is newRedLocks with companions on embedded servers.
func newEmbeddedRedLocks(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	servers := []*holdfasttest.Server{holdfasttest.NewServer(t), holdfasttest.NewServer(t)}
	open := func() (companions []*holdfast.Session) {
		for _, server := range servers {
			companions = append(companions, server.Open(&holdfast.Options{Lease: Lease}))
		}
		return companions
	}
	return redLocksWith(open)
}
