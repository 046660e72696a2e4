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

// StartEmbedded starts an embedded server that can be observed like a real one, except for how often a command was
// called.
func StartEmbedded(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Attach(t, holdfasttest.NewServer(t).Addr(), nil)
}

// startCounted is StartEmbedded behind a proxy, which counts the calls of scripts. Only those who need that get it:
// each goroutine between a caller and a server makes both slower on a busy machine.
func startCounted(t *testing.T) *redistest.Server {
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

// OnEither runs a test on each of them.
func OnEither(t *testing.T, test func(t *testing.T, srv *redistest.Server)) {
	t.Parallel()
	for name, start := range EitherServer {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
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
