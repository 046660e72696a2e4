package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports lie below the ranges from which kernels give ports to outgoing connections. Otherwise a client that redials
// a stopped server could be given the server's own port and be connected to itself. A cluster node's bus port, 10000
// higher, is below them too.
const (
	firstPort = 10000
	lastPort  = 19999
	busOffset = 10000
)

// handedOut are the ports this process was given, so that none is given twice before anyone listens on it.
var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// FreePort returns a loopback port on which nobody listens, and 10000 above which nobody does either. No two calls
// in one process return the same port.
func FreePort(t testing.TB) int {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if !handedOut.ports[port] && bindable(port) && bindable(port+busOffset) {
			handedOut.ports[port] = true
			return port
		}
	}
	t.Fatal("no free port found on 127.0.0.1")
	return 0
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
