package tests

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The conformance suite runs on the embedded server of holdfasttest, too: what its users test with must be
// what their programs run with.

type conformance func(t *testing.T, k kind, srv *redistest.Server)

// everyKind is eachKind on both servers.
func everyKind(t *testing.T, test conformance) {
	eachKind(t, test)
	embeddedRows(t, func(kind) bool { return true }, test)
}

// everyAlone is eachAlone on both servers.
func everyAlone(t *testing.T, test conformance) {
	eachAlone(t, test)
	embeddedRows(t, func(k kind) bool { return k.most == nil }, test)
}

// everyLock is eachLock on both servers.
func everyLock(t *testing.T, test conformance) {
	eachLock(t, test)
	embeddedRows(t, func(k kind) bool { return !k.permits && !k.several }, test)
}

// embeddedRows runs test once for every kind of which concerns is true, in parallel, each with an embedded
// server of its own.
func embeddedRows(t *testing.T, concerns func(kind) bool, test conformance) {
	for _, k := range kinds {
		if !concerns(k) {
			continue
		}
		t.Run("embedded "+k.name, func(t *testing.T) {
			t.Parallel()
			if k.most != nil {
				k.make = newEmbeddedRedLocks(t)
			}
			test(t, k, startEmbedded(t))
		})
	}
}

// startEmbedded starts an embedded server, to be observed as a real one is. A proxy counts its calls.
func startEmbedded(t *testing.T) *redistest.Server {
	t.Helper()
	counting := proxy.Start(t, holdfasttest.NewServer(t).Addr())
	calls := counting.On(proxy.Command("EVALSHA"), proxy.Delay(0), proxy.Times(math.MaxInt)) // it counts, no more
	return redistest.Attach(t, counting.Addr(), func() map[string]int64 {
		return map[string]int64{"evalsha": int64(calls.Matched())}
	})
}

// newEmbeddedRedLocks is newRedLocks with companions on embedded servers.
func newEmbeddedRedLocks(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) locker {
	servers := []*holdfasttest.Server{holdfasttest.NewServer(t), holdfasttest.NewServer(t)}
	open := func() (companions []*holdfast.Session) {
		for _, server := range servers {
			companions = append(companions, server.Open(&holdfast.Options{Lease: 3 * time.Second}))
		}
		return companions
	}
	return redLocksWith(open, &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 200 * time.Millisecond}) // of a machine that is busy
}
