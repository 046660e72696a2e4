package tests

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestSmoke(t *testing.T) {
	srv := redistest.Start(t)
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, &holdfast.Options{Lease: 3 * time.Second})
	require.NoError(t, err)
	defer s.Close()
	l := rlock.New(s, "x", nil)
	h, err := l.Lock(t.Context())
	require.NoError(t, err)
	t.Log(srv.Keyspace(t))
	ctx := h.Context(t.Context())
	h2, err := l.Lock(ctx)
	require.NoError(t, err)
	t.Log(srv.Keyspace(t))
	n, err := l.HoldCount(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, h.Release())
	t.Log(srv.Keyspace(t))
	done := make(chan error)
	go func() {
		h, err := l.Lock(t.Context())
		if err == nil {
			err = h.Release()
		}
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	t0 := time.Now()
	require.NoError(t, h2.Release())
	require.NoError(t, <-done)
	t.Log(time.Since(t0), srv.Keyspace(t))
	require.NoError(t, s.Close())
	_ = context.Background
}
