package demo

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/embedded"
)

// kept is a story in which worker 1, goroutine 1, stays in the midst of its work and has read 7.
func kept() (*redLockStory, *vigil) {
	r := newRedLockStory(&stage{})
	v := &vigil{worker: 1, goroutine: 1, read: 7}
	r.vigil = v
	return r, v
}

func TestVigil(t *testing.T) {
	r, v := kept()
	require.NoError(t, r.take(event{What: lingers, worker: 1, Goroutine: 1, Value: 7}))
	now := time.Now()
	require.NoError(t, r.take(event{What: renewed, worker: 2, at: now, Left: time.Hour}), "another's hold")
	require.NoError(t, r.take(event{What: renewed, worker: 1, at: now, Left: time.Hour}), "another goroutine's")
	require.Zero(t, v.until)
	require.NoError(t, r.take(event{What: renewed, worker: 1, Goroutine: 1, at: now, Left: time.Second}))
	require.Equal(t, now.Add(time.Second), v.until)
	require.Equal(t, seat{does: lingers, read: 7}, r.seats[0][1], "it still lingers")
	require.NoError(t, r.take(event{What: holds, worker: 2, Value: 6}), "held before, heard late")
}

func TestNobodyComesIntoAVigil(t *testing.T) {
	for _, e := range []event{
		{What: holds, worker: 2, Value: 7},
		{What: holds, worker: 1, Goroutine: 0, Value: 7},
		{What: holds, worker: 3, Value: 9},
	} {
		r, _ := kept()
		require.ErrorContains(t, r.take(e), "has got the lock, in the midst of the work of worker 1")
		r.vigil = nil
		require.NoError(t, r.take(e), "afterwards")
	}
}

func TestLossOfTheMajority(t *testing.T) {
	r, _ := kept()
	loss := event{What: lost, worker: 1, Goroutine: 1, Text: "did not write 8"}
	require.NoError(t, r.take(event{What: lost, worker: 2, Text: "another"}))
	require.EqualError(t, r.take(loss), "worker 1 has lost the lock, though most servers are there: did not write 8")

	r, v := kept()
	v.doomed = true
	require.NoError(t, r.take(event{What: expired, worker: 1, Goroutine: 1, Left: -time.Millisecond}))
	require.Empty(t, v.learned)
	require.NoError(t, r.take(loss))
	require.Equal(t, "did not write 8", v.learned)
	require.NoError(t, v.timely())
	require.Equal(t, "1.0 ms after", v.off())
	require.ErrorContains(t, r.take(event{What: holds, worker: 2, Value: 7}), "has got the lock", "there is no majority")
}

func TestWhoHadTheLockSince(t *testing.T) {
	r := newRedLockStory(&stage{})
	require.NoError(t, r.take(event{What: holds, worker: 1}))
	before := slices.Clone(r.ledger.workers)
	require.Zero(t, r.since(before))
	for _, worker := range []int{2, 4, 2} {
		require.NoError(t, r.take(event{What: holds, worker: worker}))
	}
	require.Equal(t, 2, r.since(before))
}

func TestVigilIsTimely(t *testing.T) {
	for late, want := range map[time.Duration]string{
		0:                             "",
		-time.Millisecond:             "",
		allowance:                     "",
		-allowance - time.Millisecond: "worker 1 was told of its loss 1.00 s before its deadline, too early",
		2 * allowance:                 "worker 1 was told of its loss only 2.00 s after its deadline",
		-2 * redLockLease:             "worker 1 was told of its loss 4.00 s before its deadline, too early",
		allowance - time.Millisecond:  "",
	} {
		err := (&vigil{worker: 1, expired: true, late: late}).timely()
		if want == "" {
			require.NoError(t, err, late)
		} else {
			require.EqualError(t, err, want)
		}
	}
	require.EqualError(t, (&vigil{worker: 1, learned: "closed"}).timely(), "the hold of worker 1 has not ended by itself: closed")
	require.Equal(t, "1.0 ms before", (&vigil{late: -time.Millisecond}).off())
}

// A server that is gone refuses connections. It comes back where it was, with what it knew, but for
// what has run out.
func TestServersComeBack(t *testing.T) {
	servers, err := startServers(3)
	t.Cleanup(func() { closeServers(servers) })
	require.NoError(t, err)
	r := newRedLockStory(&stage{screen: &screen{}, servers: servers})
	refuses := func(s *embedded.Server) error {
		conn, err := (&net.Dialer{Timeout: soon}).DialContext(t.Context(), "tcp", s.Addr())
		if err == nil {
			err = conn.Close()
			require.NoError(t, err)
		}
		return err
	}
	set(t, servers[1].URL(), "short", 10*time.Millisecond)
	set(t, servers[1].URL(), "long", time.Hour)

	r.killServers(2, 3)
	require.Equal(t, redLockServers-2, r.there())
	require.NoError(t, refuses(servers[0]))
	require.Error(t, refuses(servers[1]))
	require.Error(t, refuses(servers[2]))
	require.Equal(t, "  servers   ■ 1   × 2   × 3   ■ 4   ■ 5   3 are needed", r.serverLine())
	require.Contains(t, r.progress(), "3 of 5 servers, the lock changes hands, ")
	r.gone = append(r.gone, 1)
	require.Contains(t, r.progress(), "2 of 5 servers, nobody has the lock, ")
	r.gone = r.gone[:2]

	require.NoError(t, r.reviveServers())
	require.Equal(t, redLockServers, r.there())
	for _, s := range servers {
		require.NoError(t, refuses(s))
	}
	require.Eventually(t, func() bool { return !exists(t, servers[1].URL(), "short") }, soon, time.Millisecond)
	require.True(t, exists(t, servers[1].URL(), "long"))
}

// Servers that forget what they have granted let somebody in beside a holder, and the demo tells.
func TestRedLockWithoutExclusion(t *testing.T) {
	servers, err := startServers(redLockServers)
	t.Cleanup(func() { closeServers(servers) })
	require.NoError(t, err)
	out := &cue{text: "are killed", act: func() {
		for _, s := range servers {
			s.Forget()
		}
	}}
	s := newStage(redLockScene.name, &screen{out: out}, t.TempDir())
	s.servers, s.redis = servers, urlsOf(servers)
	defer s.close()
	require.ErrorContains(t, redLockScene.play(t.Context(), s), "has got the lock, in the midst of the work of worker ")
}

// A cue is an audience that acts when it hears something.
type cue struct {
	text string
	act  func()
}

func (c *cue) Write(text []byte) (int, error) {
	if strings.Contains(string(text), c.text) {
		c.act()
	}
	return len(text), nil
}

// set sets a key that runs out.
func set(t *testing.T, url, key string, lease time.Duration) {
	t.Helper()
	client := connect(t, url)
	defer client.Close()
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value("").Px(lease).Build()).Error())
}

// exists reports whether there is a key.
func exists(t *testing.T, url, key string) bool {
	t.Helper()
	client := connect(t, url)
	defer client.Close()
	n, err := client.Do(t.Context(), client.B().Exists().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	return n == 1
}

func connect(t *testing.T, url string) rueidis.Client {
	t.Helper()
	option, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	return client
}
