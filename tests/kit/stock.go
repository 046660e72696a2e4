package kit

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A Stock lends servers that know all scripts to tests that do no harm to a server: to start one costs more than most
// of these do with it.
type Stock struct{ free chan *redistest.Server }

// NewStock starts n servers, which end with the test.
func NewStock(t testing.TB, n int) *Stock {
	t.Helper()
	s := &Stock{free: make(chan *redistest.Server, n)}
	for range n {
		s.free <- StartKnowing(t)
	}
	return s
}

// StartKnowing starts a server that knows all scripts.
func StartKnowing(t testing.TB) *redistest.Server {
	t.Helper()
	srv := redistest.Start(t)
	LoadScripts(t, srv)
	return srv
}

// Borrow lends an empty server to a test, and to nobody else until the test has ended and nothing can come any more
// over a connection that it opened.
func (s *Stock) Borrow(t testing.TB) *redistest.Server {
	t.Helper()
	srv := <-s.free
	t.Cleanup(func() {
		defer func() { s.free <- srv }()
		defer func() {
			if t.Failed() { // whatever it left behind, it is not the next one's
				srv.Restart()
				LoadScripts(t, srv)
			}
		}()
		if !t.Failed() {
			Await(t, "the end of the test's connections", func() bool { return srv.Connections(t) == 0 })
			srv.Do(t, "FLUSHALL")
			srv.ResetStats(t)
		}
	})
	return srv
}
