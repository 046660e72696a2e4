package faults

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A server that has too many clients says so to whoever connects, before it was asked anything. If a call ends just
// when its connection is made, nothing is asked: the client took those words for a mistake in the protocol, and ended
// the process.
func TestAServerThatHasTooManyClientsEndsNoProcess(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rejected := func() string {
		info, _ := srv.Try("INFO", "stats")
		text, _ := info.(string)
		_, text, _ = strings.Cut(text, "rejected_connections:")
		text, _, _ = strings.Cut(text, "\r\n")
		return text
	}
	var connects atomic.Pointer[func()]
	opt := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
	opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (none rueidis.AuthCredentials, err error) {
		if f := connects.Load(); f != nil {
			(*f)()
		}
		return none, nil
	}
	l := rlock.New(kit.OpenWith(t, opt, nil), "orders", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	srv.Do(t, "CONFIG", "SET", "maxclients", "1") // that of the test
	srv.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		before := rejected()
		end := func() { // when the server has spoken, as a rule
			for began := time.Now(); rejected() == before && time.Since(began) < 100*time.Millisecond; {
				redistest.Pause(began)
			}
			cancel()
		}
		connects.Store(&end)
		_, err := l.TryLock(ctx)
		require.Error(t, err)
		cancel()
	}
	connects.Store(nil)
	srv.Do(t, "CONFIG", "SET", "maxclients", "100")
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
}
