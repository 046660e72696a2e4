package locks

import (
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// With a short lease a session gives up a connection soon, but not its first one: nothing is held yet.
func TestOpenIsAsPatientWithAShortLease(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	p.On(proxy.Command("HELLO"), proxy.Delay(time.Second), proxy.First)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 3 * time.Second})
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
}

func TestOpenGivesUp(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	p.StallNew(true)
	for name, c := range map[string]struct {
		dialer      net.Dialer
		lease       time.Duration
		least, most time.Duration
	}{
		"a short lease": {net.Dialer{}, time.Second, 2 * time.Second, 3 * time.Second},
		"a long lease":  {net.Dialer{}, time.Minute, 2 * time.Second, 3 * time.Second},
		"an own limit": {
			net.Dialer{Timeout: 500 * time.Millisecond}, time.Minute, 500 * time.Millisecond, 1500 * time.Millisecond,
		},
		"both": {
			net.Dialer{Timeout: 500 * time.Millisecond}, time.Second, 500 * time.Millisecond, 1500 * time.Millisecond,
		},
		"a limit too long": {net.Dialer{Timeout: time.Minute}, time.Minute, 2 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			took, began := kit.Stopwatch(), time.Now()
			_, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{p.Addr()}, Dialer: c.dialer},
				&holdfast.Options{Lease: c.lease})
			require.ErrorContains(t, err, "holdfast: open: no answer from "+p.Addr()+" within "+c.least.String()+": ")
			require.Greater(t, time.Since(began), c.least)
			require.Less(t, took(), c.most)
		})
	}
}

// An error that is not just slowness is returned at once.
func TestOpenRepeatsNoRefusal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "CONFIG", "SET", "requirepass", "secret")
	srv.ResetStats(t)
	_, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{srv.Addr()}, Password: "wrong"},
		&holdfast.Options{Lease: kit.Lease})
	require.ErrorContains(t, err, "WRONGPASS")
	require.EqualValues(t, 1, srv.CommandStats(t)["hello"])
}

// The server is loading when a session with Acks opens.
func TestASessionWithAcksOpensWhileTheServerIsLoading(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	p.On(proxy.Command("WAIT"), proxy.Answer(kit.LoadingReply), proxy.First)
	s, err := holdfast.Open(at(p.Addr()), &holdfast.Options{Acks: 1})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
