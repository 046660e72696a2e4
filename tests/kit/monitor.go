package kit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A Monitor sees every command that a server executes, even inside scripts, in order and with the server's time. So
// it does not miss what is in a lock between two looks.
type Monitor struct {
	srv  *redistest.Server
	conn *redistest.Conn
	done chan struct{}

	mu   sync.Mutex
	seen []sighting
}

// A sighting is one command that the server executed.
type sighting struct {
	at   time.Time // by the server's clock, which is this machine's
	Args []string
}

// StartMonitor records what a server executes, until the test ends.
func StartMonitor(t testing.TB, srv *redistest.Server) *Monitor {
	t.Helper()
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	_, err = conn.Do("MONITOR")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	m := &Monitor{srv: srv, conn: conn, done: make(chan struct{})}
	go m.read()
	t.Cleanup(func() {
		_ = conn.Close()
		<-m.done
	})
	return m
}

func (m *Monitor) read() {
	defer close(m.done)
	for {
		line, err := m.conn.Receive()
		if err != nil {
			return // closed, or the server is down
		}
		if s, ok := parseSighting(fmt.Sprint(line)); ok {
			m.mu.Lock()
			m.seen = append(m.seen, s)
			m.mu.Unlock()
		}
	}
}

// parseSighting parses a line such as 1700000000.123456 [0 lua] "HSET" "orders" "owner" "1".
func parseSighting(line string) (sighting, bool) {
	stamp, rest, _ := strings.Cut(line, " ")
	_, command, ok := strings.Cut(rest, "] ")
	seconds, micros, _ := strings.Cut(stamp, ".")
	s, bad1 := strconv.ParseInt(seconds, 10, 64)
	us, bad2 := strconv.ParseInt(micros, 10, 64)
	if !ok || bad1 != nil || bad2 != nil {
		return sighting{}, false
	}
	args := strings.Split(strings.Trim(command, `"`), `" "`)
	return sighting{at: time.Unix(s, us*int64(time.Microsecond)), Args: args}, true
}

// Until returns what was executed so far.
func (m *Monitor) Until(t testing.TB) []sighting {
	t.Helper()
	mark := "mark-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	m.srv.Do(t, "ECHO", mark)
	var seen []sighting
	Await(t, "the server's monitor", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		seen = slices.Clone(m.seen)
		return slices.ContainsFunc(seen, func(s sighting) bool { return len(s.Args) == 2 && s.Args[1] == mark })
	})
	return seen
}

// Highest returns the highest hold count that a lock ever had.
func (m *Monitor) Highest(t testing.TB, lock string) int {
	t.Helper()
	highest := 0
	for _, s := range m.Until(t) {
		if len(s.Args) == 4 && strings.EqualFold(s.Args[0], "HSET") && s.Args[1] == lock {
			count, err := strconv.Atoi(s.Args[3])
			require.NoError(t, err)
			highest = max(highest, count)
		}
	}
	return highest
}

// Granted returns when the server made owner the holder of a lock.
func (m *Monitor) Granted(t testing.TB, lock, owner string) time.Time {
	t.Helper()
	for _, s := range m.Until(t) {
		if len(s.Args) == 4 && strings.EqualFold(s.Args[0], "HSET") && s.Args[1] == lock && s.Args[2] == owner {
			return s.at
		}
	}
	t.Fatalf("%q was never granted to %q", lock, owner)
	return time.Time{}
}
