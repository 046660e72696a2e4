package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
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

// A process takes ports from blocks that no other test process has: a stopped server must find its port free when
// it comes back, whatever packages are tested beside it.
const blockSize = 100

// mine are this process's blocks.
var mine struct {
	sync.Mutex
	free  []int      // ports that were not given yet
	locks []*os.File // one for each block; the kernel drops them with the process
}

// FreePort returns a loopback port on which nobody listens, and 10000 above which nobody does either. No two calls
// return the same port, in this test process or in another that runs at the same time.
func FreePort(t testing.TB) int {
	t.Helper()
	mine.Lock()
	defer mine.Unlock()
	for {
		for len(mine.free) > 0 {
			port := mine.free[0]
			mine.free = mine.free[1:]
			if bindable(port) && bindable(port+busOffset) {
				return port
			}
		}
		if err := takeBlock(); err != nil {
			t.Fatalf("no free port on 127.0.0.1: %v", err)
		}
	}
}

// takeBlock takes a block that nobody has.
func takeBlock() error {
	folder := filepath.Join(os.TempDir(), "holdfast-test-ports")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for _, block := range rand.Perm((lastPort - firstPort + 1) / blockSize) {
		first := firstPort + block*blockSize
		file, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(first)), os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = file.Close()
			continue
		}
		mine.locks = append(mine.locks, file)
		for i := range blockSize {
			mine.free = append(mine.free, first+i)
		}
		return nil
	}
	return errors.New("other test processes have them all")
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
