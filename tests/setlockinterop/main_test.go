package setlockinterop

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

func TestMain(m *testing.M) {
	worker.Run(map[string]func([]string){"holder": beHolder, "renewer": beRenewer})
	code := m.Run()
	closeShared(code != 0)
	os.Exit(code)
}

// A pair is two libraries that share a lock, of which one is ours.
type pair struct{ first, second library }

// eachWay runs a test for each of their libraries, with ours in the second place and in the first, side by side: what
// takes long is to wait.
func eachWay(t *testing.T, test func(t *testing.T, p pair)) {
	t.Helper()
	t.Parallel()
	for _, their := range theirs {
		for _, p := range []pair{{their, ours}, {ours, their}} {
			t.Run(p.first.name+" then "+p.second.name, func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}

// eachOfTheirs runs a test for each of their libraries, side by side.
func eachOfTheirs(t *testing.T, test func(t *testing.T, their library)) {
	t.Helper()
	t.Parallel()
	for _, their := range theirs {
		t.Run(their.name, func(t *testing.T) {
			t.Parallel()
			test(t, their)
		})
	}
}

// start starts a program of its own that uses a library, for the duration of the test.
func (l library) start(t *testing.T, srv *redistest.Server) program {
	t.Helper()
	p, err := l.open(srv.Addr())
	needPython(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	redistest.Limit(t, func() { _ = p.close() })
	return p
}

// mutex is the lock x in the hands of a program of its own.
func (l library) mutex(t *testing.T, srv *redistest.Server, lease time.Duration) mutex {
	t.Helper()
	return l.start(t, srv).mutex(spec{name: "x", lease: lease})
}

// oursFor is a session of ours whose locks are renewed with that lease, for the duration of the test.
func oursFor(t *testing.T, srv *redistest.Server, lease time.Duration) *ourProgram {
	t.Helper()
	p, err := openOursFor(srv.Addr(), lease)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close()) })
	redistest.Limit(t, func() { _ = p.close() })
	return p
}

// take takes a lock that is free, and returns its token.
func take(t *testing.T, m mutex) string {
	t.Helper()
	got, err := m.try()
	require.NoError(t, err)
	require.True(t, got, "it is free")
	return tokenOf(t, m)
}

func tokenOf(t *testing.T, m mutex) string {
	t.Helper()
	token, err := m.token()
	require.NoError(t, err)
	require.NotEmpty(t, token)
	return token
}

// requireBusy fails the test if the lock is to be had.
func requireBusy(t *testing.T, m mutex) {
	t.Helper()
	got, err := m.try()
	require.NoError(t, err)
	require.False(t, got, "it is taken")
}

func requireMine(t *testing.T, m mutex, want bool) {
	t.Helper()
	mine, err := m.mine()
	require.NoError(t, err)
	require.Equal(t, want, mine)
}

// requireLock fails the test unless x is all there is, and has this token and, within seconds, this lease.
func requireLock(t *testing.T, srv *redistest.Server, token string, lease time.Duration) {
	t.Helper()
	space := srv.Keyspace(t)
	require.Equal(t, map[string]redistest.Value{"x": {Type: "string", Content: token, Expires: true}}, space)
	left := remaining(t, srv)
	require.LessOrEqual(t, left, lease)
	require.Greater(t, left, lease-min(lease/2, 5*time.Second))
}

func remaining(t *testing.T, srv *redistest.Server) time.Duration {
	t.Helper()
	return time.Duration(srv.Int(t, "PTTL", "x")) * time.Millisecond
}

// pass waits for a moment.
func pass(until time.Time) { <-time.After(time.Until(until)) }

// A wait is an attempt that goes on until the lock is free.
type wait struct {
	done chan error
	got  time.Time // once done has told
}

// begin begins to wait for a lock that is taken, and returns when the one who waits has looked several times, so that
// it is asleep between two looks. Nobody else may be busy meanwhile.
func begin(t *testing.T, srv *redistest.Server, m mutex) *wait {
	t.Helper()
	srv.ResetStats(t)
	w := beginToWait(m)
	kit.Await(t, "somebody who waits", func() bool {
		select {
		case err := <-w.done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		stats := srv.CommandStats(t)
		return stats["evalsha"]+stats["set"] >= 4
	})
	return w
}

func beginToWait(m mutex) *wait {
	w := &wait{done: make(chan error, 1)}
	go func() {
		err := m.wait()
		w.got = time.Now()
		w.done <- err
	}()
	return w
}

// end waits for the lock, and returns when it was got.
func (w *wait) end(t *testing.T) time.Time {
	t.Helper()
	select {
	case err := <-w.done:
		require.NoError(t, err)
	case <-time.After(2 * patience):
		t.Fatal("the lock was never got")
	}
	return w.got
}

// after releases the lock for the one who waits, and returns how long it took from then on until that had it, without
// the time in which this process stood still.
func (w *wait) after(t *testing.T, release func() error) time.Duration {
	t.Helper()
	released, still := time.Now(), kit.Stillness()
	require.NoError(t, release())
	got := w.end(t)
	return got.Sub(released) - still()
}

// A holder process takes a lock and sits on it until it is killed.
func beHolder(args []string) {
	addr, name := args[0], args[1]
	lease, err := time.ParseDuration(args[2])
	kit.Must(err)
	for _, l := range theirs {
		if l.name == name {
			p, err := l.open(addr)
			kit.Must(err)
			sit(p.mutex(spec{name: "x", lease: lease}))
		}
	}
}

// A renewer process does so with a lock of ours, which it renews.
func beRenewer(args []string) {
	lease, err := time.ParseDuration(args[1])
	kit.Must(err)
	p, err := openOursFor(args[0], lease)
	kit.Must(err)
	sit(p.mutex(spec{name: "x"}))
}

func sit(m mutex) {
	kit.Must(m.wait())
	worker.Say("held")
	<-worker.Stopped()
}

// startHolder has a process take the lock x, and returns what kills it.
func startHolder(t *testing.T, srv *redistest.Server, l library, lease time.Duration) (kill func()) {
	t.Helper()
	if l.name == redisPy.name {
		python, err := launchPython()
		needPython(t, err)
		t.Cleanup(python.kill)
		take(t, (&pythonProgram{python, srv.Addr()}).mutex(spec{name: "x", lease: lease}))
		return python.kill
	}
	said := make(chan string, 1)
	hear := func(line string) { said <- line }
	var w *worker.Worker
	if l.name == ours.name {
		w = worker.Start(t, hear, "renewer", srv.Addr(), lease.String())
	} else {
		w = worker.Start(t, hear, "holder", srv.Addr(), l.name, lease.String())
	}
	select {
	case line := <-said:
		require.Equal(t, "held", line)
	case <-w.Ended():
		t.Fatal("the holder has ended")
	case <-time.After(patience):
		t.Fatal("the holder has no lock")
	}
	return w.Kill
}
