package redistest

import (
	"net"
	"strconv"
	"testing"
)

// Attach observes a server on a loopback port that somebody else has started, and will stop. It need not be a real
// one; if it has no INFO commandstats, calls tells how often each command was called.
func Attach(t testing.TB, addr string, calls func() map[string]int64) *Server {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, port: port, calls: calls}
	s.observer.addr = addr
	t.Cleanup(s.observer.drop)
	return s
}
